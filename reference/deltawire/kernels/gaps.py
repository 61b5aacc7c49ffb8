"""Positions as byte gaps with an escape (SPEC.md section 9.1)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

ESCAPE = 255


@njit(nogil=True, cache=True)
def _encode(positions, out):  # type: ignore[no-untyped-def]
    used, next_free = 0, np.int64(0)
    for k in range(positions.size):
        gap = np.int64(positions[k]) - next_free
        while gap >= 255:
            out[used] = 255
            used += 1
            gap -= 255
        out[used] = gap
        used += 1
        next_free = np.int64(positions[k]) + 1
    return used


@njit(nogil=True, cache=True)
def _decode(stream, elements, out):  # type: ignore[no-untyped-def]
    # Stores first and counts after: with long gaps a branch on the escape is mispredicted all the time.
    count, next_free = np.int64(0), np.int64(0)
    for k in range(stream.size):
        byte = np.int64(stream[k])
        ends = np.int64(byte != 255)
        out[count] = next_free + byte
        count += ends
        next_free += byte + ends
    unfinished = stream.size > 0 and stream[stream.size - 1] == 255
    return -1 if unfinished or next_free > elements else count


def max_gap_bytes(changed: int, elements: int) -> int:
    """Most bytes that ``changed`` positions in a box of ``elements`` can take."""
    return changed + elements // ESCAPE


def encode_gaps(positions: npt.NDArray[np.uint32], elements: int) -> npt.NDArray[np.uint8]:
    """Code ascending positions in a box of ``elements``; uint8."""
    out = np.empty(max_gap_bytes(len(positions), elements), np.uint8)
    return out[: _encode(positions, out)]


def decode_gaps(stream: npt.NDArray[np.uint8], elements: int, changed: int) -> npt.NDArray[np.uint32] | None:
    """Positions, ascending, uint32; None unless exactly ``changed`` positions below ``elements`` come out. GAP-2."""
    out = np.empty(stream.size + 1, np.uint32)
    return out[:changed] if _decode(stream, elements, out) == changed else None
