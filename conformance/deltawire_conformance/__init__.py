"""Checks implementations of Deltawire, in any language, against SPEC.md."""

__version__ = "0.1.0.dev0"
