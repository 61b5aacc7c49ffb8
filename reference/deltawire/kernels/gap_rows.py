"""Reading a ``gap`` row against the bits held, with both of its digests, in one pass over it (SPEC.md section 9.3).

The old bits lie far apart in a large tensor, and fetching them takes longer than all the rest. So positions are read
some way ahead and their cache lines asked for, while the elements before are worked on.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numba import njit

from deltawire.format.dtypes import Bits, Dtype
from deltawire.kernels.digest import GOLDEN, _mix
from deltawire.kernels.intrinsics import prefetch
from deltawire.kernels.values import flip_of, top_of

_RUN = 128
"""Elements worked on at a time, and bytes of ``positions`` read at a time; a multiple of 8."""
_0, _1, _8 = np.uint64(0), np.uint64(1), np.uint64(8)
_MASK = (1 << 64) - 1

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class GapRow:
    """What a row says, with all it takes to verify it."""

    positions: npt.NDArray[np.uint32]
    """Ascending, within the box."""
    old: Bits
    """Old bits there."""
    new: Bits
    """New bits there."""
    before: int
    """Digest of the old bits."""
    after: int
    """Digest of the new bits."""


@njit(nogil=True, cache=True)
def _join(planes, start, size, magnitude):  # type: ignore[no-untyped-def]
    plane = planes[0][start : start + size]
    for k in range(size):
        magnitude[k] = plane[k]
    for number in range(1, len(planes)):
        plane, shift = planes[number][start : start + size], _8 * np.uint64(number)
        for k in range(size):
            magnitude[k] |= np.uint64(plane[k]) << shift


@njit(nogil=True, cache=True)
def _unpack(packed, negative):  # type: ignore[no-untyped-def]
    for k in range(packed.size):
        byte = np.uint64(packed[k])
        for bit in range(8):
            negative[8 * k + bit] = (byte >> np.uint64(bit)) & _1


@njit(nogil=True, cache=True)
def _add(old, magnitude, negative, size, top, flip, new):  # type: ignore[no-untyped-def]
    mask, out_of_range = top | (top - _1), _0
    for k in range(size):  # VAL-2
        sign = _0 - negative[k]
        ordered = old[k] ^ (flip if old[k] & top else _0)
        ordered = (ordered + (((magnitude[k] + _1) ^ sign) - sign)) & mask
        new[k] = ordered ^ (flip if ordered & top else _0)
    for k in range(size):  # VAL-3
        out_of_range += np.uint64(magnitude[k] >= top - _1 + negative[k])
    return out_of_range


@njit(nogil=True, cache=True)
def _digests(old, new, where, key, keys):  # type: ignore[no-untyped-def]
    before, after = _0, _0
    for k in range(where.size):
        keys[k] = key + np.uint64(where[k]) * GOLDEN
    for k in range(where.size):  # DIG-2
        before += _mix(keys[k] ^ old[k])
        after += _mix(keys[k] ^ new[k])
    return before, after


@njit(nogil=True, cache=True)
def _decode(flat, stream, signs, planes, top, flip, key, positions, olds, news):  # type: ignore[no-untyped-def]
    old, new, keys = np.empty(_RUN, np.uint64), np.empty(_RUN, np.uint64), np.empty(_RUN, np.uint64)
    magnitude, negative = np.empty(_RUN, np.uint64), np.empty(_RUN, np.uint64)
    before, after, out_of_range = _0, _0, _0
    count, next_free, at, done = np.int64(0), np.int64(0), 0, 0
    while at < stream.size:
        known = count
        run = stream[at : at + _RUN]
        for k in range(run.size):  # as in ``decode_gaps``
            byte = np.int64(run[k])
            ends = np.int64(byte != 255)
            positions[count] = next_free + byte
            count += ends
            next_free += byte + ends
        if next_free > flat.size or count > olds.size:  # before anything is read there
            return False, before, after
        ahead = positions[known:count]
        for k in range(ahead.size):
            prefetch(flat, np.int64(ahead[k]))
        at += run.size
        least = 1 if at == stream.size else 2 * _RUN
        # Each loop by itself is one that LLVM makes vectors of. Slices, because an index may count from the end.
        while count - done >= least:
            where = positions[done : min(done + _RUN, count)]
            size = where.size
            for k in range(size):
                old[k] = flat[where[k]]
            _join(planes, done, size, magnitude)
            _unpack(signs[done >> 3 : (done + size + 7) >> 3], negative)
            out_of_range += _add(old, magnitude, negative, size, top, flip, new)
            sums = _digests(old, new, where, key, keys)
            before += sums[0]
            after += sums[1]
            to_old, to_new = olds[done : done + size], news[done : done + size]
            for k in range(size):
                to_old[k] = old[k]
            for k in range(size):
                to_new[k] = new[k]
            done += size
    unfinished = stream.size > 0 and stream[stream.size - 1] == 255
    return not unfinished and count == olds.size and out_of_range == 0, before, after


def decode_row(
    flat: Bits, stream: Bytes, signs: Bytes, planes: tuple[Bytes, ...], dtype: Dtype, *, seed: int, first: int
) -> GapRow | None:
    """Read a row; None if its positions or differences are no good. GAP-2, VAL-3

    Args:
        flat: all old bits of the box.
        stream: its ``positions``, at least as many bytes as there are changes.
        signs: a bit for each change.
        planes: byte planes of the dtype, a byte for each change.
        dtype: of the tensor.
        seed: of the tensor, for digests.
        first: flat index of the first element of the box in the tensor.
    """
    changed = planes[0].size
    # A whole run is stored before it is known how many positions it holds.
    positions = np.empty(min(changed + _RUN, stream.size) + 1, np.uint32)
    old, new = np.empty(changed, flat.dtype), np.empty(changed, flat.dtype)
    key = np.uint64((seed + first * int(GOLDEN)) & _MASK)
    good, before, after = _decode(flat, stream, signs, planes, top_of(dtype), flip_of(dtype), key, positions, old, new)
    return GapRow(positions[:changed], old, new, int(before), int(after)) if good else None
