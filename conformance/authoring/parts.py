"""Delta parts from plain rows, sound or not: nothing here checks anything."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from authoring.states import Bits, State, digest_of
from deltawire.codecs.base import BoxChange
from deltawire.codecs.registry import CODECS
from deltawire.format.boxes import Box, flat_indices
from deltawire.format.strict_json import sha256
from deltawire.kernels.scan import Changes
from deltawire.parts.rows import part_schema


@dataclass
class RawRow:
    """A row, each member as it is stored."""

    tensor: int
    box_start: Sequence[int]
    box_shape: Sequence[int]
    codec: str
    changed: int
    digest_before: int
    digest_after: int
    streams: dict[str, bytes] = field(default_factory=dict)


def rows_between(old: State, new: State, *, codec: str | Mapping[str, str] = "gap") -> list[RawRow]:
    """One row for each tensor that differs, over the whole tensor.

    Args:
        old: the base.
        new: a state with the same tensors.
        codec: for all tensors, or by tensor name.
    """
    rows = []
    for tensor in old.table():
        before, after = old.tensors[tensor.name].bits, new.tensors[tensor.name].bits
        if np.array_equal(before, after):
            continue
        chosen = codec if isinstance(codec, str) else codec.get(tensor.name, "gap")
        rows.append(row_of(old, new, tensor.ordinal, chosen))
    return rows


def row_of(
    old: State, new: State, ordinal: int, codec: str, *, start: Sequence[int] | None = None,
    shape: Sequence[int] | None = None,
) -> RawRow:  # fmt: skip
    """The row of one tensor, or of a box of it."""
    tensor = old.table()[ordinal]
    box = Box(tuple(start or (0,) * len(tensor.storage_shape)), tuple(shape or tensor.storage_shape))
    inside = flat_indices(box, tensor.storage_shape, np.arange(box.elements, dtype=np.uint32))
    before: Bits = old.tensors[tensor.name].bits[inside.astype(np.int64)]
    after: Bits = new.tensors[tensor.name].bits[inside.astype(np.int64)]
    positions = np.flatnonzero(before != after).astype(np.uint32)
    change = BoxChange(before, after, Changes(positions, before[positions], after[positions]))
    streams = CODECS[codec].encode(change, tensor.dtype)
    covered = np.arange(box.elements) if codec == "dense" else positions
    return RawRow(
        tensor=ordinal,
        box_start=box.start,
        box_shape=box.shape,
        codec=codec,
        changed=len(positions),
        digest_before=digest_of(tensor, before[covered], inside[covered]),
        digest_after=digest_of(tensor, after[covered], inside[covered]),
        streams={name: bytes(stream) for name, stream in streams.items()},
    )


def stream_names(rows: Sequence[RawRow]) -> list[str]:
    """Names of the streams that rows have, in the usual order."""
    found = {name for row in rows for name in row.streams}
    return sorted(found, key=lambda name: (name != "positions", name != "signs", name))


@dataclass
class RawPart:
    """A part: its bytes and its member in ``delta.parts``, key excepted."""

    data: bytes
    descriptor: dict[str, Any]

    def reseal(self, data: bytes | None = None) -> RawPart:
        """Make digests and sizes fit the bytes again, after an edit that nothing else should give away."""
        if data is not None:
            self.data = data
        self.descriptor |= {"bytes": len(self.data), "digest": sha256(self.data)}
        for batch in self.descriptor["batches"]:
            batch["digest"] = sha256(self.data[batch["offset"] : batch["offset"] + batch["bytes"]])
        return self


Columns = dict[str, pa.Array]


def write_part(
    batches: Sequence[Sequence[RawRow]],
    *,
    streams: Sequence[str] | None = None,
    schema: pa.Schema | None = None,
    compression: str | None = "zstd",
    level: int | None = 3,
    columns: Callable[[Columns, int], Columns] | None = None,
) -> RawPart:
    """Write rows as an Arrow file.

    Args:
        batches: rows of each record batch.
        streams: names of the stream columns; those that the rows have, if None.
        schema: another schema than that of PRT-2.
        compression: of buffers.
        level: of zstd.
        columns: changes the columns of a batch, given its number, before they are written.
    """
    names = list(streams if streams is not None else stream_names([row for rows in batches for row in rows]))
    used = schema or part_schema(tuple(names))
    codec = None if compression is None else pa.Codec(compression, level) if compression == "zstd" else compression
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with pa.ipc.new_file(sink, used, options=options) as writer:
        for number, rows in enumerate(batches):
            made = _columns(rows, names, part_schema(tuple(names)))
            if columns is not None:
                made = columns(made, number)
            arrays = [made[name] for name in used.names]
            writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=used))
    data = sink.getvalue().to_pybytes()
    described = [
        {
            "offset": begin,
            "bytes": size,
            "digest": "",
            "decoded_bytes": decoded_length(data[begin : begin + size]),
            "rows": len(rows),
            "first_tensor": min((row.tensor for row in rows), default=0),
            "last_tensor": max((row.tensor for row in rows), default=0),
        }
        for (begin, size), rows in zip(record_batches(data), batches, strict=True)
    ]
    descriptor = {
        "media_type": "application/vnd.apache.arrow.file",
        "bytes": 0,
        "digest": "",
        "streams": names,
        "batches": described,
    }
    return RawPart(data, descriptor).reseal()


def _columns(rows: Sequence[RawRow], streams: Sequence[str], schema: pa.Schema) -> Columns:
    fixed = {
        name: pa.array([getattr(row, name) for row in rows], schema.field(name).type)
        for name in schema.names
        if name not in streams
    }
    return fixed | {name: pa.array([row.streams.get(name, b"") for row in rows], pa.large_binary()) for name in streams}


def record_batches(data: bytes) -> list[tuple[int, int]]:
    """Place and length of each record batch's message in an Arrow file."""
    source = pa.BufferReader(data)
    source.seek(8)
    found: list[tuple[int, int]] = []
    while True:
        begin = source.tell()
        try:
            message = pa.ipc.read_message(source)
        except EOFError:  # the mark that ends the messages
            return found
        if message.type == "record batch":
            found.append((begin, source.tell() - begin))


def buffers(message: bytes) -> list[tuple[int, int]]:
    """Place and length of each buffer of an encapsulated record batch, as offsets into the message.

    Only for messages that this module has written itself: it looks for the table of buffers by its shape.
    """
    body, table, count = _buffer_table(message)
    found = [struct.unpack_from("<qq", message, table + 16 * k) for k in range(count)]
    return [(body + offset, length) for offset, length in found]


def _buffer_table(message: bytes) -> tuple[int, int, int]:
    """Where the body begins and the table of buffers, and how many there are."""
    (metadata_bytes,) = struct.unpack_from("<i", message, 4)
    body = 8 + metadata_bytes
    metadata = message[8:body]
    root = struct.unpack_from("<I", metadata, 0)[0]
    header = _field(metadata, root, 2)
    assert header is not None
    batch = header + struct.unpack_from("<I", metadata, header)[0]
    place = _field(metadata, batch, 2)
    assert place is not None
    vector = place + struct.unpack_from("<I", metadata, place)[0]
    (count,) = struct.unpack_from("<I", metadata, vector)
    return body, 8 + vector + 4, count


def move_buffer(part: RawPart, index: int, offset: int, length: int) -> RawPart:
    """Let the first batch say that one of its buffers lies elsewhere in the body."""
    data, begin = bytearray(part.data), part.descriptor["batches"][0]["offset"]
    _, table, _ = _buffer_table(part.data[begin:])
    struct.pack_into("<qq", data, begin + table + 16 * index, offset, length)
    return part.reseal(bytes(data))


def claim(part: RawPart, index: int, length: int) -> RawPart:
    """Let a buffer of the first batch claim another length after decompression."""
    data, begin = bytearray(part.data), part.descriptor["batches"][0]["offset"]
    struct.pack_into("<q", data, begin + buffers(part.data[begin:])[index][0], length)
    return part.reseal(bytes(data))


def rebuffer(
    part: RawPart, edit: Callable[[list[bytes]], object], *, stored: bool = False, align: int = 8,
    compress: Callable[[bytes], bytes] | None = None,
) -> RawPart:  # fmt: skip
    """Write the buffers of a part's only batch anew.

    Args:
        part: with one batch.
        edit: changes the buffers, decompressed, in place.
        stored: store them as they are, with the length -1.
        align: each begins at a multiple of this.
        compress: makes frames of a buffer; one frame if None.
    """
    [batch] = part.descriptor["batches"]
    begin, end = batch["offset"], batch["offset"] + batch["bytes"]
    message = part.data[begin:end]
    codec = pa.Codec("zstd", 3)
    contents = []
    for start, length in buffers(message):
        (claimed,) = struct.unpack_from("<q", message, start) if length else (0,)
        raw = message[start + 8 : start + length]
        contents.append(raw if claimed == -1 else codec.decompress(raw, claimed, asbytes=True) if length else b"")
    edit(contents)
    body, table, _ = _buffer_table(message)
    metadata, made = bytearray(message[:body]), b""
    for index, content in enumerate(contents):
        raw = content if stored else (compress or partial(codec.compress, asbytes=True))(content)
        stored_form = struct.pack("<q", -1 if stored else len(content)) + raw if content else b""
        struct.pack_into("<qq", metadata, table + 16 * index, len(made), len(stored_form))
        made += stored_form + bytes(-len(stored_form) % align)
    root = 8 + struct.unpack_from("<I", metadata, 8)[0]
    place = _field(bytes(metadata), root, 3)
    assert place is not None
    struct.pack_into("<q", metadata, place, len(made))
    old, new = (struct.pack("<qiiq", begin, body, 0, size) for size in (len(message) - body, len(made)))
    footer = part.data[end:]
    assert footer.count(old) == 1
    batch |= {"bytes": body + len(made), "decoded_bytes": sum(map(len, contents))}
    return part.reseal(part.data[:begin] + bytes(metadata) + made + footer.replace(old, new))


def _field(data: bytes, table: int, number: int) -> int | None:
    vtable = table - struct.unpack_from("<i", data, table)[0]
    size = struct.unpack_from("<H", data, vtable)[0]
    if 4 + 2 * number >= size:
        return None
    offset = struct.unpack_from("<H", data, vtable + 4 + 2 * number)[0]
    return table + offset if offset else None


def decoded_length(message: bytes) -> int:
    """Sum of the lengths of a batch's buffers after decompression."""
    total = 0
    for begin, length in buffers(message):
        if length:
            (claimed,) = struct.unpack_from("<q", message, begin)
            total += length - 8 if claimed == -1 else claimed
    return total
