"""Traces of real training: the bf16 weights an optimizer publishes, step after step, as bit patterns on disk.

``python -m benchmarks.traces`` makes them all (once; minutes on two cores). They lie in ``benchmarks/.cache/traces``
or where the environment variable ``DELTAWIRE_TRACES`` points.
"""

from benchmarks.traces.catalogue import TRACES, Trace
from benchmarks.traces.making import make_missing
from benchmarks.traces.store import folder, load

__all__ = ["TRACES", "Trace", "folder", "load", "make_missing"]
