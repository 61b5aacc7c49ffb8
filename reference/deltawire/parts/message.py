"""What a record batch message claims about itself, read before Arrow is allowed to decompress anything.

Arrow believes the length in front of each compressed buffer. This module reads the message's flatbuffer
(Arrow ``Message.fbs``) with every access checked, finds those lengths and holds them to the limits (PRT-5).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from deltawire.errors import MalformedPartError

_CONTINUATION = b"\xff\xff\xff\xff"
_RECORD_BATCH = 3
_ZSTD = 1
_MAX_FIELDS = 4096


class _Flat:
    """Bounds-checked reads of little-endian scalars from a flatbuffer."""

    def __init__(self, data: memoryview) -> None:
        self.data = data

    def scalar(self, form: str, at: int) -> int:
        size = struct.calcsize(form)
        if at < 0 or at + size > len(self.data):
            raise MalformedPartError("the batch's metadata points outside itself")
        value: int = struct.unpack_from("<" + form, self.data, at)[0]
        return value

    def follow(self, at: int) -> int:
        return at + self.scalar("I", at)

    def field(self, table: int, slot: int) -> int | None:
        """Place of a table's field; None if it is absent."""
        vtable = table - self.scalar("i", table)
        entry = 4 + 2 * slot
        if entry + 2 > self.scalar("H", vtable):
            return None
        offset = self.scalar("H", vtable + entry)
        return table + offset if offset else None

    def structs(self, table: int, slot: int) -> list[tuple[int, int]]:
        """A vector of structs of two int64, as FieldNode and Buffer both are."""
        at = self.field(table, slot)
        if at is None:
            return []
        vector = self.follow(at)
        count = self.scalar("I", vector)
        if count > _MAX_FIELDS:
            raise MalformedPartError(f"the batch claims {count:,} buffers")
        start = vector + 4
        return [
            (self.scalar("q", start + 16 * index), self.scalar("q", start + 16 * index + 8)) for index in range(count)
        ]


@dataclass(frozen=True, slots=True)
class BatchClaims:
    """What a message says of the batch behind it."""

    rows: int
    nodes: int
    nulls: bool
    """Whether a field node counts any."""
    buffers: tuple[int, ...]
    """Length of each buffer after decompression."""


def read_claims(stored: memoryview) -> BatchClaims:
    """Read the claims of one encapsulated record batch message: metadata and body, nothing before or after.

    Raises:
        MalformedPartError: it is not a zstd-compressed record batch message whose buffers lie in its body.
    """
    stored = stored.cast("B")  # Arrow's own buffers are signed
    if len(stored) < 8 or stored[:4] != _CONTINUATION:
        raise MalformedPartError("the batch does not start with an Arrow message")
    metadata_bytes = struct.unpack_from("<i", stored, 4)[0]
    if metadata_bytes <= 0 or 8 + metadata_bytes > len(stored):
        raise MalformedPartError("the batch's metadata leaves its range")
    flat, body = _Flat(stored[8 : 8 + metadata_bytes]), stored[8 + metadata_bytes :]
    message = flat.follow(0)
    kind, header, length = flat.field(message, 1), flat.field(message, 2), flat.field(message, 3)
    if kind is None or flat.scalar("B", kind) != _RECORD_BATCH or header is None:
        raise MalformedPartError("the message is not a record batch")
    if length is None or flat.scalar("q", length) != len(body):
        raise MalformedPartError("the batch's body does not fill its range")
    batch = flat.follow(header)
    _check_compression(flat, batch)
    rows = flat.field(batch, 0)
    buffers = tuple(_decoded_length(body, start, size) for start, size in flat.structs(batch, 2))
    nodes = flat.structs(batch, 1)
    nulls = any(count for _, count in nodes)
    return BatchClaims(0 if rows is None else flat.scalar("q", rows), len(nodes), nulls, buffers)


def decoded_bytes(stored: memoryview) -> int:
    """Sum of the claimed lengths of a batch's buffers after decompression."""
    return sum(read_claims(stored).buffers)


def _check_compression(flat: _Flat, batch: int) -> None:
    at = flat.field(batch, 3)
    codec = None if at is None else flat.field(flat.follow(at), 0)
    if codec is None or flat.scalar("b", codec) != _ZSTD:
        raise MalformedPartError("the batch is not compressed with zstd")  # PRT-3


def _decoded_length(body: memoryview, start: int, size: int) -> int:
    if start < 0 or size < 0 or start + size > len(body):
        raise MalformedPartError("a buffer lies outside the batch's body")
    if size == 0:
        return 0
    if size < 8:
        raise MalformedPartError("a compressed buffer has no length")
    claimed: int = struct.unpack_from("<q", body, start)[0]
    if claimed == -1:  # stored as it is
        return size - 8
    if claimed < 0:
        raise MalformedPartError("a buffer claims a negative length")
    return claimed
