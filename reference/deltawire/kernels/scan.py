"""Finding the elements whose bits changed."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from deltawire.format.dtypes import Bits

_RUN = 1024


@njit(nogil=True, cache=True)
def _scan(old, new, old_words, new_words, per_word, out):  # type: ignore[no-untyped-def]
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
                out[count] = element
                count += old[element] != new[element]
    for element in range(old_words.size * per_word, old.size):
        out[count] = element
        count += old[element] != new[element]
    return count


def changed_positions(old: Bits, new: Bits, scratch: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """Positions, ascending, at which two flat arrays of bit patterns differ.

    Args:
        old: contiguous, fewer than 2^31 elements.
        new: same dtype and size.
        scratch: at least as many elements; the result is a view of it.
    """
    per_word = 8 // old.itemsize
    whole = old.size - old.size % per_word
    old_words, new_words = (_words(array[:whole]) for array in (old, new))
    if old_words is None or new_words is None:
        empty = np.empty(0, np.uint64)
        count = _scan(old, new, empty, empty, per_word, scratch)
    else:
        count = _scan(old, new, old_words, new_words, per_word, scratch)
    return scratch[:count]


@njit(nogil=True, cache=True)
def _pick(old, new, positions, out):  # type: ignore[no-untyped-def]
    same = 0
    for k in range(positions.size):
        at = positions[k]
        bits = new[at]
        same += bits == old[at]
        out[at] = bits
    return same == 0


def pick(old: Bits, new: Bits, positions: npt.NDArray[np.uint32], out: Bits) -> bool:
    """Copy ``new`` at ``positions`` into ``out``, reading each element once; whether every one differs from ``old``."""
    return bool(_pick(old, new, positions, out))


def _words(array: Bits) -> npt.NDArray[np.uint64] | None:
    return array.view(np.uint64) if array.ctypes.data % 8 == 0 else None
