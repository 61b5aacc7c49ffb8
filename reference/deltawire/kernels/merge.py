"""Merging ascending indices with what belongs to them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from deltawire.format.dtypes import Bits

Ascending = npt.NDArray[np.unsignedinteger]
"""Flat indices, ascending, none twice."""


@njit(nogil=True, cache=True)
def _merge(first, first_bits, second, second_bits, where, bits):  # type: ignore[no-untyped-def]
    i = j = count = 0
    while i < first.size and j < second.size:
        if first[i] <= second[j]:
            where[count], bits[count] = first[i], first_bits[i]
            j += first[i] == second[j]
            i += 1
        else:
            where[count], bits[count] = second[j], second_bits[j]
            j += 1
        count += 1
    for k in range(i, first.size):
        where[count], bits[count] = first[k], first_bits[k]
        count += 1
    for k in range(j, second.size):
        where[count], bits[count] = second[k], second_bits[k]
        count += 1
    return count


def merge_first_wins(
    first: Ascending, first_bits: Bits, second: Ascending, second_bits: Bits
) -> tuple[Ascending, Bits]:
    """All indices of both, each with the bits that ``first`` has for it, if any, else those of ``second``.

    Args:
        first: indices of the same type as ``second``.
        first_bits: an element for each.
        second: further indices.
        second_bits: an element of the same type for each.
    """
    where = np.empty(first.size + second.size, first.dtype)
    bits = np.empty(where.size, first_bits.dtype)
    count = _merge(first, first_bits, second, second_bits, where, bits)
    if count < where.size:  # in memory of their own size: they are kept
        return where[:count].copy(), bits[:count].copy()
    return where, bits
