"""Boxes: the region of a tensor that one row of a delta describes (SPEC.md section 7.4)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from deltawire.errors import MalformedRowError

MAX_ELEMENTS = (1 << 31) - 1
"""A box holds fewer than 2^31 elements, so that positions fit in 32 bits everywhere. BOX-2"""


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
    if math.prod(shape) == 0:
        return
    # The first dimension whose inner block fits is cut into runs; the ones before it are fixed one index at a time.
    axis = 0
    while axis < len(shape) and math.prod(shape[axis + 1 :]) > max_elements:
        axis += 1
    if axis == len(shape):
        yield Box((0,) * len(shape), shape)
        return
    run = max(max_elements // math.prod(shape[axis + 1 :]), 1)
    for outer in np.ndindex(*shape[:axis]):
        for start in range(0, shape[axis], run):
            extent = min(run, shape[axis] - start)
            rest = shape[axis + 1 :]
            yield Box((*outer, start, *(0,) * len(rest)), (*(1,) * axis, extent, *rest))
