"""How small a step can get: entropies of what changed and how, from the states themselves.

Counted as if a coder knew all frequencies for nothing and spent no bit on anything else, so real files are larger.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from benchmarks.model import Bits16
from benchmarks.peers.base import State

_EXPONENTS = 1 << 8


@dataclass(frozen=True)
class Bounds:
    """Bytes that positions and differences of a step take at the least."""

    independent: float
    """Where each element of a tensor changes with the same chance, by a difference of the same distribution."""
    given_exponent: float
    """Where chance and distribution are those of the elements with the same exponent before: small weights move by many
    ULP and often, large ones by one and seldom."""


def bounds(old: State, new: State) -> Bounds:
    """Both bounds, summed over tensors."""
    independent = conditional = 0.0
    for before, after in _pairs(old, new):
        changed = before != after
        where = np.flatnonzero(changed)
        exponents = (before >> 7 & 0xFF).astype(np.int64)
        differences = ulps(after[where]) - ulps(before[where])
        moved = np.bincount(exponents[where], minlength=_EXPONENTS)
        held = np.bincount(exponents, minlength=_EXPONENTS)
        independent += _bits([where.size, before.size - where.size]) + _bits(_counts(differences))
        conditional += sum(_bits([mine, of - mine]) for mine, of in zip(moved, held, strict=True))
        # A difference of two 16-bit numbers takes 17 bits, so that both fit in one key.
        joint = _counts(exponents[where] << 32 | differences + (1 << 20))
        conditional += _bits(joint) - _bits(moved)
    return Bounds(independent / 8, conditional / 8)


def ulps(bits: Bits16) -> npt.NDArray[np.int64]:
    """Each bf16 as its place in the order of all of them, so that neighbours differ by one; both zeros are 0."""
    magnitude = (bits & 0x7FFF).astype(np.int64)
    return np.where(bits & 0x8000, -magnitude, magnitude)


def _pairs(old: State, new: State) -> Iterator[tuple[Bits16, Bits16]]:
    for name, bits in new.items():
        yield old[name].reshape(-1), bits.reshape(-1)


def _counts(values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    return np.unique(values, return_counts=True)[1]


def _bits(counts: npt.ArrayLike) -> float:
    """Bits for a sequence in which symbols occur that often, in any order."""
    some = np.asarray(counts, np.float64)
    some = some[some > 0]
    return float((some * np.log2(some.sum() / some)).sum())
