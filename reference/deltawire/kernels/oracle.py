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
