"""Anchors and spans made from what is in the store (SPEC.md section 11.12)."""
