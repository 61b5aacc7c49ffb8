"""Following a stream."""
