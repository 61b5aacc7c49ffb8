"""Finding the elements whose bits changed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numba import njit

from deltawire.format.dtypes import Bits

_RUN = 1024


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
def _scan(old, new, old_words, new_words, per_word, positions, olds, news):  # type: ignore[no-untyped-def]
    # Eight bytes at a time: most words are equal, and only the others are looked at element by element. Both loops
    # store first and count after, because a branch that depends on the data costs more than the store.
    count = 0
    hits = np.empty(_RUN, np.int64)
    for start in range(0, old_words.size, _RUN):
        found = 0
        for word in range(start, min(start + _RUN, old_words.size)):
            hits[found] = word
            found += old_words[word] != new_words[word]
        for hit in range(found):
            first = hits[hit] * per_word
            for element in range(first, first + per_word):
                before, after = old[element], new[element]
                positions[count], olds[count], news[count] = element, before, after
                count += before != after
    for element in range(old_words.size * per_word, old.size):
        before, after = old[element], new[element]
        positions[count], olds[count], news[count] = element, before, after
        count += before != after
    return count


def find_changes(old: Bits, new: Bits, room: Room) -> Changes:
    """Elements at which two flat arrays of bit patterns differ.

    Args:
        old: contiguous, fewer than 2^31 elements.
        new: same dtype and size.
        room: where the result lies, until the next scan.
    """
    per_word = 8 // old.itemsize
    whole = old.size - old.size % per_word
    old_words, new_words = (_words(array[:whole]) for array in (old, new))
    if old_words is None or new_words is None:
        old_words = new_words = np.empty(0, np.uint64)
    olds, news = room.old.view(old.dtype), room.new.view(old.dtype)
    count = _scan(old, new, old_words, new_words, per_word, room.positions, olds, news)
    return Changes(room.positions[:count], olds[:count], news[:count])


def _words(array: Bits) -> npt.NDArray[np.uint64] | None:
    return array.view(np.uint64) if array.ctypes.data % 8 == 0 else None
