"""The kernels again in plain NumPy: slow, obvious, and what the compiled ones are tested against."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from deltawire.format.dtypes import Bits, Dtype
from deltawire.kernels.scan import Changes

Bytes8 = npt.NDArray[np.uint8]
U64 = npt.NDArray[np.uint64]


def mix(x: U64) -> U64:
    """The output function of SplitMix64."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def digest_at(bits: Bits, indices: npt.NDArray[np.unsignedinteger], seed: int) -> int:
    """Digest of elements at flat indices."""
    key = np.uint64(seed) + indices.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return int(mix(key ^ bits.astype(np.uint64)).sum(dtype=np.uint64))


def changed_positions(old: Bits, new: Bits) -> npt.NDArray[np.uint32]:
    """Positions at which two arrays differ."""
    return np.flatnonzero(old != new).astype(np.uint32)


def find_changes(old: Bits, new: Bits) -> Changes:
    """Elements at which two arrays differ."""
    positions = changed_positions(old, new)
    return Changes(positions, old[positions], new[positions])


def encode_gaps(positions: npt.NDArray[np.uint32]) -> Bytes8:
    """u8 gaps with 255 as escape."""
    gaps = np.diff(positions.astype(np.int64), prepend=-1) - 1
    escapes = gaps // 255
    out = np.full(int((escapes + 1).sum()), 255, np.uint8)
    out[np.cumsum(escapes + 1) - 1] = np.mod(gaps, 255)
    return out


def decode_gaps(stream: Bytes8, elements: int, changed: int) -> npt.NDArray[np.uint32] | None:
    """Positions from gaps, or None if they are not ``changed`` positions below ``elements``."""
    ends = stream != 255
    positions = np.cumsum(stream.astype(np.int64))[ends] + np.arange(int(ends.sum()))
    whole = len(stream) == 0 or ends[-1]
    if not whole or len(positions) != changed or (changed and positions[-1] >= elements):
        return None
    return np.asarray(positions, np.uint32)


def ordered(bits: Bits, dtype: Dtype) -> list[int]:
    """Bit patterns as the signed integers whose order is the numbers' order, -0.0 just below 0.0."""
    top = 1 << (8 * dtype.width - 1)
    values = [int(b) for b in bits]
    if dtype.order == "float":
        return [b if b < top else top - 1 - b for b in values]
    return [b if b < top else b - 2 * top for b in values]


def encode_differences(old: Bits, new: Bits, dtype: Dtype) -> tuple[Bytes8, Bytes8]:
    """Sign bits and planes of magnitude - 1 by exact integers."""
    modulus = 1 << (8 * dtype.width)
    wrapped = [(b - a) % modulus for a, b in zip(ordered(old, dtype), ordered(new, dtype), strict=True)]
    differences = [d - modulus if d >= modulus // 2 else d for d in wrapped]
    signs = np.packbits(np.array([d < 0 for d in differences], bool), bitorder="little")
    magnitudes = np.array([abs(d) - 1 for d in differences], dtype.storage)
    return signs, magnitudes.view(np.uint8).reshape(-1, dtype.width).T.copy()


class BitReader:
    """Bits of a stream, the least significant of each byte first."""

    def __init__(self, stream: Bytes8) -> None:
        self._bits = [int(bit) for bit in np.unpackbits(stream, bitorder="little")]
        self._at = 0

    def take(self, count: int) -> int:
        """The next bits as a number, the first one lowest. Raises ValueError where there are not as many."""
        if self._at + count > len(self._bits):
            raise ValueError("the stream ends")
        taken = self._bits[self._at : self._at + count]
        self._at += count
        return sum(bit << place for place, bit in enumerate(taken))

    def rest(self) -> list[int]:
        """What was not taken."""
        return self._bits[self._at :]


def read_subset(code: int, total: int, bits: BitReader) -> list[int]:
    """Numbers below ``total`` that a code byte and its bits name. Raises ValueError if they name none rightly."""
    if code in {64, 96}:
        return list(range(total)) if code == 96 else []
    if code == 128:
        return [number for number in range(total) if bits.take(1)]
    if code > 63:
        raise ValueError("no such code")
    parameter, listed, following = code % 32, [], 0
    while True:
        quotient = 0
        while quotient < 24 and bits.take(1):
            quotient += 1
        gap = quotient << parameter | bits.take(parameter) if quotient < 24 else bits.take(32)
        if quotient == 24 and gap >> parameter < 24:
            raise ValueError("a gap has a shorter form")
        following += gap
        if following > total:
            raise ValueError("a number past the end")
        if following == total:
            break
        listed.append(following)
        following += 1
    return sorted(set(range(total)) - set(listed)) if code >= 32 else listed


def decode_ranked(old: Bits, dtype: Dtype, classes: Bytes8, items: Bytes8) -> dict[int, int]:
    """New bits by position, of a row of the codec ``ranked``. Raises ValueError if its streams are not right."""
    top = 1 << (8 * dtype.width - 1)
    magnitudes = [int(bits) % top for bits in old]
    levels = [magnitude >> max(8 * dtype.width - 9, 0) for magnitude in magnitudes]
    ends, codes = list(classes[1 : 1 + int(classes[0])]), [int(code) for code in classes[1 + int(classes[0]) :]]
    if not 1 <= classes[0] <= 16 or len(ends) != classes[0] or ends[-1] != 255 or sorted(set(ends)) != ends:
        raise ValueError("not classes")
    bits, changed = BitReader(items), {}
    start = 0

    def subset(total: int) -> list[int]:
        if not codes:
            raise ValueError("the code bytes end")
        return read_subset(codes.pop(0), total, bits)

    for end in ends:
        members = [position for position, level in enumerate(levels) if start <= level <= end]
        start = int(end) + 1
        positions = [members[rank] for rank in subset(len(members))]
        if not positions:
            continue
        flips, down = set(subset(len(positions))), set(subset(len(positions)))
        lengths = [0] * len(positions)
        layer = list(range(len(positions)))
        for _ in range(8 * dtype.width - 1):
            layer = [layer[number] for number in subset(len(layer))]
            for item in layer:
                lengths[item] += 1
            if not layer:
                break
        for item, (position, length) in enumerate(zip(positions, lengths, strict=True)):
            value = bits.take(length - 1) + (1 << (length - 1)) if length > 1 else length
            distance = value if item in flips else value + 1
            magnitude = magnitudes[position] + (-distance if item in down else distance)
            if not 0 <= magnitude < top or (item in down and distance == 0):
                raise ValueError("no such value")
            changed[position] = magnitude | (int(old[position]) & top) ^ (top if item in flips else 0)
    if codes or any(bits.rest()) or len(bits.rest()) > 7:
        raise ValueError("something is left over")
    return changed
