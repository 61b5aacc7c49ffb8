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
from deltawire.producer.comparing import TensorPair
from deltawire.producer.deltas import Sums
from deltawire.producer.encoding import Encoder, EncodingPool
from deltawire.producer.small_tensors import groups
from tests.core.test_columns import by_value
from tests.devices.places import PLACES, Place, bits_in, source_tensor
from tests.strategies import State, next_states, states

ENCODERS = st.sampled_from((Encoder(), Encoder(absolute=True), Encoder(ranked=True)))
ROOM = Room(small_tensors.GROUP_ELEMENTS)


@pytest.fixture(params=[(1 << 15, 1 << 18, 4096), (10, 25, 3), (0, 1, 1)], ids=["as it is", "tight", "none is small"])
def sizes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    small, elements, tensors = request.param
    monkeypatch.setattr(encoding, "SMALL_ELEMENTS", small)
    monkeypatch.setattr(encoding, "GROUP_ELEMENTS", elements)
    monkeypatch.setattr(small_tensors, "GROUP_TENSORS", tensors)


def one_by_one(encoder: Encoder, table: TensorTable, old: State, new: State) -> list[Row]:
    return [row for t in table.tensors for row in encoder.rows(t, old.bits[t.name], new.bits[t.name], ROOM)]


def base_of(table: TensorTable, state: State, place: Place) -> BaseState:
    return BaseState(table, [source_tensor(state.bits[tensor.name], place).hold() for tensor in table.tensors])


@pytest.mark.usefixtures("sizes")
@given(st.data(), ENCODERS, st.sampled_from(PLACES))
def test_the_pool_gives_the_rows_of_each_tensor_in_table_order(
    data: st.DataObject, encoder: Encoder, place: Place
) -> None:
    old = data.draw(states(max_tensors=9))
    new = data.draw(next_states(old))
    table = old.table()
    base = base_of(table, old, place)
    pool = EncodingPool(encoder, workers=2)
    asked: list[str] = []

    def pair_of(tensor: Tensor) -> TensorPair:
        asked.append(tensor.name)
        return base.pair(tensor, source_tensor(new.bits[tensor.name], place))

    try:
        rows = [*pool.encode(table.tensors, pair_of)]
    finally:
        pool.close()
    expected = one_by_one(encoder, table, old, new)
    assert [by_value(row) for row in rows] == [by_value(row) for row in expected]
    assert sorted(asked) == sorted(tensor.name for tensor in table.tensors)


@given(st.data(), st.booleans(), st.sampled_from(PLACES))
def test_a_base_advances_many_tensors_as_one(data: st.DataObject, frozen: bool, place: Place) -> None:
    old = data.draw(states(max_tensors=9))
    new = data.draw(next_states(old))
    table = old.table()
    bases = [base_of(table, old, place) for _ in range(2)]
    freezes = [base.freeze() for base in bases] if frozen else []
    sums: dict[int, Sums] = {}
    for row in one_by_one(Encoder(), table, old, new):
        sums.setdefault(row.tensor, Sums()).add(row)
    changed = {table.tensors[o]: source_tensor(new.bits[table.tensors[o].name], place) for o in sums}
    for tensor, source in changed.items():
        found = sums[tensor.ordinal]
        bases[0].advance(tensor, source, before=found.before, after=found.after)
    for group in groups((tensor, bases[1].pair(tensor, source)) for tensor, source in changed.items()):
        bases[1].advance_small(group, sums, ROOM)
    assert bases[0].digests == bases[1].digests
    for tensor in table.tensors:
        assert bits_in(bases[1], tensor).tobytes() == new.bits[tensor.name].tobytes()
    for base, freeze in zip(bases, freezes, strict=False):
        for tensor in table.tensors:
            assert b"".join(base.read_frozen(freeze, tensor)) == old.bits[tensor.name].tobytes()


@given(st.data(), st.sampled_from(PLACES))
def test_a_source_that_changed_meanwhile_is_noticed(data: st.DataObject, place: Place) -> None:
    old = data.draw(states(max_tensors=5))
    new = data.draw(next_states(old))
    table = old.table()
    sums: dict[int, Sums] = {}
    for row in one_by_one(Encoder(), table, old, new):
        sums.setdefault(row.tensor, Sums()).add(row)
    if not sums:
        return
    changed = [table.tensors[ordinal] for ordinal in sums]
    victim = data.draw(st.sampled_from(changed))
    base = base_of(table, old, place)
    later = {tensor.name: new.bits[tensor.name].copy() for tensor in changed}
    later[victim.name][data.draw(st.integers(0, victim.elements - 1))] ^= np.array(
        1 << data.draw(st.integers(0, 8 * victim.dtype.width - 1)), victim.dtype.storage
    )
    sources = {tensor: source_tensor(later[tensor.name], place) for tensor in changed}
    [group] = groups((tensor, base.pair(tensor, source)) for tensor, source in sources.items())
    with pytest.raises(SourceChangedError, match=repr(victim.name)):
        base.advance_small(group, sums, ROOM)
