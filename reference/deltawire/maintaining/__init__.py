"""Maintaining a stream: what is retained, and removing what is not."""
