"""Elements in classes by the level of their old value, and ranks within a class (SPEC.md section 9.6).

A level is a byte of magnitude, a class a run of levels. Elements are looked at in blocks: their levels as bytes, then
how many lie at or above the first level of each class, which compilers turn into a few vector instructions.
"""

from __future__ import annotations

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
def _sizes(bits, width, starts, sizes):  # type: ignore[no-untyped-def]
    levels = np.empty(BLOCK, np.uint8)
    classes = starts.size
    for start in range(0, bits.size, BLOCK):
        _read_levels(bits, width, start, levels)
        for c in range(1, classes):
            sizes[c] += _count_from(levels, starts[c])
    sizes[0] = bits.size
    for c in range(classes - 1):
        sizes[c] -= sizes[c + 1]


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
            high = starts[own + 1] - 1 if own + 1 < starts.size else LEVELS - 1
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
def _locate(bits, width, starts, ranks, ends, positions, items):  # type: ignore[no-untyped-def]
    classes = starts.size
    levels = np.empty(BLOCK, np.uint8)
    members = np.empty(BLOCK, np.uint8)
    words = members.view(np.uint64)
    before = np.zeros(classes, np.int64)
    item = np.zeros(classes, np.int64)  # the next item of each class
    wanted = np.empty(classes, np.int64)  # and its rank
    for c in range(classes):
        item[c] = ends[c - 1] if c else 0
        wanted[c] = ranks[item[c]] if item[c] < ends[c] else np.int64(1) << 40
    found = 0
    for start in range(0, bits.size, BLOCK):
        _read_levels(bits, width, start, levels)
        above = np.int64(min(BLOCK, bits.size - start))
        first = found
        for c in range(classes):
            higher = _count_from(levels, starts[c + 1]) if c + 1 < classes else np.int64(0)
            here = above - higher
            above = higher
            end = before[c] + here
            if wanted[c] < end:
                low = starts[c]
                high = starts[c + 1] - 1 if c + 1 < classes else LEVELS - 1
                for j in range(BLOCK):
                    members[j] = np.uint8(levels[j] >= low) & np.uint8(levels[j] <= high)
                rank, word = before[c], 0
                while wanted[c] < end:
                    # Members are bytes 0 or 1, eight in a word: a product adds up each byte and those below it.
                    sums = words[word] * _ONES
                    while rank + np.int64(sums >> _56) <= wanted[c]:
                        rank += np.int64(sums >> _56)
                        word += 1
                        sums = words[word] * _ONES
                    reached = ((sums | _TOPS) - np.uint64(wanted[c] - rank + 1) * _ONES) & _TOPS
                    place = 8 * word + 8 - np.int64((reached >> _7) * _ONES >> _56)
                    # Few are found in a block, class by class: each is put where it belongs.
                    at = found
                    position = np.uint32(start + place)
                    while at > first and positions[at - 1] > position:
                        positions[at], items[at] = positions[at - 1], items[at - 1]
                        at -= 1
                    positions[at], items[at] = position, item[c]
                    found += 1
                    item[c] += 1
                    wanted[c] = ranks[item[c]] if item[c] < ends[c] else np.int64(1) << 40
            before[c] = end
    return found


def level_counts(bits: Bits, *, sample: int | None = None) -> npt.NDArray[np.int64]:
    """How many elements are at each of the 256 levels: of all, or of about ``sample``, in scattered blocks."""
    stride = 1 if sample is None else max(bits.size // sample, 1)
    counts = np.zeros(LEVELS, np.int64)
    _histogram(bits, bits.itemsize, stride, counts)
    return counts


def class_sizes(bits: Bits, starts: Starts) -> npt.NDArray[np.int64]:
    """How many elements each class has."""
    sizes = np.zeros(starts.size, np.int64)
    _sizes(bits, bits.itemsize, starts, sizes)
    return sizes


def rank_in_classes(
    bits: Bits, starts: Starts, positions: npt.NDArray[np.uint32]
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint32], npt.NDArray[np.int64]]:
    """Class and rank within its class of the elements at ascending positions, and the sizes of the classes."""
    classes, ranks = np.empty(positions.size, np.uint8), np.empty(positions.size, np.uint32)
    sizes = np.empty(starts.size, np.int64)
    _rank(bits, bits.itemsize, starts, positions, classes, ranks, sizes)
    return classes, ranks, sizes


def locate_in_classes(
    bits: Bits, starts: Starts, ranks: npt.NDArray[np.uint32], ends: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]:
    """Positions, ascending, of elements given by their ranks, and which item each was.

    Args:
        bits: flat elements of the box.
        starts: of the classes.
        ranks: of the items, class by class, in each class ascending and below its size.
        ends: for each class the number of items up to its last.
    """
    positions, items = np.empty(ranks.size, np.uint32), np.empty(ranks.size, np.uint32)
    _locate(bits, bits.itemsize, starts, ranks, ends, positions, items)
    return positions, items
