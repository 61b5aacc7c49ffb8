"""Contributions to the state digest (SPEC.md section 10): one 64-bit mix an element, summed modulo 2^64."""

from __future__ import annotations

import numpy as np
from numba import njit

# The increment and output function of SplitMix64 (Steele, Lea, Flood 2014).
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
MIX_2 = np.uint64(0x94D049BB133111EB)
_30, _27, _31 = np.uint64(30), np.uint64(27), np.uint64(31)


@njit(inline="always", nogil=True, cache=True)
def _mix(x):  # type: ignore[no-untyped-def]
    x = (x ^ (x >> _30)) * MIX_1
    x = (x ^ (x >> _27)) * MIX_2
    return x ^ (x >> _31)


@njit(nogil=True, cache=True)
def digest_range(bits, seed, start):  # type: ignore[no-untyped-def]
    """Digest of consecutive elements ``bits`` whose first flat index is ``start``; uint64 in and out. DIG-2."""
    total = np.uint64(0)
    key = seed + start * GOLDEN
    for i in range(bits.size):
        total += _mix(key ^ np.uint64(bits[i]))
        key += GOLDEN
    return total


@njit(nogil=True, cache=True)
def digest_at(bits, positions, seed, start):  # type: ignore[no-untyped-def]
    """Digest of elements ``bits[k]`` at flat index ``start + positions[k]``; uint64 in and out. DIG-2."""
    total = np.uint64(0)
    for k in range(bits.size):
        total += _mix((seed + (start + np.uint64(positions[k])) * GOLDEN) ^ np.uint64(bits[k]))
    return total


@njit(nogil=True, cache=True)
def digest_changes(old, new, positions, seed, start):  # type: ignore[no-untyped-def]
    """Digests of ``old[k]`` and of ``new[k]`` at flat index ``start + positions[k]``. DIG-3."""
    before, after = np.uint64(0), np.uint64(0)
    for k in range(positions.size):
        key = seed + (start + np.uint64(positions[k])) * GOLDEN
        before += _mix(key ^ np.uint64(old[k]))
        after += _mix(key ^ np.uint64(new[k]))
    return before, after
