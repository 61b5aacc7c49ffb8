"""What is done to many rows at once is what would be done to each: the rows, the errors, the bytes."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from deltawire.codecs.registry import CODECS
from deltawire.errors import DeltawireError, MalformedRowError
from deltawire.format.boxes import Box, Lists, Shapes, check_box
from deltawire.format.dtypes import DTYPES
from deltawire.format.records import Batch, Part
from deltawire.format.tensors import TensorTable, build_table
from deltawire.limits import DEFAULT_LIMITS
from deltawire.parts.reader import read_batch
from deltawire.parts.rows import Row
from deltawire.parts.writer import PartOptions, PartWriter
from tests.core.plain_rows import PlainRow, plain_batch, plain_rows

ENTRIES = (
    ("matrix", "BF16", (3, 5)),
    ("scalar", "F32", ()),
    ("empty", "BF16", (0, 1 << 52, 1 << 52)),
    ("packed", "F4", (4, 6)),
    ("huge", "U8", (2, 1 << 42)),
    ("cube", "F64", (2, 1, 3)),
)
NAMES = ("positions", "signs", *(f"{kind}_{plane}" for kind in ("diff", "value") for plane in range(8)), "x-other")
EDGES = (0, 1, 2, 3, 5, (1 << 31) - 1, 1 << 31, 1 << 42, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)
TABLE = build_table(ENTRIES, limits=DEFAULT_LIMITS)


@st.composite
def good_rows(draw: st.DrawFn) -> Row:
    """A row that a reader takes; its streams need not decode to anything."""
    tensor = draw(st.sampled_from([tensor for tensor in TABLE.tensors if tensor.elements]))
    starts, extents = [], []
    for size in tensor.storage_shape:
        starts.append(draw(st.integers(0, min(size, 8) - 1)))
        extents.append(draw(st.integers(1, min(size - starts[-1], 8))))
    box = draw(st.sampled_from((tensor.whole, Box(tuple(starts), tuple(extents)))))
    if box.elements >= 1 << 31:
        box = Box(tuple(starts), tuple(extents))
    codec = draw(st.sampled_from(tuple(CODECS)))
    streams = {name: _bytes(draw(st.integers(0, 3))) for name in CODECS[codec].streams(tensor.dtype)}
    return Row(
        tensor=tensor.ordinal,
        box=box,
        codec=codec,
        changed=draw(st.integers(1, box.elements)),
        digest_before=draw(st.integers(0, 2**64 - 1)),
        digest_after=draw(st.integers(0, 2**64 - 1)),
        streams=streams,
    )


@st.composite
def damaged_rows(draw: st.DrawFn) -> Row:
    """A row of which one thing is not what it was, and may be wrong."""
    row = draw(good_rows())
    edges = st.sampled_from(EDGES)
    lists = st.lists(edges, max_size=4).map(tuple)
    match draw(st.sampled_from(("tensor", "start", "shape", "extent", "codec", "changed", "more", "fewer"))):
        case "tensor":
            return replace(row, tensor=draw(st.sampled_from((*range(len(ENTRIES) + 1), 2**32 - 1))))
        case "start":
            return replace(row, box=Box(draw(lists), row.box.shape))
        case "shape":
            return replace(row, box=Box(row.box.start, draw(lists)))
        case "extent" if row.box.shape:
            axis = draw(st.integers(0, len(row.box.shape) - 1))
            shape = (*row.box.shape[:axis], draw(edges), *row.box.shape[axis + 1 :])
            start = (*row.box.start[:axis], draw(edges), *row.box.start[axis + 1 :])
            return replace(row, box=Box(*draw(st.sampled_from(((row.box.start, shape), (start, row.box.shape))))))
        case "codec":
            return replace(row, codec=draw(st.sampled_from((*CODECS, "", "gap ", "gäp"))))
        case "more":
            name = draw(st.sampled_from(NAMES))
            return replace(row, streams={**row.streams, name: _bytes(draw(st.integers(0, 2)))})
        case "fewer":
            name = draw(st.sampled_from(tuple(row.streams)))
            return replace(row, streams={other: data for other, data in row.streams.items() if other != name})
    return replace(row, changed=draw(edges))


def _bytes(size: int) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    return np.arange(size, dtype=np.uint8)


def written(rows: list[Row]) -> tuple[bytes, Part]:
    stored: list[bytes] = []
    writer = PartWriter(
        "data/p/part-{:05d}.arrow".format, lambda _, data: stored.append(data.to_pybytes()), options=HOW
    )
    for row in rows:
        writer.add(row)
    [part] = writer.finish()
    return stored[0], part


HOW = PartOptions(batch_bytes=1 << 20, part_bytes=1 << 20)


def by_value(row: Row) -> PlainRow:
    streams = {name: bytes(data) for name, data in row.streams.items()}
    return row.tensor, row.box, row.codec, row.changed, row.digest_before, row.digest_after, streams


def outcome(
    data: bytes, part: Part, batch: Batch, table: TensorTable, *, wanted: npt.NDArray[np.bool_] | None = None
) -> list[PlainRow] | tuple[str, str]:
    stored = data[batch.offset : batch.offset + batch.bytes]
    try:
        return [by_value(row) for row in read_batch(stored, part, batch, table, limits=DEFAULT_LIMITS, wanted=wanted)]
    except DeltawireError as error:
        return error.code, str(error)


def plain_outcome(data: bytes, part: Part, batch: Batch, table: TensorTable) -> list[PlainRow] | tuple[str, str]:
    record_batch = pa.ipc.open_file(pa.BufferReader(data)).get_batch(0)
    try:
        return plain_rows(record_batch, part.streams, table, f"batch at {batch.offset} of {part.key}")
    except DeltawireError as error:
        return error.code, str(error)


@settings(max_examples=400)
@given(st.lists(st.one_of(good_rows(), good_rows(), damaged_rows()), min_size=1, max_size=5))
def test_rows_and_errors_are_those_of_each_row_by_itself(rows: list[Row]) -> None:
    data, part = written(rows)
    [batch] = part.batches
    assert outcome(data, part, batch, TABLE) == plain_outcome(data, part, batch, TABLE)


@given(st.lists(good_rows(), min_size=1, max_size=12), st.lists(st.booleans(), min_size=6, max_size=6))
def test_wanted_rows_are_those_of_wanted_tensors(rows: list[Row], wanted: list[bool]) -> None:
    data, part = written(rows)
    [batch] = part.batches
    found = outcome(data, part, batch, TABLE, wanted=np.array(wanted))
    assert found == [by_value(row) for row in rows if wanted[row.tensor]]


@given(st.lists(good_rows(), min_size=1, max_size=4), damaged_rows())
def test_rows_that_are_not_wanted_are_checked_too(rows: list[Row], damaged: Row) -> None:
    data, part = written([*rows, damaged])
    [batch] = part.batches
    expected = plain_outcome(data, part, batch, TABLE)
    found = outcome(data, part, batch, TABLE, wanted=np.zeros(len(ENTRIES), np.bool_))
    assert found == ([] if isinstance(expected, list) else expected)


@given(st.lists(st.one_of(good_rows(), damaged_rows()), min_size=1, max_size=8))
def test_batches_are_what_arrow_makes_of_each_value(rows: list[Row]) -> None:
    data, part = written(rows)
    theirs = plain_batch(rows, part.streams)
    [batch] = part.batches
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(
        sink, theirs.schema, options=pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", HOW.level))
    ) as file:
        file.write_batch(theirs)
    assert sink.getvalue().to_pybytes() == data
    assert batch.rows == len(rows)


def test_more_rows_than_are_made_at_once() -> None:
    rows = [
        Row(
            tensor=index % 2,
            box=TABLE.tensors[index % 2].whole,
            codec=("gap", "dense")[index % 3 == 0],
            changed=1,
            digest_before=index,
            digest_after=index + 1,
            streams={
                name: _bytes(index % 4)
                for name in CODECS[("gap", "dense")[index % 3 == 0]].streams(TABLE.tensors[index % 2].dtype)
            },
        )
        for index in range(10_000)
    ]
    data, part = written(rows)
    [batch] = part.batches
    assert outcome(data, part, batch, TABLE) == [by_value(row) for row in rows]


SIDES = st.sampled_from((0, 1, 2, 3, 1 << 16, (1 << 31) - 1, 1 << 31, 1 << 40, (1 << 53) - 1))


@given(st.lists(st.lists(SIDES, max_size=4).map(tuple), min_size=1, max_size=4), st.data())
def test_boxes_that_are_taken_unasked_are_good(shapes: list[tuple[int, ...]], data: st.DataObject) -> None:
    numbers = st.lists(st.one_of(SIDES, st.sampled_from(EDGES)), max_size=4).map(tuple)
    tensors = data.draw(st.lists(st.integers(0, len(shapes) - 1), min_size=1, max_size=6))
    boxes = []
    for tensor in tensors:
        shape = shapes[tensor]
        whole = Box((0,) * len(shape), shape)
        boxes.append(data.draw(st.one_of(st.just(whole), st.builds(Box, numbers, numbers))))
    starts, extents = (lists([getattr(box, member) for box in boxes]) for member in ("start", "shape"))
    found = Shapes(shapes).fitting(np.array(tensors, np.uint32), starts, extents)
    for tensor, box, elements in zip(tensors, boxes, found.tolist(), strict=True):
        try:
            check_box(box, shapes[tensor], what="test")
            assert elements in (box.elements, 0)
            assert elements or math.prod(shapes[tensor]) >= 1 << 63, "only what cannot be counted is left to others"
        except MalformedRowError:
            assert elements == 0


def lists(values: list[tuple[int, ...]]) -> Lists:
    flat = [number for each in values for number in each]
    return Lists(np.array(flat, np.uint64), np.cumsum([0, *map(len, values)]))


def test_the_numbers_of_dtypes_are_those_of_the_tensors() -> None:
    dtypes, numbers = TABLE.dtype_numbers
    assert [dtypes[number] for number in numbers] == [tensor.dtype for tensor in TABLE.tensors]
    assert len(set(dtypes)) == len(dtypes)
    assert set(dtypes) <= set(DTYPES.values())
