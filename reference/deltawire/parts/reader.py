"""Reading one batch of a part, believing nothing (SPEC.md section 8.6)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from deltawire.codecs.base import Stream
from deltawire.codecs.registry import codec_of
from deltawire.errors import DigestMismatchError, MalformedPartError, MalformedRowError, SizeMismatchError
from deltawire.format.boxes import Box, check_box
from deltawire.format.records import Batch, Part
from deltawire.format.strict_json import sha256
from deltawire.format.tensors import Tensor, TensorTable
from deltawire.limits import Limits
from deltawire.parts.message import read_claims
from deltawire.parts.rows import FIXED_FIELDS, Row, part_schema


def read_batch(data: bytes | memoryview, part: Part, batch: Batch, table: TensorTable, *, limits: Limits) -> list[Row]:
    """Read the stored bytes of one batch.

    Checked in this order (PRT-5): size, sha256, the message's claims against the record and the limits; only then is
    anything decompressed, and the result validated in full.

    Raises:
        SizeMismatchError: not the recorded number of bytes.
        DigestMismatchError: not the recorded bytes.
        LimitExceededError: it would decompress to more than the limits allow.
        MalformedPartError: not a batch of the part's schema, or not what the record says of it.
        MalformedRowError: a row that cannot be.
        UnsupportedCodecError: a codec that is not in the registry.
    """
    what = f"batch at {batch.offset} of {part.key}"
    if len(data) != batch.bytes:
        raise SizeMismatchError(f"{what} has {len(data):,} bytes, not {batch.bytes:,}")
    if sha256(data) != batch.digest:
        raise DigestMismatchError(f"{what} is not what the record says")
    _check_claims(memoryview(data), part, batch, what, limits)
    schema = part_schema(part.streams)
    try:
        message = pa.ipc.read_message(pa.BufferReader(pa.py_buffer(data)))
        record_batch = pa.ipc.read_record_batch(message, schema)
        record_batch.validate(full=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise MalformedPartError(f"{what} is not an Arrow record batch: {error}") from None
    _check_ranks(record_batch, limits, what)
    rows = _rows(record_batch, part, table, what)
    _check_range(rows, batch, what)
    return rows


def _check_claims(stored: memoryview, part: Part, batch: Batch, what: str, limits: Limits) -> None:
    claims = read_claims(stored)
    decoded = sum(claims.buffers)
    limits.check_expansion(batch.bytes, decoded, what)
    if decoded != batch.decoded_bytes or claims.rows != batch.rows:
        raise MalformedPartError(f"{what} does not hold the rows and bytes that the record says")
    # One node a field and one for the items of each list; validity, offsets and data buffers of each type.
    fields = len(FIXED_FIELDS) + len(part.streams)
    if claims.nodes != fields + 2 or len(claims.buffers) != 4 * 2 + 2 * 4 + 3 + 3 * len(part.streams):
        raise MalformedPartError(f"{what} does not have the columns of its part")
    if claims.nulls:  # the bits of validity say nothing where no null is counted
        raise MalformedPartError(f"{what} has nulls")


def _check_ranks(record_batch: pa.RecordBatch, limits: Limits, what: str) -> None:
    """Before the lists become Python's: a few compressed bytes can hold millions of numbers."""
    for column in (record_batch.column(1), record_batch.column(2)):
        rank = int(np.diff(column.offsets.to_numpy()).max(initial=0))
        if rank > limits.dims:
            raise MalformedRowError(f"{what}: a box of rank {rank:,}")  # BOX-1


def _rows(record_batch: pa.RecordBatch, part: Part, table: TensorTable, what: str) -> list[Row]:
    fixed = [record_batch.column(index).to_pylist() for index in range(len(FIXED_FIELDS))]
    columns = {name: _Column(record_batch.column(len(FIXED_FIELDS) + at)) for at, name in enumerate(part.streams)}
    filled = np.zeros(record_batch.num_rows, np.uint32)
    for column in columns.values():
        filled += np.diff(column.offsets) > 0
    rows = []
    for index, (ordinal, start, shape, codec, changed, before, after) in enumerate(zip(*fixed, strict=True)):
        if ordinal >= len(table.tensors):
            raise MalformedRowError(f"{what}: tensor {ordinal} is not in the table")
        tensor = table.tensors[ordinal]
        box = Box(tuple(start), tuple(shape))
        name = f"{what}: {tensor.name[:80]!r}"
        check_box(box, tensor.storage_shape, what=name)
        if not 1 <= changed <= box.elements:
            raise MalformedRowError(f"{name}: {changed:,} changes in a box of {box.elements:,}")  # ROW-2
        rows.append(
            Row(
                tensor=ordinal,
                box=box,
                codec=codec,
                changed=changed,
                digest_before=before,
                digest_after=after,
                streams=_streams(columns, index, int(filled[index]), codec, tensor, name),
            )
        )
    return rows


def _streams(
    columns: Mapping[str, _Column], index: int, filled: int, codec: str, tensor: Tensor, name: str
) -> dict[str, Stream]:
    """The streams that a row's codec needs, of which ``filled`` are not empty. ROW-3

    A view takes more memory than an empty stream, and a hostile part has many of those: no others are made.
    """
    needed = codec_of(codec).streams(tensor.dtype)
    if missing := [stream for stream in needed if stream not in columns]:
        raise MalformedRowError(f"{name}: the part has no stream {missing[0]}")
    streams = {stream: columns[stream][index] for stream in needed}
    if filled != sum(len(data) > 0 for data in streams.values()):
        extra = next(stream for stream, column in columns.items() if stream not in streams and len(column[index]))
        raise MalformedRowError(f"{name}: {codec} has no stream {extra}")
    return streams


def _check_range(rows: list[Row], batch: Batch, what: str) -> None:
    ordinals = [row.tensor for row in rows]
    if not ordinals or (min(ordinals), max(ordinals)) != (batch.first_tensor, batch.last_tensor):
        raise MalformedPartError(f"{what} does not hold the tensors that the record says")


class _Column:
    """The streams of one name, a row each."""

    def __init__(self, column: pa.LargeBinaryArray) -> None:
        _, offsets, data = column.buffers()
        self.offsets = np.frombuffer(offsets, np.int64)[column.offset : column.offset + len(column) + 1]
        self._data = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)

    def __getitem__(self, index: int) -> Stream:
        return self._data[self.offsets[index] : self.offsets[index + 1]]
