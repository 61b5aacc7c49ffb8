"""Values as differences of ordered integers: a sign bit and byte planes of magnitude - 1 (SPEC.md section 9.2)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from deltawire.format.dtypes import Bits, Dtype

_0, _1, _8 = np.uint64(0), np.uint64(1), np.uint64(8)


@njit(inline="always", nogil=True, cache=True)
def _ordered(bits, top, is_float):  # type: ignore[no-untyped-def]
    # Negative floats count downwards: all bits but the sign are flipped. It is its own inverse. VAL-2
    if is_float and bits & top:
        return bits ^ (top - _1)
    return bits


@njit(nogil=True, cache=True)
def _encode(old, new, top, is_float, signs, planes):  # type: ignore[no-untyped-def]
    mask = top | (top - _1)
    width = planes.shape[0]
    sign_byte = np.uint8(0)
    for k in range(old.size):
        after, before = _ordered(np.uint64(new[k]), top, is_float), _ordered(np.uint64(old[k]), top, is_float)
        difference = (after - before) & mask
        negative = (difference & top) != _0
        magnitude = (((_0 - difference) & mask) if negative else difference) - _1
        sign_byte |= np.uint8(negative) << np.uint8(k & 7)
        if k & 7 == 7:
            signs[k >> 3] = sign_byte
            sign_byte = np.uint8(0)
        planes[0, k] = np.uint8(magnitude)
        for plane in range(1, width):
            magnitude >>= _8
            planes[plane, k] = np.uint8(magnitude)
    if old.size & 7:
        signs[old.size >> 3] = sign_byte


@njit(nogil=True, cache=True)
def _decode(old, top, is_float, signs, planes, out):  # type: ignore[no-untyped-def]
    mask = top | (top - _1)
    width = planes.shape[0]
    valid = True
    for k in range(old.size):
        magnitude = np.uint64(planes[0, k])
        for plane in range(1, width):
            magnitude |= np.uint64(planes[plane, k]) << (_8 * np.uint64(plane))
        negative = np.uint64((signs[k >> 3] >> np.uint8(k & 7)) & 1)
        # magnitude - 1 reaches 2^(bits - 1) - 1, and that only downwards: one code for each difference. VAL-3
        valid &= magnitude < top - (_1 - negative)
        sign = _0 - negative
        difference = ((magnitude + _1) ^ sign) - sign
        after = (_ordered(np.uint64(old[k]), top, is_float) + difference) & mask
        out[k] = _ordered(after, top, is_float)
    return valid


def encode_differences(old: Bits, new: Bits, dtype: Dtype) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """Sign bits, packed least significant first, and planes of shape (width, changed), of elements that all differ."""
    signs = np.empty((old.size + 7) // 8, np.uint8)
    planes = np.empty((dtype.width, old.size), np.uint8)
    _encode(old, new, _top(dtype), dtype.order == "float", signs, planes)
    return signs, planes


def decode_differences(
    old: Bits, signs: npt.NDArray[np.uint8], planes: npt.NDArray[np.uint8], dtype: Dtype
) -> Bits | None:
    """New bits from old bits; None if a magnitude is out of range."""
    out = np.empty_like(old)
    return out if _decode(old, _top(dtype), dtype.order == "float", signs, planes, out) else None


def split_planes(bits: Bits) -> npt.NDArray[np.uint8]:
    """Byte planes, least significant first, of shape (width, elements), in memory of their own."""
    return np.array(bits.view(np.uint8).reshape(-1, bits.itemsize).T, order="C")


def join_planes(planes: npt.NDArray[np.uint8], dtype: Dtype) -> Bits:
    """Bit patterns from byte planes of shape (width, elements)."""
    return np.ascontiguousarray(planes.T).view(dtype.storage).reshape(-1)


def _top(dtype: Dtype) -> np.uint64:
    return np.uint64(1 << (8 * dtype.width - 1))
