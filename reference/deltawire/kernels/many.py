"""Many short rows in one call: what a call costs is more than a short row does.

Rows lie end to end: row ``r`` has what lies from ``ends[r - 1]`` to ``ends[r]``.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from deltawire.format.dtypes import Bits, Dtype
from deltawire.kernels.digest import GOLDEN, _mix

_0, _1, _8 = np.uint64(0), np.uint64(1), np.uint64(8)
Ends = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.uint64]


@njit(inline="always", nogil=True, cache=True)
def _ordered(bits, top, is_float):  # type: ignore[no-untyped-def]
    # Negative floats count downwards: all bits but the sign are flipped. It is its own inverse. VAL-2
    if is_float and bits & top:
        return bits ^ (top - _1)
    return bits


@njit(nogil=True, cache=True)
def _digests(old, new, positions, ends, firsts, seeds, before, after):  # type: ignore[no-untyped-def]
    k = 0
    for row in range(ends.size):
        was, became = np.uint64(0), np.uint64(0)
        while k < ends[row]:
            key = seeds[row] + (np.uint64(positions[k]) - np.uint64(firsts[row])) * GOLDEN
            was += _mix(key ^ np.uint64(old[k]))
            became += _mix(key ^ np.uint64(new[k]))
            k += 1
        before[row], after[row] = was, became


def digests_of_changes(
    old: Bits,
    new: Bits,
    positions: npt.NDArray[np.uint32],
    ends: Ends,
    *,
    firsts: npt.NDArray[np.uint32],
    seeds: Numbers,
) -> tuple[Numbers, Numbers]:
    """Digests of the old and of the new bits of each row's changes. DIG-3

    Args:
        old: of every change.
        new: likewise.
        positions: of every change.
        ends: of the rows in these.
        firsts: for each row the position of its tensor's first element.
        seeds: of each row's tensor.
    """
    before, after = np.empty(ends.size, np.uint64), np.empty(ends.size, np.uint64)
    _digests(old, new, positions, ends, firsts, seeds, before, after)
    return before, after


@njit(nogil=True, cache=True)
def _encode_gaps(positions, ends, firsts, out, out_ends):  # type: ignore[no-untyped-def]
    k = used = 0
    for row in range(ends.size):
        next_free = np.int64(firsts[row])
        while k < ends[row]:
            gap = np.int64(positions[k]) - next_free
            while gap >= 255:
                out[used] = 255
                used += 1
                gap -= 255
            out[used] = gap
            used += 1
            next_free = np.int64(positions[k]) + 1
            k += 1
        out_ends[row] = used


def encode_gap_rows(
    positions: npt.NDArray[np.uint32], ends: Ends, *, firsts: npt.NDArray[np.uint32]
) -> tuple[npt.NDArray[np.uint8], Ends]:
    """Positions of each row, counted from its first one, as gaps, and where in these each row ends. GAP-1

    Args:
        positions: of every change, ascending.
        ends: of the rows in these.
        firsts: for each row the position from which it counts, ascending.
    """
    spread = int(positions[-1]) + 1 - int(firsts[0])
    out, out_ends = np.empty(positions.size + spread // 255, np.uint8), np.empty(ends.size, np.int64)
    _encode_gaps(positions, ends, firsts, out, out_ends)
    return out, out_ends


@njit(nogil=True, cache=True)
def _encode_values(old, new, top, is_float, ends, signs, sign_ends, planes):  # type: ignore[no-untyped-def]
    mask = top | (top - _1)
    width = planes.shape[0]
    k = used = 0
    for row in range(ends.size):
        first = k
        while k < ends[row]:
            after, before = _ordered(np.uint64(new[k]), top, is_float), _ordered(np.uint64(old[k]), top, is_float)
            difference = (after - before) & mask
            negative = (difference & top) != _0
            magnitude = (((_0 - difference) & mask) if negative else difference) - _1
            place = k - first
            if place & 7 == 0:
                signs[used] = 0
                used += 1
            signs[used - 1] |= np.uint8(negative) << np.uint8(place & 7)
            planes[0, k] = np.uint8(magnitude)
            for plane in range(1, width):
                magnitude >>= _8
                planes[plane, k] = np.uint8(magnitude)
            k += 1
        sign_ends[row] = used


def encode_value_rows(
    old: Bits, new: Bits, ends: Ends, dtype: Dtype
) -> tuple[npt.NDArray[np.uint8], Ends, npt.NDArray[np.uint8]]:
    """Sign bits of all rows, each packed by itself, where in these each row ends, and planes (width, changes). VAL-1

    Args:
        old: bits of every change, which all differ from the new ones.
        new: likewise.
        ends: of the rows in these.
        dtype: of all rows.
    """
    signs, sign_ends = np.empty(old.size // 8 + ends.size, np.uint8), np.empty(ends.size, np.int64)
    planes = np.empty((dtype.width, old.size), np.uint8)
    top = np.uint64(1 << (8 * dtype.width - 1))
    _encode_values(old, new, top, dtype.order == "float", ends, signs, sign_ends, planes)
    return signs, sign_ends, planes


@njit(nogil=True, cache=True)
def _decode_gaps(stream, stream_ends, elements, ends, positions, good):  # type: ignore[no-untyped-def]
    k = 0
    for row in range(ends.size):
        start = 0 if row == 0 else ends[row - 1]
        count, next_free, byte = start, np.int64(0), np.int64(0)
        while k < stream_ends[row]:
            byte = np.int64(stream[k])
            k += 1
            if byte == 255:
                next_free += 255
                continue
            if count < ends[row]:
                positions[count] = next_free + byte
            count += 1
            next_free += byte + 1
        good[row] = count == ends[row] and byte != 255 and next_free <= elements[row]


def decode_gap_rows(
    stream: npt.NDArray[np.uint8], stream_ends: Ends, elements: npt.NDArray[np.int64], ends: Ends
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.bool_]]:
    """Positions of all rows, uint32, and of which rows they are exactly what they should be. GAP-2

    Args:
        stream: ``positions`` of all rows.
        stream_ends: of the rows in it; rows are not empty.
        elements: of each row's box.
        ends: of the rows in what comes out, by the changes that they count.
    """
    positions, good = np.zeros(int(ends[-1]), np.uint32), np.empty(ends.size, np.bool_)
    _decode_gaps(stream, stream_ends, elements, ends, positions, good)
    return positions, good


@njit(nogil=True, cache=True)
def _decode_values(old, top, is_float, signs, sign_ends, planes, ends, out, good):  # type: ignore[no-untyped-def]
    mask = top | (top - _1)
    width = planes.shape[0]
    k = 0
    for row in range(ends.size):
        first, sign_start = k, 0 if row == 0 else sign_ends[row - 1]
        valid = True
        while k < ends[row]:
            magnitude = np.uint64(planes[0, k])
            for plane in range(1, width):
                magnitude |= np.uint64(planes[plane, k]) << (_8 * np.uint64(plane))
            place = k - first
            negative = np.uint64((signs[sign_start + (place >> 3)] >> np.uint8(place & 7)) & 1)
            valid &= magnitude < top - (_1 - negative)
            sign = _0 - negative
            difference = ((magnitude + _1) ^ sign) - sign
            after = (_ordered(np.uint64(old[k]), top, is_float) + difference) & mask
            out[k] = _ordered(after, top, is_float)
            valid &= out[k] != old[k]
            k += 1
        spare = (k - first) & 7
        if spare:
            valid &= signs[sign_ends[row] - 1] >> np.uint8(spare) == 0
        good[row] = valid


def decode_value_rows(
    old: Bits, signs: npt.NDArray[np.uint8], sign_ends: Ends, planes: npt.NDArray[np.uint8], ends: Ends, dtype: Dtype
) -> tuple[Bits, npt.NDArray[np.bool_]]:
    """New bits of all rows, and of which rows they are exactly what they should be. VAL-1, VAL-3

    Args:
        old: old bits of every change.
        signs: of all rows, each packed by itself.
        sign_ends: of the rows in these, each with as many bytes as its changes need.
        planes: of shape (width, changes).
        ends: of the rows in the changes.
        dtype: of all rows.
    """
    out, good = np.empty_like(old), np.empty(ends.size, np.bool_)
    top = np.uint64(1 << (8 * dtype.width - 1))
    _decode_values(old, top, dtype.order == "float", signs, sign_ends, planes, ends, out, good)
    return out, good
