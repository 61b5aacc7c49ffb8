"""Reading and writing elements at flat indices: NumPy would first turn every index into 64 signed bits."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from deltawire.format.dtypes import Bits
from deltawire.kernels.intrinsics import prefetch

AHEAD = 192
"""Elements by which cache lines are asked for ahead: memory is slow, so many of them must be under way at once."""


@njit(nogil=True, cache=True)
def _take(flat, where, out):  # type: ignore[no-untyped-def]
    early = max(where.size - AHEAD, 0)
    for k in range(early):
        prefetch(flat, np.int64(where[k + AHEAD]))
        out[k] = flat[where[k]]
    for k in range(early, where.size):
        out[k] = flat[where[k]]


@njit(nogil=True, cache=True)
def _put(flat, where, bits):  # type: ignore[no-untyped-def]
    early = max(where.size - AHEAD, 0)
    for k in range(early):
        prefetch(flat, np.int64(where[k + AHEAD]))
        flat[where[k]] = bits[k]
    for k in range(early, where.size):
        flat[where[k]] = bits[k]


def take(flat: Bits, where: npt.NDArray[np.unsignedinteger]) -> Bits:
    """Elements at valid flat indices, as a new array."""
    out = np.empty(where.size, flat.dtype)
    _take(flat, where, out)
    return out


def put(flat: Bits, where: npt.NDArray[np.unsignedinteger], bits: Bits) -> None:
    """Overwrite elements at valid flat indices."""
    _put(flat, where, bits)
