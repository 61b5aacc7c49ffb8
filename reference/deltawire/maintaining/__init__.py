"""Maintaining a stream: anchors and spans from what is in the store, what is retained, and removing what is not."""
