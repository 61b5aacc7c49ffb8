"""Finding the elements whose bits changed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numba import njit

from deltawire.format.dtypes import Bits
from deltawire.kernels.intrinsics import BLOCK, count_ones, differing, lowest_one

_RUN = 16
"""Blocks compared before what differs is listed. Few, so that the processor loads the next ones meanwhile."""
_1 = np.uint64(1)


@dataclass(frozen=True, slots=True)
class Changes:
    """The elements at which two arrays differ."""

    positions: npt.NDArray[np.uint32]
    """Where, ascending."""
    old: Bits
    """Bits of the first array there."""
    new: Bits
    """Bits of the second, each read once: they stay what they were if the array is written to meanwhile."""


class Room:
    """Memory that a scan writes into, for boxes of up to ``elements``; one scan at a time."""

    def __init__(self, elements: int) -> None:
        self.positions = np.empty(elements, np.uint32)
        self.old = np.empty(elements, np.uint64)
        self.new = np.empty(elements, np.uint64)


@njit(nogil=True, cache=True)
def _scan(old, new, positions, olds, news):  # type: ignore[no-untyped-def]
    count, equal = 0, 0
    masks, starts = np.empty(_RUN + 1, np.uint64), np.empty(_RUN + 1, np.int64)
    whole = old.size // BLOCK * BLOCK
    for run in range(0, whole, _RUN * BLOCK):
        # Stores first and counts after: a branch that depends on the data costs more than the store.
        found, differences = 0, 0
        for start in range(run, min(run + _RUN * BLOCK, whole), BLOCK):
            mask = differing(old, new, start)
            masks[found], starts[found] = mask, start
            found += mask != 0
            differences += count_ones(mask)
        # One loop over the ones of all masks, because how many each has cannot be predicted. The last step reads one
        # mask too many.
        at, mask = 0, masks[0]
        for k in range(count, count + differences):
            element = starts[at] + lowest_one(mask)
            before, after = old[element], new[element]
            positions[k], olds[k], news[k] = element, before, after
            equal += before == after
            mask &= mask - _1
            at += mask == 0
            following = masks[at]
            mask = following if mask == 0 else mask
        count += differences
    for element in range(whole, old.size):
        before, after = old[element], new[element]
        if before != after:
            positions[count], olds[count], news[count] = element, before, after
            count += 1
    return _without_equal(positions, olds, news, count) if equal else count


@njit(nogil=True, cache=True)
def _without_equal(positions, olds, news, count):  # type: ignore[no-untyped-def]
    # The new array was written to between two looks at it.
    kept = 0
    for k in range(count):
        positions[kept], olds[kept], news[kept] = positions[k], olds[k], news[k]
        kept += olds[k] != news[k]
    return kept


def find_changes(old: Bits, new: Bits, room: Room) -> Changes:
    """Elements at which two flat arrays of bit patterns differ.

    Args:
        old: contiguous, fewer than 2^31 elements.
        new: same dtype and size.
        room: where the result lies, until the next scan.
    """
    assert old.flags.c_contiguous and new.flags.c_contiguous  # noqa: S101, PT018 - whole blocks of memory are compared
    olds, news = room.old.view(old.dtype), room.new.view(old.dtype)
    count = _scan(old, new, room.positions, olds, news)
    return Changes(room.positions[:count], olds[:count], news[:count])
