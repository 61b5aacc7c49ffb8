"""Finding the elements whose bits changed."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from deltawire.format.dtypes import Bits


@njit(nogil=True, cache=True)
def _scan(old, new, old_words, new_words, per_word, out):  # type: ignore[no-untyped-def]
    # Eight bytes at a time: most words are equal, and only the others are looked at element by element.
    count = 0
    for word in range(old_words.size):
        if old_words[word] != new_words[word]:
            for element in range(word * per_word, (word + 1) * per_word):
                if old[element] != new[element]:
                    out[count] = element
                    count += 1
    for element in range(old_words.size * per_word, old.size):
        if old[element] != new[element]:
            out[count] = element
            count += 1
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


def _words(array: Bits) -> npt.NDArray[np.uint64] | None:
    return array.view(np.uint64) if array.ctypes.data % 8 == 0 else None
