"""Values as differences of ordered integers: a sign bit and byte planes of magnitude - 1 (SPEC.md section 9.2)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from deltawire.format.dtypes import Bits, Dtype

_RUN = 512
"""Elements worked on at a time: what lies between two loops stays in the first-level cache. A multiple of 8."""
_0, _1, _8 = np.uint64(0), np.uint64(1), np.uint64(8)


@njit(nogil=True, cache=True)
def _encode(old, new, top, flip, signs, planes):  # type: ignore[no-untyped-def]
    # Negative floats count downwards: all bits but the sign are flipped. It is its own inverse. VAL-2
    # Each inner loop by itself is one that LLVM makes vectors of; slices, because an index may count from the end.
    mask = top | (top - _1)
    magnitude, negative = np.empty(_RUN, np.uint64), np.zeros(_RUN, np.uint8)
    for start in range(0, old.size, _RUN):
        olds, news = old[start : start + _RUN], new[start : start + _RUN]
        for k in range(olds.size):
            before, after = np.uint64(olds[k]), np.uint64(news[k])
            before ^= flip if before & top else _0
            after ^= flip if after & top else _0
            difference = (after - before) & mask
            below = difference & top
            magnitude[k] = (((_0 - difference) & mask) if below else difference) - _1
            negative[k] = below != 0
        negative[olds.size :] = 0
        packed = signs[start >> 3 : (start + olds.size + 7) >> 3]
        for byte in range(packed.size):
            ones = np.uint8(0)
            for bit in range(8):
                ones |= negative[8 * byte + bit] << np.uint8(bit)
            packed[byte] = ones
        for number in range(planes.shape[0]):
            plane, shift = planes[number][start : start + _RUN], _8 * np.uint64(number)
            for k in range(plane.size):
                plane[k] = np.uint8(magnitude[k] >> shift)


@njit(nogil=True, cache=True)
def _decode(old, top, flip, signs, planes, out):  # type: ignore[no-untyped-def]
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
        before = np.uint64(old[k])
        before ^= flip if before & top else _0
        after = (before + (((magnitude + _1) ^ sign) - sign)) & mask
        out[k] = after ^ (flip if after & top else _0)
    return valid


def encode_differences(old: Bits, new: Bits, dtype: Dtype) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """Sign bits, packed least significant first, and planes of shape (width, changed), of elements that all differ."""
    signs = np.empty((old.size + 7) // 8, np.uint8)
    planes = np.empty((dtype.width, old.size), np.uint8)
    _encode(old, new, top_of(dtype), flip_of(dtype), signs, planes)
    return signs, planes


def decode_differences(
    old: Bits, signs: npt.NDArray[np.uint8], planes: npt.NDArray[np.uint8], dtype: Dtype
) -> Bits | None:
    """New bits from old bits; None if a magnitude is out of range."""
    out = np.empty_like(old)
    return out if _decode(old, top_of(dtype), flip_of(dtype), signs, planes, out) else None


def split_planes(bits: Bits) -> npt.NDArray[np.uint8]:
    """Byte planes, least significant first, of shape (width, elements), in memory of their own."""
    return np.array(bits.view(np.uint8).reshape(-1, bits.itemsize).T, order="C")


def join_planes(planes: npt.NDArray[np.uint8], dtype: Dtype) -> Bits:
    """Bit patterns from byte planes of shape (width, elements)."""
    return np.ascontiguousarray(planes.T).view(dtype.storage).reshape(-1)


def top_of(dtype: Dtype) -> np.uint64:
    """The highest bit of an element, which is the sign of a float."""
    return np.uint64(1 << (8 * dtype.width - 1))


def flip_of(dtype: Dtype) -> np.uint64:
    """The bits that order turns over where the highest is set: all the others of a float, none of an integer. VAL-2"""
    return top_of(dtype) - _1 if dtype.order == "float" else _0
