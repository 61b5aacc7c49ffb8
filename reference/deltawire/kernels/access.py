"""Reading and writing elements at flat indices: NumPy would first turn every index into 64 signed bits."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from deltawire.format.dtypes import Bits


@njit(nogil=True, cache=True)
def _take(flat, where, out):  # type: ignore[no-untyped-def]
    for k in range(where.size):
        out[k] = flat[where[k]]


@njit(nogil=True, cache=True)
def _put(flat, where, bits):  # type: ignore[no-untyped-def]
    for k in range(where.size):
        flat[where[k]] = bits[k]


def take(flat: Bits, where: npt.NDArray[np.unsignedinteger]) -> Bits:
    """Elements at valid flat indices, as a new array."""
    out = np.empty(where.size, flat.dtype)
    _take(flat, where, out)
    return out


def put(flat: Bits, where: npt.NDArray[np.unsignedinteger], bits: Bits) -> None:
    """Overwrite elements at valid flat indices."""
    _put(flat, where, bits)
