"""The bit stream of the codec ``ranked``: ranks and values, class by class (SPEC.md section 9.6)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numba import njit

from deltawire.format.dtypes import Bits
from deltawire.kernels.levels import Starts, count_classes, locate_in_classes, rank_in_classes
from deltawire.kernels.subsets import FAILED, PADDING, peek_bits, put_bits, read_subset, write_subset

Bytes8 = npt.NDArray[np.uint8]

_0, _1 = np.uint64(0), np.uint64(1)


@njit(inline="always", nogil=True, cache=True)
def _length(value):  # type: ignore[no-untyped-def]
    length = 0
    while value:
        length += 1
        value >>= _1
    return length


@njit(nogil=True, cache=True)
def _by_class(classes, count):  # type: ignore[no-untyped-def]
    """Items sorted by their classes, and where each class begins."""
    starts = np.zeros(count + 1, np.int64)
    for k in range(classes.size):
        starts[classes[k] + 1] += 1
    for c in range(count):
        starts[c + 1] += starts[c]
    free = starts[:-1].copy()
    order = np.empty(classes.size, np.uint32)
    for k in range(classes.size):
        order[free[classes[k]]] = k
        free[classes[k]] += 1
    return order, starts


@njit(nogil=True, cache=True)
def _write(old, new, classes, ranks, sizes, top, codes, data):  # type: ignore[no-untyped-def]
    order, starts = _by_class(classes, sizes.size)
    widest = np.int64(1)
    for c in range(sizes.size):
        widest = max(widest, starts[c + 1] - starts[c])
    items, live = np.empty(widest, np.uint32), np.empty(widest, np.uint32)
    values, lengths = np.empty(widest, np.uint64), np.empty(widest, np.uint8)
    gaps = np.empty(widest + 2, np.int64)
    at, used = np.int64(0), np.int64(0)
    for c in range(sizes.size):
        own = order[starts[c] : starts[c + 1]]
        for k in range(own.size):
            items[k] = ranks[own[k]]
        codes[used], at = write_subset(items, own.size, sizes[c], gaps, data, at)
        used += 1
        if own.size:
            at = _write_signs(old, new, own, top, items, values, gaps, codes[used:], data, at)
            used, at = _write_values(
                values[: own.size], 8 * old.itemsize - 1, items, live, lengths, gaps, codes, used + 2, data, at
            )
    return used, at


@njit(nogil=True, cache=True)
def _write_signs(old, new, own, top, items, values, gaps, codes, data, at):  # type: ignore[no-untyped-def]
    """Write which items flip and go down, and find their values."""
    flipped = 0
    for k in range(own.size):
        if (np.uint64(old[own[k]]) ^ np.uint64(new[own[k]])) & top:
            items[flipped] = k
            flipped += 1
    codes[0], at = write_subset(items, flipped, own.size, gaps, data, at)
    down = 0
    low = top - _1
    for k in range(own.size):
        before, after = np.uint64(old[own[k]]), np.uint64(new[own[k]])
        shorter = _0 if (before ^ after) & top else _1
        before, after = before & low, after & low
        if after < before:
            items[down] = k
            down += 1
            values[k] = before - after - shorter
        else:
            values[k] = after - before - shorter
    codes[1], at = write_subset(items, down, own.size, gaps, data, at)
    return at


@njit(nogil=True, cache=True)
def _write_values(values, most, items, live, lengths, gaps, codes, used, data, at):  # type: ignore[no-untyped-def]
    """Write lengths, layer by layer, and what is behind the first digits."""
    longest = np.int64(0)
    for k in range(values.size):
        lengths[k] = _length(values[k])
        longest = max(longest, np.int64(lengths[k]))
        live[k] = k
    alive = values.size
    for layer in range(1, min(longest + 1, most) + 1):
        kept = 0
        for k in range(alive):
            if lengths[live[k]] >= layer:
                items[kept] = k
                kept += 1
        codes[used], at = write_subset(items, kept, alive, gaps, data, at)
        used += 1
        for k in range(kept):
            live[k] = live[items[k]]
        alive = kept
    for k in range(values.size):
        if lengths[k] > 1:
            at = _put_long(data, at, values[k], np.int64(lengths[k]) - 1)
    return used, at


@njit(inline="always", nogil=True, cache=True)
def _put_long(data, at, value, count):  # type: ignore[no-untyped-def]
    """The low bits below the leading one, in two parts, as up to 62 do not fit into one."""
    value &= (_1 << np.uint64(count)) - _1
    if count > 32:
        at = put_bits(data, at, value & np.uint64(0xFFFFFFFF), 32)
        return put_bits(data, at, value >> np.uint64(32), count - 32)
    return put_bits(data, at, value, count)


@njit(inline="always", nogil=True, cache=True)
def _peek_long(data, at, count):  # type: ignore[no-untyped-def]
    if count > 32:
        low = peek_bits(data, at) & np.uint64(0xFFFFFFFF)
        high = peek_bits(data, at + 32) & ((_1 << np.uint64(count - 32)) - _1)
        return low | high << np.uint64(32)
    return peek_bits(data, at) & ((_1 << np.uint64(count)) - _1)


@njit(nogil=True, cache=True)
def _read(codes, sizes, data, end, most, ranks, ends, flipped, down, values):  # type: ignore[no-untyped-def]
    """Read ranks, signs and values of all items, class by class; False if the streams are not right."""
    changed = ranks.size
    at, used, total = np.int64(0), np.int64(0), np.int64(0)
    marks, live = np.empty(changed, np.uint32), np.empty(changed, np.uint32)
    lengths = np.zeros(changed, np.uint8)
    flipped[:] = False
    down[:] = False
    for c in range(sizes.size):
        size, at = read_subset(_code(codes, used), sizes[c], data, at, end, ranks[total:])
        if size == FAILED:
            return False
        used += 1
        first, total = total, total + size
        ends[c] = total
        if size == 0:
            continue
        at = _read_marks(_code(codes, used), data, at, end, marks, flipped[first:total])
        if at == FAILED:
            return False
        at = _read_marks(_code(codes, used + 1), data, at, end, marks, down[first:total])
        if at == FAILED:
            return False
        used, at = _read_lengths(codes, used + 2, data, at, end, most, marks, live, lengths[first:total])
        if at == FAILED:
            return False
        at = _read_digits(data, at, end, lengths[first:total], values[first:total])
        if at == FAILED:
            return False
    if used != codes.size or total != changed or at > end or (at + 7) >> 3 << 3 != end:
        return False
    return not at & 7 or data[at >> 3] >> np.uint8(at & 7) == 0


@njit(inline="always", nogil=True, cache=True)
def _code(codes, used):  # type: ignore[no-untyped-def]
    return codes[used] if used < codes.size else np.uint8(255)  # which is none


@njit(nogil=True, cache=True)
def _read_marks(code, data, at, end, marks, out):  # type: ignore[no-untyped-def]
    """Set what a subset names; the bit after it, or ``FAILED``."""
    count, at = read_subset(code, out.size, data, at, end, marks)
    if count == FAILED:
        return np.int64(FAILED)
    for k in range(count):
        out[marks[k]] = True
    return at


@njit(nogil=True, cache=True)
def _read_lengths(codes, used, data, at, end, most, marks, live, lengths):  # type: ignore[no-untyped-def]
    """Read the layers; how many code bytes were used, and the bit after them or ``FAILED``."""
    alive = np.int64(lengths.size)
    for k in range(alive):
        live[k] = k
    for _ in range(most):
        alive, at = read_subset(_code(codes, used), alive, data, at, end, marks)
        if alive == FAILED:
            return used, np.int64(FAILED)
        used += 1
        for k in range(alive):
            live[k] = live[marks[k]]
            lengths[live[k]] += 1
        if alive == 0:
            break
    return used, at


@njit(nogil=True, cache=True)
def _read_digits(data, at, end, lengths, values):  # type: ignore[no-untyped-def]
    """Read values of known lengths; the bit after them, or ``FAILED``."""
    for k in range(lengths.size):
        length = np.int64(lengths[k])
        if length > 1:
            if at + length - 1 > end:
                return np.int64(FAILED)
            values[k] = _peek_long(data, at, length - 1) | _1 << np.uint64(length - 1)
            at += length - 1
        else:
            values[k] = np.uint64(length)
    return at


@njit(nogil=True, cache=True)
def _apply(bits, positions, items, flipped, down, values, top, old, new):  # type: ignore[no-untyped-def]
    low = top - _1
    valid = True
    for k in range(positions.size):
        before = np.uint64(bits[positions[k]])
        item = items[k]
        crosses = flipped[item]
        size = before & low
        distance = values[item] + (_0 if crosses else _1)
        if down[item]:
            valid &= distance <= size and distance > _0
            after = size - distance
        else:
            valid &= distance <= low - size
            after = size + distance
        old[k] = before
        new[k] = (after & low) | ((before ^ top) & top if crosses else before & top)
    return valid


@dataclass(frozen=True, slots=True)
class Found:
    """What a row changes."""

    positions: npt.NDArray[np.uint32]
    """Within the box, ascending."""
    old: Bits
    new: Bits


def encode_ranked(
    bits: Bits, positions: npt.NDArray[np.uint32], old: Bits, new: Bits, starts: Starts
) -> tuple[Bytes8, Bytes8]:
    """Code bytes and bit stream of the elements of a box that changed.

    Args:
        bits: all old bits of the box, flat.
        positions: where it changed, ascending.
        old: old bits there.
        new: new bits there.
        starts: first levels of the classes.
    """
    classes, ranks, sizes = rank_in_classes(bits, starts, positions)
    width = bits.itemsize
    codes = np.empty(starts.size * (8 * width + 3), np.uint8)
    data = np.zeros(_most_bytes(bits.size, positions.size, starts.size, width), np.uint8)
    used, end = _write(old, new, classes, ranks, sizes, _top(bits), codes, data)
    return codes[:used], data[: (end + 7) // 8]


def _most_bytes(elements: int, changed: int, classes: int, width: int) -> int:
    """Room for any bit stream of so many changes.

    A list of m out of n items takes at most m + 1 codes of log2(n / m) + 5 bits, in all classes together no more than
    if they were one; signs take two bits, and a value two for each of its bits, as each layer is at most a bitmap.
    """
    spread = max(elements // max(changed, 1), 1).bit_length()
    bits = (changed + classes) * (spread + 6) + 64 * classes + changed * (2 + 16 * width)
    return bits // 8 + PADDING


def decode_ranked(bits: Bits, changed: int, starts: Starts, codes: Bytes8, stream: Bytes8) -> Found | None:
    """Read a row, which may be hostile; None if it does not hold exactly ``changed`` changes of the box. RNK-2 to RNK-4

    Args:
        bits: all old bits of the box, flat.
        changed: at most as many as there are elements.
        starts: first levels of the classes.
        codes: code bytes.
        stream: the bit stream.
    """
    table = count_classes(bits, starts)
    data = np.zeros(stream.size + PADDING, np.uint8)
    data[: stream.size] = stream
    ranks, values = np.empty(changed, np.uint32), np.empty(changed, np.uint64)
    flipped, down = np.empty(changed, np.bool_), np.empty(changed, np.bool_)
    ends = np.empty(starts.size, np.int64)
    most = 8 * bits.itemsize - 1
    if not _read(codes, table.sizes, data, 8 * stream.size, most, ranks, ends, flipped, down, values):
        return None
    located = locate_in_classes(bits, starts, table, ranks, ends)
    if located is None:
        return None
    positions, items = located
    old, new = np.empty(changed, bits.dtype), np.empty(changed, bits.dtype)
    if not _apply(bits, positions, items, flipped, down, values, _top(bits), old, new):
        return None
    return Found(positions, old, new)


def _top(bits: Bits) -> np.uint64:
    return np.uint64(1 << (8 * bits.itemsize - 1))
