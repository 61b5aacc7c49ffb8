"""Where to cut levels into classes: whatever makes the fewest bits, by the entropy of what the classes hold.

A producer's choice alone: readers find the cuts in the row.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from deltawire.format.dtypes import Bits
from deltawire.kernels.levels import LEVELS, MAX_CLASSES, Starts, _level, level_counts

_LENGTHS = 65
"""Lengths of values in bits, 0 to 64."""
_SAMPLE = 1 << 15
_CLASS_BITS, _LAYER_BITS = 18.0, 5.0
"""What a class and each of its layers cost in code bytes after compression, about."""


@njit(inline="always", nogil=True, cache=True)
def _plogp(count):  # type: ignore[no-untyped-def]
    return count * np.log2(count) if count > 0 else 0.0


@njit(nogil=True, cache=True)
def _cost(elements, changed, flipped, lengths, longest):  # type: ignore[no-untyped-def]
    """Bits of a class of so many elements."""
    if changed == 0:
        return _CLASS_BITS / 2
    elements = max(elements, changed)
    bits = _CLASS_BITS + _plogp(elements) - _plogp(changed) - _plogp(elements - changed)
    bits += _plogp(changed) - _plogp(flipped) - _plogp(changed - flipped)
    rest = changed
    for length in range(longest + 1):
        if lengths[length] > 0:
            bits += _plogp(rest) - _plogp(lengths[length]) - _plogp(rest - lengths[length]) + _LAYER_BITS
            rest -= lengths[length]
    return bits


@njit(nogil=True, cache=True)
def _tally(old, new, top, changed, flipped, lengths):  # type: ignore[no-untyped-def]
    low = top - np.uint64(1)
    longest = 0
    for k in range(old.size):
        level = _level(old[k], old.itemsize)
        before, after = np.uint64(old[k]), np.uint64(new[k])
        crosses = (before ^ after) & top != 0
        before, after = before & low, after & low
        value = (after - before if after > before else before - after) - np.uint64(0 if crosses else 1)
        length = 0
        while value:
            length += 1
            value >>= np.uint64(1)
        changed[level] += 1
        flipped[level] += crosses
        lengths[level, length] += 1
        longest = max(longest, length)
    return longest


@njit(nogil=True, cache=True)
def _cost_of_two(elements, changed, flipped, lengths, longest, run):  # type: ignore[no-untyped-def]
    """Bits of a run of levels and the next one as one class."""
    return _cost(
        elements[run] + elements[run + 1],
        changed[run] + changed[run + 1],
        flipped[run] + flipped[run + 1],
        lengths[run] + lengths[run + 1],
        longest,
    )


@njit(nogil=True, cache=True)
def _choose(elements, changed, flipped, lengths, longest, most):  # type: ignore[no-untyped-def]
    # Runs of levels, each a class at first; the two neighbours that gain most by being one are joined, again and again.
    starts = np.empty(LEVELS, np.int64)
    costs = np.empty(LEVELS)
    runs = 0
    for level in range(LEVELS):
        if elements[level] or changed[level]:
            starts[runs] = level
            costs[runs] = _cost(elements[level], changed[level], flipped[level], lengths[level], longest)
            elements[runs], changed[runs], flipped[runs] = elements[level], changed[level], flipped[level]
            lengths[runs, :] = lengths[level, :]
            runs += 1
    gains, joint = np.empty(LEVELS), np.empty(LEVELS)
    for run in range(runs - 1):
        joint[run] = _cost_of_two(elements, changed, flipped, lengths, longest, run)
        gains[run] = costs[run] + costs[run + 1] - joint[run]
    while runs > 1:
        best = int(np.argmax(gains[: runs - 1]))
        if gains[best] < 0 and runs <= most:
            break
        elements[best] += elements[best + 1]
        changed[best] += changed[best + 1]
        flipped[best] += flipped[best + 1]
        lengths[best, :] += lengths[best + 1, :]
        costs[best] = joint[best]
        runs -= 1
        for run in range(best + 1, runs):
            starts[run], costs[run] = starts[run + 1], costs[run + 1]
            elements[run], changed[run], flipped[run] = elements[run + 1], changed[run + 1], flipped[run + 1]
            lengths[run, :] = lengths[run + 1, :]
            joint[run], gains[run] = joint[run + 1], gains[run + 1]
        for run in range(max(best - 1, 0), min(best + 1, runs - 1)):
            joint[run] = _cost_of_two(elements, changed, flipped, lengths, longest, run)
            gains[run] = costs[run] + costs[run + 1] - joint[run]
    starts[0] = 0
    return starts[:runs]


def choose_classes(bits: Bits, old: Bits, new: Bits) -> Starts:
    """First levels of the classes in which to write the changes of a box.

    Args:
        bits: all old bits of the box, flat.
        old: old bits of the elements that changed, at least one.
        new: their new bits.
    """
    changed, flipped = np.zeros(LEVELS, np.int64), np.zeros(LEVELS, np.int64)
    lengths = np.zeros((LEVELS, _LENGTHS), np.int64)
    longest = _tally(old, new, np.uint64(1 << (8 * bits.itemsize - 1)), changed, flipped, lengths)
    counts = level_counts(bits, sample=_SAMPLE)
    elements = counts * max(bits.size // max(int(counts.sum()), 1), 1)
    starts: npt.NDArray[np.int64] = _choose(elements, changed, flipped, lengths, longest, MAX_CLASSES)
    return starts.astype(np.uint8)
