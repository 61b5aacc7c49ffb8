"""Rows that are staged many at once: the same changes, the same sums, the same errors as one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from deltawire.consumer import small_rows
from deltawire.consumer.small_rows import stage_rows
from deltawire.consumer.staging import Totals, stage_row
from deltawire.errors import DeltawireError
from deltawire.format.dtypes import DTYPES, Bits, Dtype
from deltawire.format.tensors import Tensor, TensorTable
from deltawire.kernels.scan import Room
from deltawire.parts.rows import Row
from deltawire.producer.encoding import Encoder
from deltawire.targets.arrays import NumpyBits
from deltawire.targets.base import Change
from tests.core.test_small_tensors import ENCODERS
from tests.strategies import State, bit_arrays, dtypes, next_bits

ROOM = Room(1 << 12)
Staging = Callable[[Sequence[Row], TensorTable, Callable[[Tensor], NumpyBits], Totals], Iterator[Change]]


def one_by_one(
    rows: Sequence[Row], table: TensorTable, bits_of: Callable[[Tensor], NumpyBits], totals: Totals
) -> Iterator[Change]:
    for row in rows:
        tensor = table.tensors[row.tensor]
        yield stage_row(row, tensor, bits_of(tensor), totals)


def outcome(staging: Staging, rows: Sequence[Row], table: TensorTable, held: dict[str, Bits]) -> tuple[object, ...]:
    """Changes up to the first error, that error, and the sums."""
    totals = Totals()
    found: list[tuple[object, ...]] = []
    error = None
    try:
        for change in staging(rows, table, lambda tensor: NumpyBits(held[tensor.name]), totals):
            where = change.where if isinstance(change.where, slice) else change.where.astype(np.uint64).tolist()
            found.append((change.tensor, where, change.new.tobytes(), change.old.tobytes(), change.new.dtype))
    except DeltawireError as caught:
        error = caught.code, str(caught)
    return found, error, totals


@st.composite
def small_states(draw: st.DrawFn) -> tuple[State, State]:
    """Many tensors of few dtypes, before and after."""
    kinds = draw(st.lists(dtypes(), min_size=1, max_size=3))
    old: dict[str, Bits] = {}
    new: dict[str, Bits] = {}
    types: dict[str, Dtype] = {}
    shapes: dict[str, tuple[int, ...]] = {}
    for index in range(draw(st.integers(1, 12))):
        dtype = draw(st.sampled_from(kinds))
        size = 24 * draw(st.sampled_from((1, 2, 20)))
        name = f"t{index}"
        types[name] = dtype
        old[name] = draw(bit_arrays(dtype, size))
        new[name] = draw(next_bits(old[name], dtype, ("one", "few", "ends", "run", "step")))
        shapes[name] = (size * 8 // dtype.bits,) if dtype.packed else (size // 4, 4)
    return State(old, types, shapes), State(new, types, shapes)


@st.composite
def damaged(draw: st.DrawFn, row: Row) -> Row:
    """A row of which something is not what it was."""
    kind = draw(st.sampled_from(("before", "after", "changed", "byte", "length")))
    if kind == "before":
        return replace(row, digest_before=row.digest_before ^ 1)
    if kind == "after":
        return replace(row, digest_after=row.digest_after ^ 1)
    if kind == "changed":
        return replace(row, changed=draw(st.integers(1, row.box.elements)))
    name = draw(st.sampled_from(tuple(row.streams)))
    stream = row.streams[name].copy()
    if kind == "byte" and len(stream):
        stream[draw(st.integers(0, len(stream) - 1))] ^= np.uint8(draw(st.integers(1, 255)))
    else:
        stream = draw(st.sampled_from((stream[:-1], np.append(stream, np.uint8(0)), np.append(stream, np.uint8(255)))))
    return replace(row, streams={**row.streams, name: stream})


@pytest.fixture(params=[(4096, 1 << 18, 4096, 4), (10, 20, 3, 1)], ids=["as it is", "tight"])
def sizes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in zip(("SHORT", "AT_ONCE", "ROWS_AT_ONCE", "_FEW"), request.param, strict=True):
        monkeypatch.setattr(small_rows, name, value)


@pytest.mark.usefixtures("sizes")
@settings(max_examples=200)
@given(small_states(), st.data(), ENCODERS)
def test_many_at_once_are_as_one_by_one(pair: tuple[State, State], data: st.DataObject, encoder: Encoder) -> None:
    old, new = pair
    table = old.table()
    held = dict(old.bits)
    rows = [
        row
        for tensor in table.tensors
        for row in encoder.rows(tensor, old.bits[tensor.name], new.bits[tensor.name], ROOM)
    ]
    # As they come from a part, where the box of a whole tensor is the tensor's own.
    rows = [replace(row, box=table.tensors[row.tensor].whole) for row in rows]
    assume(rows)
    for _ in range(data.draw(st.sampled_from((0, 0, 1, 2)))):
        at = data.draw(st.integers(0, len(rows) - 1))
        rows[at] = data.draw(damaged(rows[at]))
    match data.draw(st.sampled_from(("same", "same", "same", "other base", "twice"))):
        case "other base":
            name = data.draw(st.sampled_from(tuple(held)))
            held[name] = data.draw(next_bits(held[name], old.dtypes[name], ("one", "few")))
        case "twice":
            rows.append(data.draw(st.sampled_from(rows)))
    assert outcome(stage_rows, rows, table, held) == outcome(one_by_one, rows, table, held)


def test_good_short_rows_are_not_staged_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"t{index}" for index in range(10)]
    bits: dict[str, Bits] = {name: np.arange(64, dtype=np.uint16) for name in names}
    old = State(bits, dict.fromkeys(names, DTYPES["BF16"]), dict.fromkeys(names, (64,)))
    table = old.table()
    rows = []
    for tensor in table.tensors:
        new = old.bits[tensor.name].copy()
        new[3] ^= 1
        [row] = Encoder().rows(tensor, old.bits[tensor.name], new, ROOM)
        rows.append(replace(row, box=tensor.whole))
    monkeypatch.delattr(small_rows, "stage_row")
    assert len([*stage_rows(rows, table, lambda tensor: NumpyBits(old.bits[tensor.name]), Totals())]) == 10
