"""Rows of a batch read and written one by one, by Arrow's own conversion: what the columns are held to."""

from __future__ import annotations

import pyarrow as pa

from deltawire.codecs.registry import codec_of
from deltawire.errors import MalformedRowError
from deltawire.format.boxes import Box, check_box
from deltawire.format.tensors import TensorTable
from deltawire.parts.rows import FIXED_FIELDS, Row, part_schema

PlainRow = tuple[int, Box, str, int, int, int, dict[str, bytes]]


def plain_rows(record_batch: pa.RecordBatch, streams: tuple[str, ...], table: TensorTable, what: str) -> list[PlainRow]:
    """Every row, checked in the order of the batch. Raises MalformedRowError, UnsupportedCodecError."""
    found: list[PlainRow] = []
    fixed = [field.name for field in FIXED_FIELDS]
    for values in record_batch.to_pylist():
        ordinal, start, shape, codec, changed, before, after = (values[name] for name in fixed)
        stored = {name: values[name] for name in streams}
        if ordinal >= len(table.tensors):
            raise MalformedRowError(f"{what}: tensor {ordinal} is not in the table")
        tensor = table.tensors[ordinal]
        box = Box(tuple(start), tuple(shape))
        name = f"{what}: {tensor.name[:80]!r}"
        check_box(box, tensor.storage_shape, what=name)
        if not 1 <= changed <= box.elements:
            raise MalformedRowError(f"{name}: {changed:,} changes in a box of {box.elements:,}")
        needed = codec_of(codec).streams(tensor.dtype)
        for stream in needed:
            if stream not in stored:
                raise MalformedRowError(f"{name}: the part has no stream {stream}")
        for stream, data in stored.items():
            if data and stream not in needed:
                raise MalformedRowError(f"{name}: {codec} has no stream {stream}")
        own = {stream: stored[stream] for stream in needed}
        found.append((ordinal, box, codec, changed, before, after, own))
    return found


def plain_batch(rows: list[Row], streams: tuple[str, ...]) -> pa.RecordBatch:
    """Rows as a batch, each value by itself."""
    values = [
        {
            "tensor": row.tensor,
            "box_start": row.box.start,
            "box_shape": row.box.shape,
            "codec": row.codec,
            "changed": row.changed,
            "digest_before": row.digest_before,
            "digest_after": row.digest_after,
            **{name: bytes(row.streams.get(name, b"")) for name in streams},
        }
        for row in rows
    ]
    return pa.RecordBatch.from_pylist(values, part_schema(streams))
