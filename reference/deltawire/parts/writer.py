"""Writing rows into parts: bounded batches, bounded files (SPEC.md section 8.6)."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from deltawire.format.records import ARROW_TYPE, Batch, Part
from deltawire.format.strict_json import sha256
from deltawire.limits import MIB
from deltawire.parts.message import decoded_bytes
from deltawire.parts.rows import Row, part_schema

_NOTHING = np.empty(0, np.uint8)
_EARLY = 4
"""A part is closed at this fraction of all before it, from a MiB on: the first is stored while the next ones are made,
and when the last row is there, little is left to store."""
_FREE = 12 * MIB
"""Batches stay below this if rows allow it: larger ones of 16 MiB may not shrink as far as they will. LIM-2"""
MAGIC_BYTES = 8
"""An Arrow file begins with ``ARROW1`` and two zero bytes; the schema message follows."""

BATCHES_BEFORE_LARGER = 4096
PARTS_BEFORE_LARGER = 1024
LARGEST_BATCH = 64 * MIB
"""Batches do not grow beyond this size before compression, parts not beyond the next."""
LARGEST_PART = 512 * MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class PartOptions:
    """How large batches and parts become, and how hard they are compressed."""

    batch_bytes: int = 4 * MIB
    """A batch is closed when its streams reach this size before compression."""
    part_bytes: int = 64 * MIB
    """A part is closed when it reaches this size, or sooner while little was written: see ``_EARLY``."""
    level: int = 3
    """zstd level."""

    def batch_limit(self, before: int) -> int:
        """What closes a batch after so many before it.

        The sizes double as their number grows: a record names every batch and part, and has a largest size. PRT-7
        """
        return _doubled(self.batch_bytes, before // BATCHES_BEFORE_LARGER, LARGEST_BATCH)

    def part_limit(self, before: int) -> int:
        """What closes a part after so many before it."""
        return _doubled(self.part_bytes, before // PARTS_BEFORE_LARGER, LARGEST_PART)


def _doubled(size: int, times: int, most: int) -> int:
    return max(size, min(size << min(times, 32), most))


@dataclass(frozen=True, slots=True)
class _Written:
    """A batch in the sink; its digest is taken when the part is complete."""

    offset: int
    bytes: int
    rows: int
    first_tensor: int
    last_tensor: int


@dataclass
class _Open:
    streams: tuple[str, ...]
    schema: pa.Schema
    sink: pa.BufferOutputStream
    writer: pa.ipc.RecordBatchFileWriter
    batches: list[_Written] = field(default_factory=list)


class PartWriter:
    """Turns rows, added in any order, into parts that are handed to ``store`` as soon as each is complete.

    Holds at most one part and one batch in memory.
    """

    def __init__(
        self, key_of: Callable[[int], str], store: Callable[[Part, pa.Buffer], None], *, options: PartOptions
    ) -> None:
        self._key_of = key_of
        self._store = store
        self._options = options
        self._ipc = pa.ipc.IpcWriteOptions(compression=pa.Codec("zstd", options.level))
        self._rows: list[Row] = []
        self._row_bytes = 0
        self._batches = 0
        self._open: _Open | None = None
        self._written = 0
        self.parts: list[Part] = []
        """Descriptors of the parts handed over so far."""

    def add(self, row: Row) -> None:
        """Add a row; may store a part."""
        size = sum(map(len, row.streams.values()))
        if self._rows and self._row_bytes + size > max(_FREE, self._options.batch_limit(self._batches)):
            self._flush_batch()
        self._rows.append(row)
        self._row_bytes += size
        if self._row_bytes >= self._options.batch_limit(self._batches):
            self._flush_batch()

    def finish(self) -> tuple[Part, ...]:
        """Store what is left and return the descriptors of all parts."""
        if self._rows:
            self._flush_batch()
        if self._open is not None:
            self._flush_part(self._open)
        return tuple(self.parts)

    def _flush_batch(self) -> None:
        names = tuple(sorted({name for row in self._rows for name in row.streams}, key=_stream_order))
        current = self._open
        if current is not None and not set(names) <= set(current.streams):
            # Its columns are fixed, and these rows need others. The next part has both, so that rows of alternating
            # kinds do not end a part each time.
            names = tuple(sorted({*names, *current.streams}, key=_stream_order))
            self._flush_part(current)
            current = None
        if current is None:
            current = self._open = self._start(names)
        _write_batch(current, self._rows)
        self._batches += 1
        self._rows, self._row_bytes = [], 0
        early = max(MIB, self._written // _EARLY)
        if current.sink.tell() >= min(early, self._options.part_limit(len(self.parts))):
            self._flush_part(current)

    def _start(self, streams: tuple[str, ...]) -> _Open:
        schema = part_schema(streams)
        sink = pa.BufferOutputStream()
        return _Open(streams, schema, sink, pa.ipc.new_file(sink, schema, options=self._ipc))

    def _flush_part(self, current: _Open) -> None:
        current.writer.close()
        data = current.sink.getvalue()
        batches = tuple(_sealed(batch, data) for batch in current.batches)
        part = Part(
            key=self._key_of(len(self.parts)),
            media_type=ARROW_TYPE,
            bytes=data.size,
            digest=sha256(memoryview(data)),
            streams=current.streams,
            batches=batches,
        )
        self._open = None
        self.parts.append(part)
        self._written += part.bytes
        self._store(part, data)


def _write_batch(current: _Open, rows: list[Row]) -> None:
    # The writer emits magic and schema together with the first batch, so that one starts after them.
    first = not current.batches
    offset = MAGIC_BYTES + len(current.schema.serialize()) if first else current.sink.tell()
    current.writer.write_batch(_record_batch(rows, current))
    ordinals = [row.tensor for row in rows]
    current.batches.append(_Written(offset, current.sink.tell() - offset, len(rows), min(ordinals), max(ordinals)))


def _sealed(batch: _Written, data: pa.Buffer) -> Batch:
    stored = data.slice(batch.offset, batch.bytes)
    return Batch(
        offset=batch.offset,
        bytes=batch.bytes,
        digest=sha256(memoryview(stored)),
        decoded_bytes=decoded_bytes(memoryview(stored)),
        rows=batch.rows,
        first_tensor=batch.first_tensor,
        last_tensor=batch.last_tensor,
    )


def _record_batch(rows: list[Row], current: _Open) -> pa.RecordBatch:
    columns = [
        pa.array(np.fromiter([row.tensor for row in rows], np.uint32, len(rows))),
        _list_column([row.box.start for row in rows], current.schema.field("box_start").type),
        _list_column([row.box.shape for row in rows], current.schema.field("box_shape").type),
        pa.array([row.codec for row in rows], pa.utf8()),
        pa.array(np.fromiter([row.changed for row in rows], np.uint64, len(rows))),
        pa.array(np.fromiter([row.digest_before for row in rows], np.uint64, len(rows))),
        pa.array(np.fromiter([row.digest_after for row in rows], np.uint64, len(rows))),
        *(_binary_column(rows, name) for name in current.streams),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=current.schema)


def _list_column(lists: list[tuple[int, ...]], kind: pa.ListType) -> pa.ListArray:
    offsets = np.zeros(len(lists) + 1, np.int32)
    np.cumsum([*map(len, lists)], out=offsets[1:])
    values = np.fromiter(itertools.chain.from_iterable(lists), np.uint64, int(offsets[-1]))
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values), kind)


def _binary_column(rows: list[Row], name: str) -> pa.LargeBinaryArray:
    streams = [row.streams.get(name, _NOTHING) for row in rows]
    offsets = np.zeros(len(rows) + 1, np.int64)
    np.cumsum([*map(len, streams)], out=offsets[1:])
    data = np.concatenate(streams)
    return pa.Array.from_buffers(pa.large_binary(), len(rows), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _stream_order(name: str) -> tuple[int, str]:
    return (0 if name == "positions" else 1 if name == "signs" else 2, name)
