"""Publishing a stream."""
