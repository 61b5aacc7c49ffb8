"""Compiled loops over bit patterns. ``oracle`` holds the same functions in plain NumPy; the tests keep them equal.

Kernels check nothing: sizes and bounds are the caller's. They release the GIL.
"""
