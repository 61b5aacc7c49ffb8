"""Elements in classes by the level of their old value, and ranks within a class (SPEC.md section 9.6).

A level is a byte of magnitude, a class a run of levels. Elements are looked at in blocks: their levels as bytes, then
which of them lie at or above the first level of each class, as the bits of a word.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numba import njit

from deltawire.format.dtypes import Bits
from deltawire.kernels.intrinsics import BLOCK, LANES, at_least, count_ones, lowest_one, step_over

LEVELS = 256
MAX_CLASSES = LANES

_1 = np.uint64(1)
_NONE = (1 << 32) - 1
"""More than a box has elements, and all blocks together count (BOX-2)."""

Starts = npt.NDArray[np.uint8]
"""The first level of each class, ascending; 0 for the first class."""


@njit(inline="always", nogil=True, cache=True)
def _level(bits, width):  # type: ignore[no-untyped-def]
    # The eight bits below the sign, or all seven of a byte. Spelt out, so that each shift is a constant. RNK-1
    if width == 1:
        return np.uint8(bits & 127)
    if width == 2:
        return np.uint8(bits >> 7)
    if width == 4:
        return np.uint8(bits >> 23)
    return np.uint8(bits >> 55)


@njit(inline="always", nogil=True, cache=True)
def _read_levels(bits, width, start, levels):  # type: ignore[no-untyped-def]
    if start + BLOCK <= bits.size:
        block = bits[start : start + BLOCK]  # indexed from 0, which compilers can see to be inside
        if width == 1:
            for j in range(BLOCK):
                levels[j] = np.uint8(block[j] & 127)
        elif width == 2:
            for j in range(BLOCK):
                levels[j] = np.uint8(block[j] >> 7)
        elif width == 4:
            for j in range(BLOCK):
                levels[j] = np.uint8(block[j] >> 23)
        else:
            for j in range(BLOCK):
                levels[j] = np.uint8(block[j] >> 55)
    else:
        # What lies past the end is at level 0, and no class but the first begins there.
        levels[:] = 0
        for j in range(bits.size - start):
            levels[j] = _level(bits[start + j], width)


@njit(inline="always", nogil=True, cache=True)
def _members(levels, starts, own):  # type: ignore[no-untyped-def]
    """Which elements of a block are of a class."""
    members = at_least(levels, 0, starts[own])
    if own + 1 < starts.size:
        members &= ~at_least(levels, 0, starts[own + 1])
    return members


@njit(nogil=True, cache=True)
def _histogram(bits, width, stride, counts):  # type: ignore[no-untyped-def]
    for start in range(0, bits.size, BLOCK * stride):
        for j in range(start, min(start + BLOCK, bits.size)):
            counts[_level(bits[j], width)] += 1


@njit(nogil=True, cache=True)
def _tabulate(bits, width, starts, counts, sizes):  # type: ignore[no-untyped-def]
    levels = np.empty(BLOCK, np.uint8)
    for block in range(counts.size // MAX_CLASSES):
        start = block * BLOCK
        _read_levels(bits, width, start, levels)
        above = np.int64(min(BLOCK, bits.size - start))
        for c in range(starts.size):
            higher = count_ones(at_least(levels, 0, starts[c + 1])) if c + 1 < starts.size else np.int64(0)
            counts[block * MAX_CLASSES + c] = np.uint8(above - higher)
            sizes[c] += above - higher
            above = higher


@njit(nogil=True, cache=True)
def _rank(bits, width, starts, positions, classes, ranks, sizes):  # type: ignore[no-untyped-def]
    class_of = np.zeros(LEVELS, np.uint8)
    for c in range(1, starts.size):
        class_of[starts[c] :] = c
    levels = np.empty(BLOCK, np.uint8)
    above = np.zeros(starts.size + 1, np.int64)  # elements before the block, from the first level of each class
    k = 0
    for start in range(0, bits.size, BLOCK):
        _read_levels(bits, width, start, levels)
        above[0] = start
        while k < positions.size and positions[k] < start + BLOCK:
            place = np.int64(positions[k]) - start
            own = np.int64(class_of[levels[place]])
            before = _members(levels, starts, own) & ((_1 << np.uint64(place)) - _1)
            classes[k] = own
            ranks[k] = above[own] - above[own + 1] + count_ones(before)
            k += 1
        for c in range(1, starts.size):
            above[c] += count_ones(at_least(levels, 0, starts[c]))
    above[0] = bits.size
    for c in range(starts.size):
        sizes[c] = above[c] - above[c + 1]


@njit(nogil=True, cache=True)
def _locate(bits, width, starts, counts, ranks, ends, positions, items):  # type: ignore[no-untyped-def]
    levels = np.empty(BLOCK, np.uint8)
    item = np.zeros(MAX_CLASSES, np.int64)  # the next item of each class
    left = np.full(MAX_CLASSES, _NONE, np.uint32)  # elements of the class between the block and it
    for c in range(starts.size):
        item[c] = ends[c - 1] if c > 0 else 0
        if item[c] < ends[c]:
            left[c] = ranks[item[c]]
    found = np.int64(0)
    for block in range(counts.size // MAX_CLASSES):
        hits = step_over(left, counts, block * MAX_CLASSES)
        if hits == 0:
            continue
        _read_levels(bits, width, block * BLOCK, levels)
        first = found
        while hits:
            c = lowest_one(hits)
            hits &= hits - _1
            members = _members(levels, starts, c)
            own, rank, want = item[c], np.int64(0), np.int64(left[c])
            count = np.int64(counts[block * MAX_CLASSES + c])
            while want < count:
                for _ in range(rank, want):
                    members &= members - _1
                rank = want
                # Few are found in a block, class by class: each is put where it belongs.
                at, position = found, np.uint32(block * BLOCK + lowest_one(members))
                if position >= bits.size:  # the elements are others than were counted
                    return np.int64(0)
                while at > first and positions[at - 1] > position:
                    positions[at], items[at] = positions[at - 1], items[at - 1]
                    at -= 1
                positions[at], items[at] = position, own
                found += 1
                own += 1
                want = rank + np.int64(ranks[own]) - np.int64(ranks[own - 1]) if own < ends[c] else np.int64(_NONE)
            item[c], left[c] = own, np.uint32(want - count)
    return found


def level_counts(bits: Bits, *, sample: int | None = None) -> npt.NDArray[np.int64]:
    """How many elements are at each of the 256 levels: of all, or of about ``sample``, in scattered blocks."""
    stride = 1 if sample is None else max(bits.size // sample, 1)
    counts = np.zeros(LEVELS, np.int64)
    _histogram(bits, bits.itemsize, stride, counts)
    return counts


@dataclass(frozen=True, slots=True)
class ClassTable:
    """How the elements of a box are spread over classes."""

    counts: npt.NDArray[np.uint8]
    """For each block the elements of each of 16 classes: a quarter of a byte for each element."""
    sizes: npt.NDArray[np.int64]
    """Elements of each class."""


def count_classes(bits: Bits, starts: Starts) -> ClassTable:
    """Count the elements of each class, block by block."""
    counts = np.zeros(-(-bits.size // BLOCK) * MAX_CLASSES, np.uint8)
    sizes = np.zeros(starts.size, np.int64)
    _tabulate(bits, bits.itemsize, starts, counts, sizes)
    return ClassTable(counts, sizes)


def rank_in_classes(
    bits: Bits, starts: Starts, positions: npt.NDArray[np.uint32]
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
    """Class and rank within its class of the elements at ascending positions, and the sizes of the classes."""
    classes, ranks = np.empty(positions.size, np.uint8), np.empty(positions.size, np.uint32)
    sizes = np.empty(starts.size, np.int64)
    _rank(bits, bits.itemsize, starts, positions, classes, ranks, sizes)
    return classes, ranks, sizes


def locate_in_classes(
    bits: Bits, starts: Starts, table: ClassTable, ranks: npt.NDArray[np.uint32], ends: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]] | None:
    """Positions, ascending, of elements given by their ranks, and which item each was.

    None if the elements are no longer those that were counted, because someone writes to them.

    Args:
        bits: flat elements of the box.
        starts: of the classes.
        table: of these elements and classes.
        ranks: of the items, class by class, in each class ascending and below its size.
        ends: for each class the number of items up to its last.
    """
    positions, items = np.empty(ranks.size, np.uint32), np.empty(ranks.size, np.uint32)
    found = _locate(bits, bits.itemsize, starts, table.counts, ranks, ends, positions, items)
    return (positions, items) if found == ranks.size else None
