"""Parts: what is written is read back, by us batch by batch and by Arrow's own reader; sizes are bounded."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltawire.codecs.base import BoxChange, Stream
from deltawire.codecs.registry import CODECS
from deltawire.errors import (
    DeltawireError,
    DigestMismatchError,
    LimitExceededError,
    MalformedPartError,
    MalformedRowError,
    SizeMismatchError,
)
from deltawire.format.boxes import Box, split
from deltawire.format.records import ARROW_TYPE, Batch, Part
from deltawire.format.strict_json import sha256
from deltawire.format.tensors import TensorTable, build_table
from deltawire.kernels.oracle import find_changes
from deltawire.limits import DEFAULT_LIMITS, MIB, Limits
from deltawire.parts import writer as part_writer
from deltawire.parts.reader import read_batch
from deltawire.parts.rows import Row, part_schema
from deltawire.parts.writer import PartOptions, PartWriter
from tests.strategies import State, next_states, states


@dataclass
class Shelf:
    """Takes parts and keeps their bytes."""

    stored: dict[str, bytes] = field(default_factory=dict)

    def put(self, part: Part, data: pa.Buffer) -> None:
        self.stored[part.key] = data.to_pybytes()

    def read(self, parts: tuple[Part, ...], table: TensorTable, limits: Limits = DEFAULT_LIMITS) -> list[Row]:
        return [
            row
            for part in parts
            for batch in part.batches
            for row in read_batch(self.cut(part, batch), part, batch, table, limits=limits)
        ]

    def cut(self, part: Part, batch: Batch) -> bytes:
        return self.stored[part.key][batch.offset : batch.offset + batch.bytes]


def write(rows: list[Row], options: PartOptions) -> tuple[tuple[Part, ...], Shelf]:
    shelf = Shelf()
    writer = PartWriter(lambda index: f"data/p/part-{index:05d}.arrow", shelf.put, options=options)
    for row in rows:
        writer.add(row)
    return writer.finish(), shelf


def rows_of(old: State, new: State, pick: Callable[[], str], most: int = 1 << 20) -> list[Row]:
    """Rows of what changed, each box by a codec that ``pick`` names."""
    rows = []
    for tensor in old.table().tensors:
        before, after = old.bits[tensor.name], new.bits[tensor.name]
        start = 0
        for box in split(tensor.storage_shape, most):
            a, b = before[start : start + box.elements], after[start : start + box.elements]
            start += box.elements
            changes = find_changes(a, b)
            if len(changes.positions):
                codec = CODECS[pick()]
                streams = codec.encode(BoxChange(a, b, changes), tensor.dtype)
                changed = len(changes.positions)
                rows.append(row(tensor.ordinal, box, codec.name, changed, streams, before=start, after=~start))
    return rows


def row(
    tensor: int, box: Box, codec: str, changed: int, streams: dict[str, Stream], *, before: int = 0, after: int = 0
) -> Row:
    return Row(
        tensor=tensor,
        box=box,
        codec=codec,
        changed=changed,
        digest_before=before & (2**64 - 1),
        digest_after=after & (2**64 - 1),
        streams=streams,
    )


def plain(row: Row) -> tuple[object, ...]:
    """A row by value; streams that are empty or absent are the same."""
    streams = {name: bytes(stream) for name, stream in row.streams.items() if len(stream)}
    return (row.tensor, row.box, row.codec, row.changed, row.digest_before, row.digest_after, streams)


options = st.builds(
    PartOptions,
    batch_bytes=st.sampled_from([1, 50, 1000, 1 << 20]),
    part_bytes=st.sampled_from([1, 3000, 1 << 20]),
    level=st.sampled_from([1, 3, 19]),
)


@given(st.data(), options, st.integers(1, 300))
def test_rows_come_back(data: st.DataObject, how: PartOptions, most: int) -> None:
    old = data.draw(states())
    new = data.draw(next_states(old))
    rows = rows_of(old, new, lambda: data.draw(st.sampled_from(tuple(CODECS))), most)
    parts, shelf = write(rows, how)
    assert [plain(found) for found in shelf.read(parts, old.table())] == [plain(meant) for meant in rows]
    for part in parts:
        stored = shelf.stored[part.key]
        assert (part.media_type, part.bytes, part.digest) == (ARROW_TYPE, len(stored), sha256(stored))
        for batch in part.batches:
            assert batch.digest == sha256(shelf.cut(part, batch))
            assert batch.rows >= 1


@given(st.data(), options)
def test_arrow_reads_the_same(data: st.DataObject, how: PartOptions) -> None:
    # A part is a plain Arrow IPC file: any Arrow library reads it, and finds in each batch what the range alone gives.
    old = data.draw(states())
    new = data.draw(next_states(old))
    parts, shelf = write(rows_of(old, new, lambda: data.draw(st.sampled_from(tuple(CODECS)))), how)
    for part in parts:
        reader = pa.ipc.open_file(pa.BufferReader(shelf.stored[part.key]))
        assert reader.schema.equals(part_schema(part.streams), check_metadata=True)
        assert reader.num_record_batches == len(part.batches)
        for index, batch in enumerate(part.batches):
            theirs = reader.get_batch(index)
            theirs.validate(full=True)
            ours = read_batch(shelf.cut(part, batch), part, batch, old.table(), limits=DEFAULT_LIMITS)
            assert theirs.column("tensor").to_pylist() == [row.tensor for row in ours]
            assert theirs.column("box_start").to_pylist() == [list(row.box.start) for row in ours]
            assert theirs.column("digest_after").to_pylist() == [row.digest_after for row in ours]
            for name in part.streams:
                assert theirs.column(name).to_pylist() == [bytes(row.streams.get(name, b"")) for row in ours]
            assert batch.decoded_bytes >= sum(len(s) for row in ours for s in row.streams.values())


def test_rows_take_memory_for_their_own_streams_only() -> None:
    # Stream columns compress to nothing where they are empty, and a part may have many.
    nothing, one = np.empty(0, np.uint8), np.zeros(1, np.uint8)
    rows = [
        Row(
            tensor=0,
            box=Box((at,), (1,)),
            codec="gap-set",
            changed=1,
            digest_before=at,
            digest_after=at,
            streams={"positions": one, "value_0": one, **{f"more_{number}": nothing for number in range(200)}},
        )
        for at in range(5000)
    ]
    [part], shelf = write(rows, PartOptions())
    [batch] = part.batches
    table = table_of("U8")
    stored = shelf.cut(part, batch)
    tracemalloc.start()
    try:
        read = read_batch(stored, part, batch, table, limits=DEFAULT_LIMITS)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(read) == len(rows)
    assert peak < 2 * batch.decoded_bytes


def test_a_box_of_absurd_rank_is_refused_before_it_is_a_list() -> None:
    long = (1,) * 1_000_000
    row = Row(
        tensor=0,
        box=Box(long, long),
        codec="gap-set",
        changed=1,
        digest_before=0,
        digest_after=0,
        streams={"positions": np.zeros(1, np.uint8), "value_0": np.zeros(1, np.uint8)},
    )
    [part], shelf = write([row], PartOptions())
    [batch] = part.batches
    stored = shelf.cut(part, batch)
    tracemalloc.start()
    try:
        with pytest.raises(MalformedRowError, match="rank 1,000,000"):
            read_batch(stored, part, batch, table_of("U8"), limits=DEFAULT_LIMITS)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4_000_000


def table_of(*dtypes: str, size: int = 100_000) -> TensorTable:
    return build_table([(f"t{i}", name, (size,)) for i, name in enumerate(dtypes)], limits=DEFAULT_LIMITS)


def gap_set_row(tensor: int, first: int, width: int, *, changed: int = 100, size: int = 100_000) -> Row:
    rng = np.random.default_rng(first)
    streams = {"positions": np.zeros(changed, np.uint8)}
    streams |= {f"value_{plane}": np.frombuffer(rng.bytes(changed), np.uint8) for plane in range(width)}
    return row(tensor, Box((first,), (changed,)), "gap-set", changed, streams)


def test_batches_and_parts_are_bounded() -> None:
    rows = [gap_set_row(0, 100 * index, 2) for index in range(1000)]  # 300 bytes each
    parts, shelf = write(rows, PartOptions(batch_bytes=3000, part_bytes=20_000))
    batches = [batch for part in parts for batch in part.batches]
    assert [batch.rows for batch in batches] == [10] * 100  # closed as soon as 3000 bytes are reached
    largest = max(batch.bytes for batch in batches)
    assert len(parts) > 3
    overhead = 4096  # schema and footer
    assert all(part.bytes < 20_000 + largest + overhead for part in parts)
    assert all(part.bytes >= 20_000 for part in parts[:-1])
    assert [plain(found) for found in shelf.read(parts, table_of("BF16"))] == [plain(meant) for meant in rows]


def test_batches_and_parts_grow_with_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    # A record names every one of them, and has a largest size.
    sizes = [PartOptions().batch_limit(number) // MIB for number in (0, 4095, 4096, 8192, 1 << 40)]
    assert sizes == [4, 4, 8, 16, 64]
    assert PartOptions(batch_bytes=100 * MIB).batch_limit(1 << 40) == 100 * MIB
    monkeypatch.setattr(part_writer, "BATCHES_BEFORE_LARGER", 4)
    monkeypatch.setattr(part_writer, "PARTS_BEFORE_LARGER", 2)
    monkeypatch.setattr(part_writer, "LARGEST_BATCH", 5000)
    rows = [gap_set_row(0, 100 * index, 2) for index in range(200)]  # 300 bytes each
    parts, shelf = write(rows, PartOptions(batch_bytes=1200, part_bytes=6000))
    batches = [batch for part in parts for batch in part.batches]
    assert [batch.rows for batch in batches] == [4] * 4 + [8] * 4 + [16] * 4 + [17] * 5 + [3]
    assert all(6000 <= part.bytes < 12_000 for part in parts[:2])
    assert all(part.bytes >= 12_000 for part in parts[2:-1])
    assert len(parts) > 3
    assert [plain(found) for found in shelf.read(parts, table_of("BF16"))] == [plain(meant) for meant in rows]


def test_at_most_one_part_is_held() -> None:
    handed: list[int] = []
    writer = PartWriter(
        lambda index: f"data/p/part-{index:05d}.arrow",
        lambda part, data: handed.append(len(writer.parts)),
        options=PartOptions(batch_bytes=3000, part_bytes=10_000),
    )
    for index in range(1000):
        writer.add(gap_set_row(0, 100 * index, 2))
    already = len(handed)
    writer.finish()
    assert already >= len(handed) - 1
    assert handed == list(range(1, len(handed) + 1))


def test_a_new_stream_starts_a_new_part() -> None:
    # The columns of a part are fixed when it begins: rows that need fewer fit, rows that need others do not.
    rows = [gap_set_row(1, 0, 4), gap_set_row(0, 0, 2), gap_set_row(2, 0, 8), gap_set_row(1, 100, 4)]
    parts, shelf = write(rows, PartOptions(batch_bytes=1))
    assert [part.streams for part in parts] == [
        ("positions", *(f"value_{plane}" for plane in range(4))),
        ("positions", *(f"value_{plane}" for plane in range(8))),
    ]
    assert [len(part.batches) for part in parts] == [2, 2]
    found = shelf.read(parts, table_of("BF16", "F32", "F64"))
    order = [rows[index] for index in (0, 1, 2, 3)]
    assert [plain(each) for each in found] == [plain(each) for each in order]


def test_rows_of_one_batch_share_their_columns() -> None:
    dense = row(0, Box((0,), (4,)), "dense", 4, {f"value_{p}": np.arange(4, dtype=np.uint8) for p in range(2)})
    parts, shelf = write([dense, gap_set_row(1, 0, 4)], PartOptions())
    assert [part.streams for part in parts] == [("positions", "value_0", "value_1", "value_2", "value_3")]
    assert [plain(each) for each in shelf.read(parts, table_of("BF16", "F32"))] == [
        plain(dense),
        plain(gap_set_row(1, 0, 4)),
    ]


def test_the_smallest_and_largest_tensor_are_recorded() -> None:
    parts, _ = write([gap_set_row(t, 0, 2) for t in (3, 1, 2)], PartOptions())
    [batch] = parts[0].batches
    assert (batch.first_tensor, batch.last_tensor) == (1, 3)


def test_no_rows_make_no_parts() -> None:
    assert write([], PartOptions()) == ((), Shelf())


def test_zero_dimensional_tensors() -> None:
    table = build_table([("scale", "F32", ())], limits=DEFAULT_LIMITS)
    meant = row(0, Box((), ()), "dense", 1, {f"value_{p}": np.array([p], np.uint8) for p in range(4)})
    parts, shelf = write([meant], PartOptions())
    assert [plain(found) for found in shelf.read(parts, table)] == [plain(meant)]


# What the reader refuses, by the rule it breaks. Hostile bytes in whole streams are in tests/hostile.


def sealed(rows: list[Row]) -> tuple[bytes, Part, Batch]:
    parts, shelf = write(rows, PartOptions())
    [part] = parts
    [batch] = part.batches
    return shelf.cut(part, batch), part, batch


def changed_batch(batch: Batch, **members: object) -> Batch:
    known = {name: getattr(batch, name) for name in batch.__struct_fields__}
    return Batch(**(known | members))


@pytest.mark.parametrize(
    ("members", "error"),
    [
        ({"bytes": 1}, SizeMismatchError),
        ({"digest": "sha256:" + "0" * 64}, DigestMismatchError),
        ({"rows": 2}, MalformedPartError),
        ({"decoded_bytes": 0}, MalformedPartError),
        ({"first_tensor": 1, "last_tensor": 1}, MalformedPartError),
        ({"last_tensor": 1}, MalformedPartError),
    ],
)
def test_batches_that_are_not_as_recorded(members: dict[str, object], error: type[DeltawireError]) -> None:
    data, part, batch = sealed([gap_set_row(0, 0, 2)])
    with pytest.raises(error):
        read_batch(data, part, changed_batch(batch, **members), table_of("BF16", "BF16"), limits=DEFAULT_LIMITS)


GOOD = gap_set_row(0, 0, 2)


@pytest.mark.parametrize(
    "bad",
    [
        row(1, GOOD.box, "gap-set", 100, dict(GOOD.streams)),  # no such tensor
        row(0, Box((0, 0), (1, 100)), "gap-set", 100, dict(GOOD.streams)),  # rank
        row(0, Box((), ()), "gap-set", 1, dict(GOOD.streams)),
        row(0, Box((99_901,), (100,)), "gap-set", 100, dict(GOOD.streams)),  # leaves the tensor
        row(0, Box((2**64 - 1,), (100,)), "gap-set", 100, dict(GOOD.streams)),
        row(0, Box((0,), (2**64 - 1,)), "gap-set", 100, dict(GOOD.streams)),
        row(0, Box((0,), (0,)), "gap-set", 0, {}),  # empty
        row(0, GOOD.box, "gap-set", 0, dict(GOOD.streams)),  # no change
        row(0, GOOD.box, "gap-set", 101, dict(GOOD.streams)),  # more changes than elements
        row(0, GOOD.box, "gap-set", 2**64 - 1, dict(GOOD.streams)),
        row(0, GOOD.box, "gap", 100, dict(GOOD.streams)),  # streams of another codec
        row(0, GOOD.box, "dense", 100, dict(GOOD.streams)),
        row(0, GOOD.box, "gap-set", 100, {n: s for n, s in GOOD.streams.items() if n != "value_1"}),
        row(0, GOOD.box, "gap-set", 100, dict(GOOD.streams) | {"value_2": np.zeros(100, np.uint8)}),
    ],
)
def test_rows_that_cannot_be(bad: Row) -> None:
    data, part, batch = sealed([bad])
    with pytest.raises(MalformedRowError):
        read_batch(data, part, batch, table_of("BF16"), limits=DEFAULT_LIMITS)


def test_a_decompression_bomb_is_refused_before_it_is_opened() -> None:
    streams = {"positions": np.zeros(32 << 20, np.uint8)}
    streams |= {f"value_{plane}": np.zeros(32 << 20, np.uint8) for plane in range(2)}
    bomb = row(0, Box((0,), (32 << 20,)), "gap-set", 32 << 20, streams)
    data, part, batch = sealed([bomb])
    assert len(data) < 100_000
    with pytest.raises(LimitExceededError):
        read_batch(data, part, batch, table_of("BF16", size=32 << 20), limits=DEFAULT_LIMITS)


def test_storing_begins_early_and_parts_grow() -> None:
    """PRT-7: little is left to store when the last row is there, and parts are still few."""
    rng = np.random.default_rng(0)
    table = build_table([(f"t{n}", "U8", (1 << 18,)) for n in range(200)], limits=DEFAULT_LIMITS)
    stored: list[tuple[int, int]] = []
    options = PartOptions(batch_bytes=1, part_bytes=4 * MIB)
    writer = PartWriter("part-{:05d}".format, lambda part, _: stored.append((part.bytes, added)), options=options)
    added = 0
    for added, tensor in enumerate(table.tensors, 1):  # noqa: B007 - the writer's callback notes it
        stream = rng.integers(0, 256, tensor.elements, np.uint8)  # a quarter of a MiB, and it stays that
        box = Box((0,), tensor.shape)
        writer.add(
            Row(
                tensor=tensor.ordinal,
                box=box,
                codec="dense",
                changed=box.elements,
                digest_before=0,
                digest_after=0,
                streams={"value_0": stream},
            )
        )
    parts = writer.finish()
    sizes = [size for size, _ in stored]
    row = MIB // 2
    assert stored[0][1] < 8, "the first part waits for no more than a MiB"
    assert sizes[-1] <= max(MIB, sum(sizes) // 4) + row
    assert max(sizes) <= options.part_bytes + row
    assert len(parts) == len(sizes) < 30
    assert min(sizes[:-1]) >= MIB
