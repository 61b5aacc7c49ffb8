"""Boxes: the region of a tensor that one row of a delta describes (SPEC.md section 7.4)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from deltawire.errors import MalformedRowError

MAX_ELEMENTS = (1 << 31) - 1
"""A box holds fewer than 2^31 elements, so that positions fit in 32 bits everywhere. BOX-2"""
_COUNTABLE = 1 << 63


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangular region: where it starts and how far it reaches, one number a dimension."""

    start: tuple[int, ...]
    shape: tuple[int, ...]

    @property
    def elements(self) -> int:
        """Number of elements inside."""
        return math.prod(self.shape)


def check_box(box: Box, shape: tuple[int, ...], *, what: str) -> None:
    """Check that a box lies within a tensor of ``shape``. BOX-1, BOX-2

    Raises:
        MalformedRowError: wrong rank, out of bounds, empty or too large.
    """
    if len(box.start) != len(shape) or len(box.shape) != len(shape):
        raise MalformedRowError(f"{what}: a box of rank {len(box.shape)} in a tensor of rank {len(shape)}")
    for start, extent, size in zip(box.start, box.shape, shape, strict=True):
        if extent < 1 or start + extent > size:
            raise MalformedRowError(f"{what}: the box {list(box.start)}+{list(box.shape)} leaves {list(shape)}")
    if box.elements > MAX_ELEMENTS:
        raise MalformedRowError(f"{what}: a box of {box.elements:,} elements")


@dataclass(frozen=True, slots=True)
class Lists:
    """Many lists of numbers, end to end."""

    values: npt.NDArray[np.uint64]
    bounds: npt.NDArray[np.int64]
    """Where in ``values`` each begins, and where the last one ends."""

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Length of each list."""
        return np.diff(self.bounds)

    def __getitem__(self, index: int) -> tuple[int, ...]:
        return tuple(self.values[self.bounds[index] : self.bounds[index + 1]].tolist())

    def chosen(self, indices: npt.NDArray[np.integer]) -> npt.NDArray[np.uint64]:
        """The numbers of some lists, end to end."""
        firsts, lengths = self.bounds[indices], self.lengths[indices]
        places = np.arange(lengths.sum()) + np.repeat(firsts - np.cumsum(lengths) + lengths, lengths)
        found: npt.NDArray[np.uint64] = self.values[places]
        return found


class Shapes:
    """Shapes of many tensors as columns, so that many boxes can be looked at together."""

    def __init__(self, shapes: Sequence[tuple[int, ...]]) -> None:
        bounds = np.zeros(len(shapes) + 1, np.int64)
        np.cumsum([len(shape) for shape in shapes], out=bounds[1:])
        sizes = np.fromiter(itertools.chain.from_iterable(shapes), np.uint64, int(bounds[-1]))
        self._sizes = Lists(sizes, bounds)
        # No box within a tensor has more elements than that, so that below this a product of extents fits in 64 bits.
        counts = [math.prod(shape) for shape in shapes]
        self.elements = np.array([count if count < _COUNTABLE else 0 for count in counts], np.uint64)
        """Elements of each tensor; 0 where they are too many to be counted here."""

    def fitting(self, tensors: npt.NDArray[np.unsignedinteger], start: Lists, shape: Lists) -> npt.NDArray[np.uint64]:
        """Elements of each box that ``check_box`` surely accepts; 0 for those that it must be asked about.

        Args:
            tensors: for each box the ordinal of a shape.
            start: of each box.
            shape: of each box.
        """
        ranks = self._sizes.lengths[tensors]
        fits = (self.elements[tensors] > 0) & (start.lengths == ranks) & (shape.lengths == ranks)
        asked = np.flatnonzero(fits)
        elements = np.zeros(len(tensors), np.uint64)
        if not len(asked):
            return elements
        sizes, starts, extents = self._sizes.chosen(tensors[asked]), start.chosen(asked), shape.chosen(asked)
        inside = (extents >= 1) & (extents <= sizes) & (starts <= sizes - np.minimum(extents, sizes))
        # A factor of its own begins each box: ``reduceat`` knows no empty product.
        ranks = ranks[asked]
        firsts = np.cumsum(ranks + 1) - ranks - 1
        factors = np.ones(len(extents) + len(asked), np.uint64)
        is_extent = np.ones(len(factors), np.bool_)
        is_extent[firsts] = False
        factors[is_extent] = np.where(inside, extents, 0)
        elements[asked] = np.multiply.reduceat(factors, firsts)
        elements[elements > MAX_ELEMENTS] = 0
        return elements


def flat_range(box: Box, shape: tuple[int, ...]) -> tuple[int, int] | None:
    """First flat index and length of a box whose elements are contiguous in row-major order; None if they are not."""
    seen_partial = False
    offset, stride = 0, 1
    for start, extent, size in zip(reversed(box.start), reversed(box.shape), reversed(shape), strict=True):
        if seen_partial and extent != 1:
            return None
        seen_partial |= extent != size
        offset += start * stride
        stride *= size
    return offset, box.elements


def flat_indices(
    box: Box, shape: tuple[int, ...], positions: npt.NDArray[np.unsignedinteger]
) -> npt.NDArray[np.uint64]:
    """Flat tensor indices, uint64, of row-major positions within a box."""
    rest = positions.astype(np.uint64)
    indices = np.zeros(len(positions), np.uint64)
    stride = 1
    for start, extent, size in zip(reversed(box.start), reversed(box.shape), reversed(shape), strict=True):
        rest, inner = np.divmod(rest, np.uint64(extent))
        indices += (inner + np.uint64(start)) * np.uint64(stride)
        stride *= size
    return indices


def split(shape: tuple[int, ...], max_elements: int) -> Iterator[Box]:
    """Cut a tensor into contiguous boxes of at most ``max_elements`` elements, in row-major order.

    An empty tensor has no boxes.
    """
    size = math.prod(shape)
    if size <= max_elements:
        if size:
            yield Box((0,) * len(shape), shape)
        return
    # The first dimension whose inner block fits is cut into runs; the ones before it are fixed one index at a time.
    axis = 0
    while axis < len(shape) and math.prod(shape[axis + 1 :]) > max_elements:
        axis += 1
    run = max(max_elements // math.prod(shape[axis + 1 :]), 1)
    for outer in np.ndindex(*shape[:axis]):
        for start in range(0, shape[axis], run):
            extent = min(run, shape[axis] - start)
            rest = shape[axis + 1 :]
            yield Box((*outer, start, *(0,) * len(rest)), (*(1,) * axis, extent, *rest))
