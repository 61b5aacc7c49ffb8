"""Reading one batch of a part, believing nothing (SPEC.md section 8.6)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from deltawire.codecs.registry import codec_of
from deltawire.errors import DigestMismatchError, MalformedPartError, MalformedRowError, SizeMismatchError
from deltawire.format.boxes import check_box
from deltawire.format.records import Batch, Part
from deltawire.format.strict_json import sha256
from deltawire.format.tensors import Tensor, TensorTable
from deltawire.limits import Limits
from deltawire.parts.columns import Columns
from deltawire.parts.message import read_claims
from deltawire.parts.rows import FIXED_FIELDS, Row, part_schema


def read_batch(
    data: bytes | memoryview,
    part: Part,
    batch: Batch,
    table: TensorTable,
    *,
    limits: Limits,
    wanted: npt.NDArray[np.bool_] | None = None,
) -> list[Row]:
    """Read the stored bytes of one batch.

    With ``wanted``, a flag for each tensor of the table, only rows of these tensors are returned; all are checked.

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
    if not record_batch.num_rows:  # then offsets may be missing too
        raise MalformedPartError(f"{what} has no rows")
    _check_ranks(record_batch, limits, what)
    columns = Columns(record_batch, part.streams, table)
    _check_rows(columns, table, what)
    _check_range(columns, batch, what)
    every = np.arange(len(columns.ordinals))
    return columns.rows(every if wanted is None else every[wanted[columns.ordinals]])


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


def _check_rows(columns: Columns, table: TensorTable, what: str) -> None:
    for index in columns.suspects():
        _check_row(columns, index, table, what)


def _check_row(columns: Columns, index: int, table: TensorTable, what: str) -> None:
    """Check one row by itself. ROW-1 to ROW-3

    Raises:
        MalformedRowError: it cannot be.
        UnsupportedCodecError: a codec that is not in the registry.
    """
    ordinal = int(columns.ordinals[index])
    if ordinal >= len(table.tensors):
        raise MalformedRowError(f"{what}: tensor {ordinal} is not in the table")
    tensor, box, changed = table.tensors[ordinal], columns.box(index), columns.changed(index)
    name = f"{what}: {tensor.name[:80]!r}"
    check_box(box, tensor.storage_shape, what=name)
    if not 1 <= changed <= box.elements:
        raise MalformedRowError(f"{name}: {changed:,} changes in a box of {box.elements:,}")  # ROW-2
    _check_streams(columns, index, tensor, name)


def _check_streams(columns: Columns, index: int, tensor: Tensor, name: str) -> None:
    """A row has the streams that its codec needs, and no other that is not empty. ROW-3"""
    codec = columns.codec(index)
    needed = codec_of(codec).streams(tensor.dtype)
    if missing := [stream for stream in needed if stream not in columns.streams]:
        raise MalformedRowError(f"{name}: the part has no stream {missing[0]}")
    if columns.filled[index] != sum(len(columns.streams[stream][index]) > 0 for stream in needed):
        filled = (stream for stream, column in columns.streams.items() if len(column[index]))
        extra = next(stream for stream in filled if stream not in needed)
        raise MalformedRowError(f"{name}: {codec} has no stream {extra}")


def _check_range(columns: Columns, batch: Batch, what: str) -> None:
    ordinals = columns.ordinals
    if not len(ordinals) or (ordinals.min(), ordinals.max()) != (batch.first_tensor, batch.last_tensor):
        raise MalformedPartError(f"{what} does not hold the tensors that the record says")
