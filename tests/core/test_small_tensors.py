"""Small tensors that are compared many at once: the same rows, and the same base, as one by one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltawire.errors import SourceChangedError
from deltawire.format.tensors import Tensor, TensorTable
from deltawire.kernels.scan import Room
from deltawire.parts.rows import Row
from deltawire.producer import encoding, small_tensors
from deltawire.producer.base import BaseState
from deltawire.producer.deltas import Sums
from deltawire.producer.encoding import Encoder, EncodingPool
from deltawire.producer.small_tensors import TensorPair, groups
from tests.core.test_columns import by_value
from tests.strategies import State, next_states, states

ENCODERS = st.sampled_from((Encoder(), Encoder(absolute=True), Encoder(ranked=True)))
ROOM = Room(small_tensors.GROUP_ELEMENTS)


@pytest.fixture(params=[(1 << 15, 1 << 18, 4096), (10, 25, 3), (0, 1, 1)], ids=["as it is", "tight", "none is small"])
def sizes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    small, elements, tensors = request.param
    monkeypatch.setattr(encoding, "SMALL_ELEMENTS", small)
    monkeypatch.setattr(encoding, "GROUP_ELEMENTS", elements)
    monkeypatch.setattr(small_tensors, "GROUP_TENSORS", tensors)


def pairs_of(table: TensorTable, old: State, new: State) -> list[TensorPair]:
    return [(tensor, old.bits[tensor.name], new.bits[tensor.name]) for tensor in table.tensors]


def one_by_one(encoder: Encoder, pairs: list[TensorPair]) -> list[Row]:
    return [row for pair in pairs for row in encoder.rows(*pair, ROOM)]


@pytest.mark.usefixtures("sizes")
@given(st.data(), ENCODERS)
def test_the_pool_gives_the_rows_of_each_tensor_in_table_order(data: st.DataObject, encoder: Encoder) -> None:
    old = data.draw(states(max_tensors=9))
    new = data.draw(next_states(old))
    table = old.table()
    pool = EncodingPool(encoder, workers=2)
    asked: list[str] = []

    def bits(state: State, tensor: Tensor) -> np.ndarray[tuple[int], np.dtype[np.unsignedinteger]]:
        asked.append(tensor.name)
        return state.bits[tensor.name]

    try:
        rows = [*pool.encode(table.tensors, lambda t: bits(old, t), lambda t: bits(new, t))]
    finally:
        pool.close()
    expected = one_by_one(encoder, pairs_of(table, old, new))
    assert [by_value(row) for row in rows] == [by_value(row) for row in expected]
    assert sorted(asked) == sorted(2 * [tensor.name for tensor in table.tensors])


@given(st.data(), st.booleans())
def test_a_base_advances_many_tensors_as_one(data: st.DataObject, frozen: bool) -> None:
    old = data.draw(states(max_tensors=9))
    new = data.draw(next_states(old))
    table = old.table()
    bases = [BaseState(table, [old.bits[tensor.name].copy() for tensor in table.tensors]) for _ in range(2)]
    freezes = [base.freeze() for base in bases] if frozen else []
    sums: dict[int, Sums] = {}
    for row in one_by_one(Encoder(), pairs_of(table, old, new)):
        sums.setdefault(row.tensor, Sums()).add(row)
    changed = [table.tensors[ordinal] for ordinal in sums]
    for tensor in changed:
        found = sums[tensor.ordinal]
        bases[0].advance(tensor, new.bits[tensor.name], before=found.before, after=found.after)
    for group in groups((tensor, bases[1].bits(tensor), new.bits[tensor.name]) for tensor in changed):
        bases[1].advance_small(group, sums, ROOM)
    assert bases[0].digests == bases[1].digests
    for tensor in table.tensors:
        assert bases[1].bits(tensor).tobytes() == new.bits[tensor.name].tobytes()
    for base, freeze in zip(bases, freezes, strict=False):
        for tensor in table.tensors:
            assert b"".join(base.read_frozen(freeze, tensor)) == old.bits[tensor.name].tobytes()


@given(st.data())
def test_a_source_that_changed_meanwhile_is_noticed(data: st.DataObject) -> None:
    old = data.draw(states(max_tensors=5))
    new = data.draw(next_states(old))
    table = old.table()
    sums: dict[int, Sums] = {}
    for row in one_by_one(Encoder(), pairs_of(table, old, new)):
        sums.setdefault(row.tensor, Sums()).add(row)
    if not sums:
        return
    changed = [table.tensors[ordinal] for ordinal in sums]
    victim = data.draw(st.sampled_from(changed))
    base = BaseState(table, [old.bits[tensor.name].copy() for tensor in table.tensors])
    later = {tensor.name: new.bits[tensor.name].copy() for tensor in changed}
    place = data.draw(st.integers(0, victim.elements - 1))
    later[victim.name][place] ^= np.array(
        1 << data.draw(st.integers(0, 8 * victim.dtype.width - 1)), victim.dtype.storage
    )
    [group] = groups((tensor, base.bits(tensor), later[tensor.name]) for tensor in changed)
    with pytest.raises(SourceChangedError, match=repr(victim.name)):
        base.advance_small(group, sums, ROOM)
