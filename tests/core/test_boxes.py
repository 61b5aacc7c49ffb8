"""Boxes against NumPy's own indexing, and the bound of 2^31 elements by arithmetic."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltawire.errors import MalformedRowError
from deltawire.format.boxes import MAX_ELEMENTS, Box, check_box, flat_indices, flat_range, split
from tests.strategies import shapes


@st.composite
def boxes(draw: st.DrawFn) -> tuple[Box, tuple[int, ...]]:
    """A box within a tensor that is not empty."""
    shape = tuple(draw(st.lists(st.integers(1, 7), max_size=4)))
    starts = tuple(draw(st.integers(0, size - 1)) for size in shape)
    extents = tuple(draw(st.integers(1, size - start)) for start, size in zip(starts, shape, strict=True))
    return Box(starts, extents), shape


def by_numpy(box: Box, shape: tuple[int, ...]) -> npt.NDArray[np.int64]:
    """Flat indices of a box in row-major order, by slicing an array of them."""
    every = np.arange(math.prod(shape), dtype=np.int64).reshape(shape)
    cut = tuple(slice(start, start + extent) for start, extent in zip(box.start, box.shape, strict=True))
    return every[cut].reshape(-1)


@given(boxes())
def test_indices_agree_with_numpy(drawn: tuple[Box, tuple[int, ...]]) -> None:
    box, shape = drawn
    check_box(box, shape, what="test")
    expected = by_numpy(box, shape)
    assert box.elements == len(expected)
    positions = np.arange(box.elements, dtype=np.uint32)
    assert np.array_equal(flat_indices(box, shape, positions), expected.astype(np.uint64))
    some = positions[::3]
    assert np.array_equal(flat_indices(box, shape, some), expected[::3].astype(np.uint64))
    place = flat_range(box, shape)
    contiguous = bool((np.diff(expected) == 1).all())
    if place is not None:
        assert place == (expected[0], len(expected))
    assert (place is not None) == contiguous or (place is None and box.elements == 1)


@given(boxes(), st.data())
def test_boxes_that_leave_their_tensor(drawn: tuple[Box, tuple[int, ...]], data: st.DataObject) -> None:
    box, shape = drawn
    if not shape:
        return
    axis = data.draw(st.integers(0, len(shape) - 1))
    room = shape[axis] - box.start[axis]
    for extent in (0, -1, room + 1, 2**64):
        other = Box(box.start, (*box.shape[:axis], extent, *box.shape[axis + 1 :]))
        with pytest.raises(MalformedRowError):
            check_box(other, shape, what="test")
    for bad in (Box(box.start[1:], box.shape[1:]), Box((*box.start, 0), (*box.shape, 1)), Box(box.start, ())):
        with pytest.raises(MalformedRowError):
            check_box(bad, shape, what="test")


@given(shapes(max_side=9), st.integers(1, 400))
def test_split_covers_every_element_once(shape: tuple[int, ...], most: int) -> None:
    pieces = list(split(shape, most))
    size = math.prod(shape)
    at = 0
    for box in pieces:
        check_box(box, shape, what="test")
        place = flat_range(box, shape)
        assert place is not None, "every piece is contiguous"
        assert place == (at, box.elements)
        assert box.elements <= most
        at += box.elements
    assert at == size
    # No more pieces than needed: two neighbours of the same row never fit into one piece together.
    if size:
        assert len(pieces) <= 2 * math.ceil(size / most) * max(1, len(shape))
    assert (len(pieces) == 1) == (0 < size <= most)


def test_split_of_nothing_and_of_a_scalar() -> None:
    assert list(split((0,), 10)) == []
    assert list(split((5, 0, 3), 10)) == []
    assert list(split((), 10)) == [Box((), ())]
    assert flat_range(Box((), ()), ()) == (0, 1)


def test_just_below_and_at_2_to_the_31() -> None:
    below, at = 2**31 - 1, 2**31
    assert below == MAX_ELEMENTS
    check_box(Box((0,), (below,)), (at,), what="test")
    check_box(Box((1,), (below,)), (at,), what="test")
    check_box(Box((0, 0), (1, below)), (2, below), what="test")
    for box, shape in (
        (Box((0,), (at,)), (at,)),
        (Box((0, 0), (2**16, 2**15)), (2**16, 2**15)),
        (Box((0, 0), (2, below)), (2, below)),
        (Box((0,) * 4, (2**16,) * 4), (2**16,) * 4),
    ):
        with pytest.raises(MalformedRowError):
            check_box(box, shape, what="test")


def test_positions_near_the_end_of_a_large_tensor() -> None:
    # 2^44 one-byte elements: indices need 44 bits, and nothing of that size is allocated.
    shape = (2**22, 2**22)
    box = Box((2**22 - 2, 5), (2, 2**22 - 5))
    check_box(box, shape, what="test")
    assert flat_range(box, shape) is None
    last = np.array([0, box.elements - 1], np.uint32)
    assert flat_indices(box, shape, last).tolist() == [(2**22 - 2) * 2**22 + 5, 2**44 - 1]
    row = Box((2**22 - 1, 0), (1, 2**22))
    assert flat_range(row, shape) == (2**44 - 2**22, 2**22)


def test_pieces_of_a_large_tensor_are_small_enough() -> None:
    pieces = split((3, 2**33), 2**30)
    found = [next(pieces) for _ in range(9)]
    assert found[7] == Box((0, 7 * 2**30), (1, 2**30))
    assert found[8] == Box((1, 0), (1, 2**30))
    assert flat_range(found[8], (3, 2**33)) == (2**33, 2**30)
