"""Elements in classes by the level of their old value, and ranks within a class (SPEC.md section 9.6).

A level is a byte of magnitude, a class a run of levels. Elements are looked at in blocks: their levels as bytes, then
how many lie at or above the first level of each class, which compilers turn into a few vector instructions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numba import njit

from deltawire.format.dtypes import Bits

BLOCK = 128
"""Elements counted at once; no more, so that a count fits a byte."""
LEVELS = 256
MAX_CLASSES = 16

_ONES, _TOPS = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
_7, _56 = np.uint64(7), np.uint64(56)
_NONE = (1 << 31) - 1
"""More than any rank (BOX-2)."""

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
def _count_from(levels, first):  # type: ignore[no-untyped-def]
    count = np.uint8(0)
    for j in range(BLOCK):
        count = np.uint8(count + np.uint8(levels[j] >= first))
    return np.int64(count)


@njit(nogil=True, cache=True)
def _histogram(bits, width, stride, counts):  # type: ignore[no-untyped-def]
    for start in range(0, bits.size, BLOCK * stride):
        for j in range(start, min(start + BLOCK, bits.size)):
            counts[_level(bits[j], width)] += 1


@njit(nogil=True, cache=True)
def _tabulate(bits, width, starts, counts, sizes):  # type: ignore[no-untyped-def]
    levels = np.empty(BLOCK, np.uint8)
    above = np.zeros(MAX_CLASSES + 1, np.uint8)
    for block in range(counts.shape[0]):
        start = block * BLOCK
        _read_levels(bits, width, start, levels)
        above[0] = np.uint8(min(BLOCK, bits.size - start))
        for c in range(1, starts.size):
            above[c] = np.uint8(_count_from(levels, starts[c]))
        row = counts[block]
        for c in range(MAX_CLASSES):
            row[c] = above[c] - above[c + 1]
            sizes[c] += np.int64(row[c])


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
            place = np.uint8(np.int64(positions[k]) - start)
            own = class_of[levels[place]]
            low = starts[own]
            high = np.uint8(starts[own + 1] - 1 if own + 1 < starts.size else LEVELS - 1)
            before = np.uint8(0)
            for j in range(BLOCK):
                inside = np.uint8(levels[j] >= low) & np.uint8(levels[j] <= high)
                before = np.uint8(before + (inside & np.uint8(np.uint8(j) < place)))
            classes[k] = own
            ranks[k] = above[own] - above[own + 1] + np.int64(before)
            k += 1
        for c in range(1, starts.size):
            above[c] += _count_from(levels, starts[c])
    above[0] = bits.size
    for c in range(starts.size):
        sizes[c] = above[c] - above[c + 1]


@njit(nogil=True, cache=True)
def _locate(bits, width, starts, counts, ranks, ends, positions, items):  # type: ignore[no-untyped-def]
    classes = starts.size
    levels, members = np.empty(BLOCK, np.uint8), np.empty(BLOCK, np.uint8)
    words = members.view(np.uint64)
    before, after = np.zeros(MAX_CLASSES, np.int32), np.zeros(MAX_CLASSES, np.int32)
    item = np.zeros(MAX_CLASSES, np.int64)  # the next item of each class
    wanted = np.full(MAX_CLASSES, _NONE, np.int32)  # and its rank
    for c in range(classes):
        item[c] = ends[c - 1] if c > 0 else 0
        if item[c] < ends[c]:
            wanted[c] = np.int32(ranks[item[c]])
    found = np.int64(0)
    for block in range(counts.shape[0]):
        row = counts[block]
        hits = np.int32(0)
        for c in range(MAX_CLASSES):
            after[c] = before[c] + np.int32(row[c])
            hits += np.int32(wanted[c] < after[c])
        if hits > 0:
            _read_levels(bits, width, block * BLOCK, levels)
        first, c = found, 0
        while hits > 0:
            if wanted[c] < after[c]:
                low = starts[c]
                high = np.uint8(starts[c + 1] - 1 if c + 1 < classes else LEVELS - 1)
                for j in range(BLOCK):
                    members[j] = np.uint8(levels[j] >= low) & np.uint8(levels[j] <= high)
                rank, word = np.int64(before[c]), 0
                own, want = item[c], np.int64(wanted[c])
                while want < after[c]:
                    # Members are bytes 0 or 1, eight in a word: a product adds up each byte and those below it.
                    sums = words[word] * _ONES
                    while rank + np.int64(sums >> _56) <= want:
                        rank += np.int64(sums >> _56)
                        word += 1
                        sums = words[word] * _ONES
                    reached = ((sums | _TOPS) - np.uint64(want - rank + 1) * _ONES) & _TOPS
                    place = 8 * word + 8 - np.int64((reached >> _7) * _ONES >> _56)
                    # Few are found in a block, class by class: each is put where it belongs.
                    at = found
                    position = np.uint32(block * BLOCK + place)
                    while at > first and positions[at - 1] > position:
                        positions[at], items[at] = positions[at - 1], items[at - 1]
                        at -= 1
                    positions[at], items[at] = position, own
                    found += 1
                    own += 1
                    want = np.int64(ranks[own]) if own < ends[c] else np.int64(_NONE)
                item[c], wanted[c] = own, np.int32(want)
                hits -= 1
            c += 1
        before[:] = after


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
    """Elements of each class in each block, of shape (blocks, 16): an eighth of a byte for each element."""
    sizes: npt.NDArray[np.int64]
    """Elements of each class."""


def count_classes(bits: Bits, starts: Starts) -> ClassTable:
    """Count the elements of each class, block by block."""
    counts = np.empty((-(-bits.size // BLOCK), MAX_CLASSES), np.uint8)
    sizes = np.zeros(MAX_CLASSES, np.int64)
    _tabulate(bits, bits.itemsize, starts, counts, sizes)
    return ClassTable(counts, sizes[: starts.size])


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
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
    """Positions, ascending, of elements given by their ranks, and which item each was.

    Args:
        bits: flat elements of the box.
        starts: of the classes.
        table: of these elements and classes.
        ranks: of the items, class by class, in each class ascending and below its size.
        ends: for each class the number of items up to its last.
    """
    positions, items = np.empty(ranks.size, np.uint32), np.empty(ranks.size, np.uint32)
    _locate(bits, bits.itemsize, starts, table.counts, ranks, ends, positions, items)
    return positions, items
