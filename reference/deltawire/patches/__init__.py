"""Patch files: the difference between two checkpoints on disk as one file (SPEC.md section 8.9)."""
