"""A lint of whole streams: whatever of SPEC.md can be seen in the bucket, held to requirement after requirement."""
