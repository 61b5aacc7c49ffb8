"""Which of a sequence of items are meant, in few bits: Rice codes of gaps, or a bitmap (SPEC.md section 9.7).

Rice codes (Rice and Plaunt 1971) are within a few per cent of the entropy for items that are meant independently of
each other, at any density, and need no tables.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from deltawire.kernels.intrinsics import count_ones, load_word, lowest_one, store_word

INVERTED, EMPTY, ALL, BITMAP = 32, 64, 96, 128
"""Kinds of a code byte, besides 0, a list; the parameter of lists is in the five bits below."""
LONG = 24
"""So many ones in front say that a whole gap of 32 bits follows."""
PADDING = 16
"""Bytes behind a bit stream that may be read, and are written to, without being part of it."""

FAILED = -1
"""In place of a count or a gap, of which the bits are not right: numba frees no memory when an error passes through."""
_AT_ONCE = 56
"""Bits of a bitmap looked at together."""
_1 = np.uint64(1)


@njit(inline="always", nogil=True, cache=True)
def put_bits(data, at, value, count):  # type: ignore[no-untyped-def]
    """Write the ``count`` low bits of ``value``, 56 at most and no others set, at bit ``at`` of zeroed memory."""
    place = at >> 3
    store_word(data, place, load_word(data, place) | value << np.uint64(at & 7))
    return at + count


@njit(inline="always", nogil=True, cache=True)
def peek_bits(data, at):  # type: ignore[no-untyped-def]
    """At least 57 bits from bit ``at`` on, the first one lowest."""
    return load_word(data, at >> 3) >> np.uint64(at & 7)


@njit(nogil=True, cache=True)
def _gaps(items, count, total, inverted, gaps):  # type: ignore[no-untyped-def]
    """Gaps between the listed items, and the one up to the end."""
    used, following = np.int64(0), np.int64(0)
    if inverted:
        for k in range(count + 1):
            item = np.int64(items[k]) if k < count else np.int64(total)
            # The items up to this one, which is meant, are not meant and so listed.
            start = np.int64(items[k - 1]) + 1 if k > 0 else np.int64(0)
            for listed in range(start, item):
                gaps[used] = listed - following
                used += 1
                following = np.int64(listed + 1)
    else:
        for k in range(count):
            item = np.int64(items[k])
            gaps[used] = item - following
            used += 1
            following = item + 1
    gaps[used] = total - following
    return used + 1


@njit(nogil=True, cache=True)
def _cost(gaps, count, parameter):  # type: ignore[no-untyped-def]
    bits = np.int64(0)
    for k in range(count):
        quotient = gaps[k] >> parameter
        bits += quotient + 1 + parameter if quotient < LONG else LONG + 32
    return bits


@njit(nogil=True, cache=True)
def write_subset(items, count, total, gaps, data, at):  # type: ignore[no-untyped-def]
    """Write ``items[:count]`` of ``total`` in the form that takes the fewest bits.

    Args:
        items: ascending, uint32.
        count: how many.
        total: of how many.
        gaps: int64, room for one more than half of ``total``, and for one more than ``count``.
        data: zeroed memory.
        at: bit to write at.

    Returns:
        The code byte and the bit after what was written.
    """
    if count == 0:
        return EMPTY, at
    if count == total:
        return ALL, at
    inverted = 2 * count > total
    listed = _gaps(items, count, total, inverted, gaps)
    # The best parameter is near log2(ln 2 x the mean gap).
    mean = (total - listed + 1) / listed * 0.693
    near = 0
    while near < 31 and (1 << (near + 1)) <= mean:
        near += 1
    parameter, best = near, _cost(gaps, listed, near)
    for other in (near - 1, near + 1):
        if 0 <= other <= 31:
            bits = _cost(gaps, listed, other)
            if bits < best:
                parameter, best = other, bits
    if total <= best:
        for k in range(count):
            bit = at + np.int64(items[k])
            data[bit >> 3] |= np.uint8(1) << np.uint8(bit & 7)
        return BITMAP, at + total
    low = (_1 << np.uint64(parameter)) - _1
    for k in range(listed):
        gap = np.uint64(gaps[k])
        quotient = np.int64(gaps[k] >> parameter)
        if quotient < LONG:
            ones = (_1 << np.uint64(quotient)) - _1
            at = put_bits(data, at, ones | (gap & low) << np.uint64(quotient + 1), quotient + 1 + parameter)
        else:
            at = put_bits(data, at, (_1 << np.uint64(LONG)) - _1 | gap << np.uint64(LONG), LONG + 32)
    return (INVERTED if inverted else 0) + parameter, at


@njit(nogil=True, cache=True)
def read_subset(code, total, data, at, end, items):  # type: ignore[no-untyped-def]
    """Read a subset of ``total`` items, that may be hostile, into ``items``.

    Args:
        code: the code byte.
        total: of how many.
        data: the bit stream and padding.
        at: bit to read at.
        end: bit after the stream.
        items: uint32; no more than it has room for are accepted.

    Returns:
        How many there are and the bit after what was read; ``FAILED`` if there is no such code, or its bits are not all
        there, or not right. SUB-1, SUB-2
    """
    if code == EMPTY:
        return np.int64(0), at
    if code == ALL:
        if total > items.size:
            return np.int64(FAILED), at
        for k in range(total):
            items[k] = k
        return np.int64(total), at
    if code == BITMAP:
        return _read_bitmap(total, data, at, end, items), at + total
    if code >= EMPTY:
        return np.int64(FAILED), at
    return _read_list(code, total, data, at, end, items)


@njit(nogil=True, cache=True)
def _read_bitmap(total, data, at, end, items):  # type: ignore[no-untyped-def]
    if total > end - at:
        return np.int64(FAILED)
    count = np.int64(0)
    for start in range(0, total, _AT_ONCE):
        word = peek_bits(data, at + start) & ((_1 << np.uint64(min(_AT_ONCE, total - start))) - _1)
        if count + count_ones(word) > items.size:
            return np.int64(FAILED)
        while word:
            items[count] = start + lowest_one(word)
            count += 1
            word &= word - _1
    return count


@njit(inline="always", nogil=True, cache=True)
def _read_gap(data, at, parameter):  # type: ignore[no-untyped-def]
    word = peek_bits(data, at)
    quotient = np.uint64(lowest_one(~word))
    if quotient < LONG:
        low = (_1 << parameter) - _1
        rest = word >> (quotient + _1) & low
        return np.int64(quotient << parameter | rest), at + np.int64(quotient + _1 + parameter)
    gap = word >> np.uint64(LONG) & np.uint64(0xFFFFFFFF)
    if gap >> parameter < LONG:
        return np.int64(FAILED), at  # it has a shorter code. SUB-3
    return np.int64(gap), at + LONG + 32


@njit(nogil=True, cache=True)
def _read_list(code, total, data, at, end, items):  # type: ignore[no-untyped-def]
    inverted = code >= INVERTED
    parameter = np.uint64(code & 31)
    count, following = np.int64(0), np.int64(0)
    while following <= total:
        if at >= end:
            return np.int64(FAILED), at
        gap, at = _read_gap(data, at, parameter)
        listed = following + gap
        meant = gap if inverted else np.int64(listed < total)
        if gap == FAILED or listed > total or count + meant > items.size:
            return np.int64(FAILED), at
        if inverted:
            for item in range(following, listed):
                items[count] = item
                count += 1
        elif listed < total:
            items[count] = listed
            count += 1
        following = listed + 1
    return (count if at <= end else np.int64(FAILED)), at
