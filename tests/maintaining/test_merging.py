"""What has changed in a tensor since a version: against a plain copy of it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltawire.format.dtypes import Bits
from deltawire.format.tensors import Tensor, build_table
from deltawire.kernels.scan import Room, find_changes
from deltawire.limits import DEFAULT_LIMITS
from deltawire.maintaining.merging import Earlier, Undo, undo_of
from deltawire.parts.rows import Row
from deltawire.producer import encoding
from deltawire.producer.encoding import Encoder
from deltawire.targets.base import Change
from tests.strategies import CHANGES, bit_arrays, dtypes, next_bits

SPARSE = ("none", "one", "few", "ends", "negate")


def tensor_of(dtype_name: str, elements: int) -> Tensor:
    return build_table([("t", dtype_name, (elements,))], limits=DEFAULT_LIMITS).tensors[0]


@st.composite
def histories(draw: st.DrawFn, *, changes: tuple[str, ...] = CHANGES) -> tuple[Tensor, list[Bits]]:
    """A tensor at several versions; now and then it goes back to what it was."""
    dtype = draw(dtypes().filter(lambda dtype: not dtype.packed))
    size = draw(st.integers(1, 200))
    states = [draw(bit_arrays(dtype, size))]
    for _ in range(draw(st.integers(1, 9))):
        back = draw(st.integers(0, 4)) == 0
        states.append(draw(st.sampled_from(states)).copy() if back else draw(next_bits(states[-1], dtype, changes)))
    return tensor_of(dtype.name, size), states


def step(tensor: Tensor, old: Bits, new: Bits, cut: int) -> list[Change]:
    """What a delta says of it: a row for each side of a cut, one of them with every element, in the wrong order."""
    where = np.flatnonzero(old[:cut] != new[:cut]).astype(np.uint32)
    rows = [Change(tensor, slice(cut, old.size), new[cut:].copy(), old[cut:].copy())]
    return [*rows, Change(tensor, where, new[where], old[where])] if where.size else rows


def noted(tensor: Tensor, states: list[Bits], cut: int) -> Earlier:
    earlier = Earlier()
    for old, new in itertools.pairwise(states):
        earlier.note(undo_of(tensor, step(tensor, old, new, cut)), new)
        assert earlier.nbytes <= new.nbytes
    return earlier


def check(earlier: Earlier, was: Bits, now: Bits) -> None:
    if earlier.copy is not None:
        assert earlier.copy.tobytes() == was.tobytes()
        return
    changed = earlier.changed(now)
    model = {place: int(was[place]) for place in range(was.size) if was[place] != now[place]}
    assert dict(zip(changed.where.tolist(), changed.bits.tolist(), strict=True)) == model
    assert changed.where.tolist() == sorted(model)


@given(histories(), st.data())
def test_it_is_what_the_tensor_was(history: tuple[Tensor, list[Bits]], data: st.DataObject) -> None:
    tensor, states = history
    cut = data.draw(st.integers(0, tensor.elements - 1))
    check(noted(tensor, states, cut), states[0], states[-1])


@given(histories(changes=SPARSE), st.data())
def test_one_that_begins_later_is_taken_in(history: tuple[Tensor, list[Bits]], data: st.DataObject) -> None:
    tensor, states = history
    cut = data.draw(st.integers(0, tensor.elements - 1))
    middle = data.draw(st.integers(0, len(states) - 1))
    outer, inner = noted(tensor, states[: middle + 1], cut), noted(tensor, states[middle:], cut)
    outer.absorb(inner, states[-1])
    assert outer.nbytes <= states[-1].nbytes
    check(outer, states[0], states[-1])


def test_a_step_keeps_its_place_in_a_large_tensor() -> None:
    tensor = tensor_of("U8", (1 << 32) + 10)
    where = np.array([(1 << 32) + 3, (1 << 32) + 5], np.uint64)
    old, new = np.array([1, 2], np.uint8), np.array([1, 9], np.uint8)
    undo = undo_of(tensor, [Change(tensor, where, new, old)])
    assert (undo.where.tolist(), undo.bits.tolist()) == ([(1 << 32) + 5], [2])


def test_nothing_that_changed_takes_nothing() -> None:
    now = np.arange(9, dtype=np.uint16)
    earlier = Earlier()
    assert earlier.changed(now).where.size == 0
    earlier.note(Undo(np.empty(0, np.uint32), np.empty(0, np.uint16)), now)
    assert earlier.nbytes == 0


@pytest.mark.parametrize("feature", ["", "absolute", "ranked"])
@given(history=histories(), cut=st.integers(1, 40))
def test_rows_of_what_is_known_to_have_changed_are_those_of_a_scan(
    feature: str, history: tuple[Tensor, list[Bits]], cut: int
) -> None:
    tensor, states = history
    old, new = states[0], states[-1]
    where = np.flatnonzero(old != new).astype(np.uint32)
    room = Room(tensor.elements)
    encoder = Encoder.of([feature])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoding, "BOX_ELEMENTS", cut)
        expected = list(encoder.rows(tensor, old, new, room))
        found = list(encoder.changed_rows(tensor, where, old[where], new))
    assert [plain(row) for row in found] == [plain(row) for row in expected]
    assert sum(row.changed for row in found) == len(find_changes(old, new, room).positions)


def plain(row: Row) -> tuple[object, ...]:
    streams = {name: stream.tobytes() for name, stream in row.streams.items()}
    return row.tensor, row.box, row.codec, row.changed, row.digest_before, row.digest_after, streams
