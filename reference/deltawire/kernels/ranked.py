"""The bit stream of the codec ``ranked``: ranks and values, class by class (SPEC.md section 9.6)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from numba import njit

from deltawire.format.dtypes import Bits
from deltawire.kernels.levels import Starts, locate_in_classes, rank_in_classes
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
def _write(old, new, classes, ranks, sizes, top, codes, data):  # type: ignore[no-untyped-def]
    count = ranks.size
    low = top - _1
    most = 8 * old.itemsize - 1  # layers
    ends = np.zeros(sizes.size + 1, np.int64)
    for k in range(count):
        ends[classes[k] + 1] += 1
    for c in range(sizes.size):
        ends[c + 1] += ends[c]
    fill = ends[:-1].copy()
    order = np.empty(count, np.uint32)
    for k in range(count):
        order[fill[classes[k]]] = k
        fill[classes[k]] += 1
    widest = np.int64(1)
    for c in range(sizes.size):
        widest = max(widest, ends[c + 1] - ends[c])
    items, live = np.empty(widest, np.uint32), np.empty(widest, np.uint32)
    values, lengths = np.empty(widest, np.uint64), np.empty(widest, np.uint8)
    gaps = np.empty(widest + 2, np.int64)
    at, used = np.int64(0), 0
    for c in range(sizes.size):
        first, size = ends[c], ends[c + 1] - ends[c]
        for k in range(size):
            items[k] = ranks[order[first + k]]
        codes[used], at = write_subset(items, size, sizes[c], gaps, data, at)
        used += 1
        if size == 0:
            continue
        flipped = 0
        for k in range(size):
            before, after = np.uint64(old[order[first + k]]), np.uint64(new[order[first + k]])
            if (before ^ after) & top:
                items[flipped] = k
                flipped += 1
        codes[used], at = write_subset(items, flipped, size, gaps, data, at)
        used += 1
        down, longest = 0, 0
        for k in range(size):
            before, after = np.uint64(old[order[first + k]]), np.uint64(new[order[first + k]])
            crosses = np.uint64((before ^ after) & top != _0)
            before, after = before & low, after & low
            if after < before:
                items[down] = k
                down += 1
                values[k] = before - after - _1 + crosses
            else:
                values[k] = after - before - _1 + crosses
            lengths[k] = _length(values[k])
            longest = max(longest, np.int64(lengths[k]))
        codes[used], at = write_subset(items, down, size, gaps, data, at)
        used += 1
        alive = size
        for layer in range(1, min(longest + 1, most) + 1):
            kept = 0
            at_layer = 0
            for k in range(alive):
                item = k if layer == 1 else np.int64(live[k])
                if lengths[item] >= layer:
                    items[kept] = k
                    kept += 1
            codes[used], at = write_subset(items, kept, alive, gaps, data, at)
            used += 1
            for k in range(kept):
                live[at_layer] = items[k] if layer == 1 else live[items[k]]
                at_layer += 1
            alive = kept
        for k in range(size):
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
    """Ranks, signs and values of all items, class by class; False if the streams are not what they must be."""
    changed = ranks.size
    at, used, total = np.int64(0), 0, np.int64(0)
    marks = np.empty(changed, np.uint32)
    live = np.empty(changed, np.uint32)
    lengths = np.zeros(changed, np.uint8)
    flipped[:] = False
    down[:] = False
    for c in range(sizes.size):
        if used == codes.size:
            return False
        size, at = read_subset(codes[used], sizes[c], data, at, end, ranks[total:])
        used += 1
        if size == FAILED:
            return False
        ends[c] = total + size
        if size == 0:
            continue
        if used + 2 > codes.size:
            return False
        count, at = read_subset(codes[used], size, data, at, end, marks)
        if count == FAILED:
            return False
        for k in range(count):
            flipped[total + np.int64(marks[k])] = True
        count, at = read_subset(codes[used + 1], size, data, at, end, marks)
        if count == FAILED:
            return False
        for k in range(count):
            down[total + np.int64(marks[k])] = True
        used += 2
        alive = size
        for k in range(size):
            live[k] = k
        for _ in range(most):
            if used == codes.size:
                return False
            count, at = read_subset(codes[used], alive, data, at, end, marks)
            used += 1
            if count == FAILED:
                return False
            for k in range(count):
                live[k] = live[marks[k]]
                lengths[total + np.int64(live[k])] += 1
            alive = count
            if count == 0:
                break
        for k in range(total, total + size):
            length = np.int64(lengths[k])
            if length > 1:
                if at + length - 1 > end:
                    return False
                values[k] = _peek_long(data, at, length - 1) | _1 << np.uint64(length - 1)
                at += length - 1
            else:
                values[k] = np.uint64(length)
        total += size
    if used != codes.size or total != changed or (at + 7) >> 3 << 3 != end or at > end:
        return False
    return not at & 7 or data[at >> 3] >> np.uint8(at & 7) == 0


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

    A list of m out of n items takes at most m + 1 codes of log2(n / m) + 5 bits, in all classes together no more than if
    they were one; signs take two bits, and a value two for each of its bits, as each layer is at most a bitmap.
    """
    spread = max(elements // max(changed, 1), 1).bit_length()
    bits = (changed + classes) * (spread + 6) + 64 * classes + changed * (2 + 16 * width)
    return bits // 8 + PADDING


def decode_ranked(
    bits: Bits, changed: int, starts: Starts, sizes: npt.NDArray[np.int64], codes: Bytes8, stream: Bytes8
) -> Found | None:
    """Read a row, which may be hostile; None if it does not hold exactly ``changed`` changes of the box. RNK-2 to RNK-6

    Args:
        bits: all old bits of the box, flat.
        changed: at most as many as there are elements.
        starts: first levels of the classes.
        sizes: how many elements each class has.
        codes: code bytes.
        stream: the bit stream.
    """
    data = np.zeros(stream.size + PADDING, np.uint8)
    data[: stream.size] = stream
    ranks, values = np.empty(changed, np.uint32), np.empty(changed, np.uint64)
    flipped, down = np.empty(changed, np.bool_), np.empty(changed, np.bool_)
    ends = np.empty(starts.size, np.int64)
    most = 8 * bits.itemsize - 1
    if not _read(codes, sizes, data, 8 * stream.size, most, ranks, ends, flipped, down, values):
        return None
    positions, items = locate_in_classes(bits, starts, ranks, ends)
    old, new = np.empty(changed, bits.dtype), np.empty(changed, bits.dtype)
    if not _apply(bits, positions, items, flipped, down, values, _top(bits), old, new):
        return None
    return Found(positions, old, new)


def _top(bits: Bits) -> np.uint64:
    return np.uint64(1 << (8 * bits.itemsize - 1))
