"""Deltawire: model weights through a bucket."""

__version__ = "0.1.0.dev0"
