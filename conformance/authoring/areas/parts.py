"""Delta parts: what the record says of them, what batches say of themselves (SPEC.md section 8.6)."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from authoring.drafts import Draft, accepted, refused_next
from authoring.parts import Columns, RawPart, RawRow, buffers, claim, move_buffer, rebuffer, stream_names, write_part
from authoring.states import trained
from authoring.stream import Edit, Stream, small_stream, unedited
from deltawire.format.strict_json import sha256
from deltawire.parts.rows import part_schema

AREA = "parts"
CODEC_OFFSETS, CODEC_DATA, LAST_OFFSETS = 11, 12, -2
"""Places of buffers in a batch: those of the column ``codec``, and the offsets of the last stream."""


def drafts() -> Iterator[Draft]:
    """All cases."""
    yield from _of_the_record()
    yield from _of_the_range()
    yield from _of_the_message()
    yield from _of_the_bombs()
    yield from _of_the_content()
    yield from _sound()


def _next(
    name: str, title: str, requirements: Sequence[str], edit: Callable[[RawPart], object], error: str,
    *, write: Callable[[list[RawRow]], RawPart] = lambda rows: write_part([rows]), record: Edit = unedited,
    stored: Callable[[bytes], bytes | None] = lambda data: data,
) -> Draft:  # fmt: skip
    """A version whose only part has a fault.

    Args:
        name, title, requirements: of the case.
        edit: changes the part, after which the record names what it has become.
        error: the code.
        write: makes the part of the rows.
        record: changes the record.
        stored: what is stored in place of the part in the end; None for nothing.
    """

    def write_one(rows: list[RawRow]) -> list[RawPart]:
        part = write(rows)
        edit(part)
        return [part]

    def grow(stream: Stream) -> None:
        made = stream.delta(trained(stream.states[-1], 9), write=write_one, edit=record)
        key = made["delta"]["parts"][0]["key"]
        found = stored(stream.objects.pop(key))
        if found is not None:
            stream.objects[key] = found

    return refused_next(
        AREA, name, title, requirements, small_stream(f"parts {name}", versions=2), error, grow=grow
    )  # fmt: skip


def _batch(**members: Any) -> Callable[[RawPart], object]:
    """Say something else of the first batch."""
    return lambda part: part.descriptor["batches"][0].update(members)


def _more(member: str, by: int) -> Callable[[RawPart], object]:
    """Say another number of the first batch."""
    return lambda part: part.descriptor["batches"][0].update({member: part.descriptor["batches"][0][member] + by})


def _nothing(part: RawPart) -> None:
    """Leave a part as it is."""


def _one_row_each(rows: list[RawRow]) -> RawPart:
    return write_part([[row] for row in rows], streams=stream_names(rows))


def _of_the_record() -> Iterator[Draft]:
    yield _next(
        "batch-leaves-part", "a batch that ends eight bytes behind its part", ["PRT-4"],
        lambda part: part.descriptor["batches"][0].update(bytes=part.descriptor["bytes"] + 8 - 1000, offset=1000),
        "malformed_record",
    )  # fmt: skip
    yield _next(
        "batches-overlap", "a batch that begins within the one before it", ["PRT-4"],
        lambda part: part.descriptor["batches"][1].update(offset=part.descriptor["batches"][1]["offset"] - 8),
        "malformed_record", write=_one_row_each,
    )  # fmt: skip
    yield _next(
        "first-above-last", "a batch whose first tensor comes after its last", ["PRT-4"],
        _batch(first_tensor=2, last_tensor=0), "malformed_record",
    )  # fmt: skip
    yield _next(
        "stream-named-twice", "a part that names the stream signs twice", ["PRT-2"],
        lambda part: part.descriptor["streams"].append("signs"), "malformed_record",
    )  # fmt: skip
    yield _next(
        "media-type", "a part whose media type is that of shards", ["REC-2"],
        lambda part: part.descriptor.update(media_type="application/vnd.safetensors"), "malformed_record",
    )  # fmt: skip


def _of_the_range() -> Iterator[Draft]:
    yield _next(
        "batch-digest", "a batch that has another sha256 than the record says", ["PRT-5"],
        _batch(digest=sha256(b"another batch")), "digest_mismatch",
    )  # fmt: skip
    yield _next(
        "bit-flipped", "a part in which one bit of a batch was flipped in the store", ["PRT-5", "DSC-3"], _nothing,
        "digest_mismatch", stored=lambda data: data[:1600] + bytes([data[1600] ^ 4]) + data[1601:],
    )  # fmt: skip
    yield _next(
        "cut-short", "a part that ends in the middle of its batch", ["PRT-5", "FOL-5"], _nothing, "size_mismatch",
        stored=lambda data: data[:1600],
    )  # fmt: skip
    yield _next(
        "part-missing", "a part that is not in the store", ["FOL-5", "DSC-3"], _nothing, "missing_object",
        stored=lambda _: None,
    )  # fmt: skip


def _schema_message(part: RawPart) -> None:
    (size,) = struct.unpack_from("<i", part.data, 12)
    _batch(offset=8, bytes=8 + size)(part)
    part.reseal()


def _behind_the_mark(part: RawPart) -> None:
    batch = part.descriptor["batches"][0]
    batch.update(offset=batch["offset"] + 8, bytes=batch["bytes"] - 8)
    part.reseal()


def _beyond_the_body(part: RawPart) -> None:
    _more("bytes", 8)(part)
    part.reseal()


def _uncompressed_size(part: RawPart) -> None:
    begin = part.descriptor["batches"][0]["offset"]
    _batch(decoded_bytes=sum(length for _, length in buffers(part.data[begin:])))(part)


def _with_dictionary(rows: list[RawRow]) -> RawPart:
    names = stream_names(rows)
    usual = part_schema(tuple(names))
    schema = usual.set(3, pa.field("codec", pa.dictionary(pa.int32(), pa.utf8()), nullable=False))

    def encode(columns: Columns, _: int) -> Columns:
        return columns | {"codec": columns["codec"].dictionary_encode()}

    return write_part([rows], schema=schema, columns=encode)


def _with_column(rows: list[RawRow], kind: pa.DataType) -> RawPart:
    """A part whose file has a further column, said to be a stream."""
    names = stream_names(rows)
    schema = part_schema(tuple(names)).append(pa.field("notes", kind, nullable=False))
    more = pa.array([b"" if kind == pa.large_binary() else 0] * len(rows), kind)
    return write_part([rows], streams=names, schema=schema, columns=lambda columns, _: columns | {"notes": more})


def _of_the_message() -> Iterator[Draft]:
    yield _next(
        "not-compressed", "a batch that is not compressed", ["PRT-3", "PRT-5"], _uncompressed_size, "malformed_part",
        write=lambda rows: write_part([rows], compression=None),
    )  # fmt: skip
    yield _next(
        "lz4", "a batch that is compressed with LZ4", ["PRT-3", "PRT-5"], _nothing, "malformed_part",
        write=lambda rows: write_part([rows], compression="lz4"),
    )  # fmt: skip
    yield _next(
        "schema-message", "a range that holds the schema message in place of a record batch", ["PRT-5", "PRT-4"],
        _schema_message, "malformed_part",
    )  # fmt: skip
    yield _next(
        "no-continuation", "a range that begins behind the mark with which a message begins", ["PRT-4", "PRT-5"],
        _behind_the_mark, "malformed_part",
    )  # fmt: skip
    yield _next(
        "beyond-the-body", "a range that holds eight bytes more than the body of its batch", ["PRT-5", "PRT-4"],
        _beyond_the_body, "malformed_part",
    )  # fmt: skip
    yield _next(
        "buffer-outside-body", "a batch with a buffer that begins behind its body", ["PRT-5"],
        lambda part: move_buffer(part, CODEC_DATA, 1 << 40, 64), "malformed_part",
    )  # fmt: skip
    yield _next(
        "decoded-bytes", "a batch that decompresses to one byte less than the record says", ["PRT-5"],
        _more("decoded_bytes", 1), "malformed_part",
    )  # fmt: skip
    yield _next(
        "row-count", "a batch with one row less than the record says", ["PRT-5"], _more("rows", 1), "malformed_part"
    )  # fmt: skip
    yield _next(
        "column-too-many", "a batch with a column more than the part has by its record", ["PRT-5", "PRT-2"], _nothing,
        "malformed_part", write=lambda rows: _with_column(rows, pa.large_binary()),
    )  # fmt: skip
    yield _next(
        "buffer-too-few", "a batch in which a stream is a column of integers", ["PRT-5", "PRT-2"],
        lambda part: part.descriptor["streams"].append("notes"), "malformed_part",
        write=lambda rows: _with_column(rows, pa.uint8()),
    )  # fmt: skip
    yield _next(
        "dictionary", "a batch whose column of codecs is encoded with a dictionary", ["PRT-6", "PRT-5"], _nothing,
        "malformed_part", write=_with_dictionary,
    )  # fmt: skip


def _claims_a_terabyte(part: RawPart) -> None:
    batch = part.descriptor["batches"][0]
    message = part.data[batch["offset"] : batch["offset"] + batch["bytes"]]
    last = max(index for index, (_, length) in enumerate(buffers(message)) if length)
    claim(part, last, 1 << 40)


def _of_zeros(rows: list[RawRow]) -> RawPart:
    for row in rows:
        row.streams["signs"] = bytes(20 << 20)
    return write_part([rows], level=19)


def _of_the_bombs() -> Iterator[Draft]:
    yield _next(
        "bomb-claimed", "a batch with a compressed buffer that claims to hold a terabyte", ["LIM-2", "PRT-5"],
        _claims_a_terabyte, "limit_exceeded",
    )  # fmt: skip
    yield _next(
        "bomb-in-record", "a batch that decompresses to a terabyte by its record", ["LIM-2"],
        _batch(decoded_bytes=1 << 40), "limit_exceeded",
    )  # fmt: skip
    yield _next(
        "bomb", "a batch of a few kilobytes that decompresses to sixty megabytes of zeros", ["LIM-2"], _nothing,
        "limit_exceeded", write=_of_zeros,
    )  # fmt: skip


def _descending(contents: list[bytes]) -> None:
    contents[CODEC_OFFSETS] = struct.pack("<4i", 0, 6, 3, 9)


def _past_the_buffer(contents: list[bytes]) -> None:
    offsets = contents[LAST_OFFSETS]
    (last,) = struct.unpack("<q", offsets[-8:])
    contents[LAST_OFFSETS] = offsets[:-8] + struct.pack("<q", last + 4096)


def _not_utf8(contents: list[bytes]) -> None:
    contents[CODEC_DATA] = b"g\xff\xfe" + contents[CODEC_DATA][3:]


def _not_zstd(part: RawPart) -> None:
    batch = part.descriptor["batches"][0]
    begin = batch["offset"] + buffers(part.data[batch["offset"] :])[CODEC_DATA][0] + 8
    part.reseal(part.data[:begin] + b"none" + part.data[begin + 4 :])


def _with_null(columns: Columns, _: int) -> Columns:
    values = columns["digest_before"].to_pylist()
    return columns | {"digest_before": pa.array([values[0], None, *values[2:]], pa.uint64())}


def _of_the_content() -> Iterator[Draft]:
    yield _next(
        "offsets-descend", "a batch in which a string ends before it begins", ["PRT-5"],
        lambda part: rebuffer(part, _descending), "malformed_part",
    )  # fmt: skip
    yield _next(
        "offsets-past-buffer", "a batch in which a stream ends behind the buffer that holds it", ["PRT-5"],
        lambda part: rebuffer(part, _past_the_buffer), "malformed_part",
    )  # fmt: skip
    yield _next(
        "not-utf8", "a batch in which the name of a codec is not UTF-8", ["PRT-5"],
        lambda part: rebuffer(part, _not_utf8), "malformed_part",
    )  # fmt: skip
    yield _next(
        "not-zstd", "a batch with a buffer that is not a zstd frame", ["PRT-5", "PRT-3"], _not_zstd, "malformed_part"
    )  # fmt: skip
    yield _next(
        "null", "a batch with a row that has no digest_before", ["PRT-5", "PRT-2"], _nothing, "malformed_part",
        write=lambda rows: write_part([rows], columns=_with_null),
    )  # fmt: skip
    yield _next(
        "first-tensor", "a batch with a row of a tensor before the first one by its record", ["PRT-5"],
        _batch(first_tensor=1), "malformed_part",
    )  # fmt: skip
    yield _next(
        "last-tensor", "a batch without a row of the last tensor by its record", ["PRT-5"], _batch(last_tensor=2),
        "malformed_part", write=lambda rows: write_part([rows[:2], rows[2:]], streams=stream_names(rows)),
    )  # fmt: skip
    yield _next(
        "empty-batch", "a part whose second batch has no rows", ["PRT-5"], _nothing, "malformed_part",
        write=lambda rows: write_part([rows, []], streams=stream_names(rows)),
    )  # fmt: skip


def _sound() -> Iterator[Draft]:
    def spread(rows: list[RawRow]) -> list[RawPart]:
        return [write_part([rows[:1], rows[1:2]]), write_part([rows[2:]])]

    stream = small_stream("parts spread", versions=1)
    stream.delta(trained(stream.states[-1], 1), write=spread)
    yield accepted(
        AREA, "two-parts", "a delta in two parts, the first of two batches", ["PRT-4", "PRT-7", "PRT-1"], stream
    )
    stream = small_stream("parts stored", versions=1)
    stream.delta(
        trained(stream.states[-1], 1),
        write=lambda rows: [rebuffer(write_part([rows]), lambda _: None, stored=True, align=64)],
    )
    yield accepted(
        AREA, "stored-buffers", "a batch whose buffers are stored as they are, 64 bytes apart", ["PRT-3"], stream
    )
    stream = small_stream("parts more streams", versions=1)
    stream.delta(
        trained(stream.states[-1], 1),
        write=lambda rows: [write_part([rows], streams=stream_names(rows)[::-1])],
    )
    yield accepted(
        AREA, "streams-in-any-order", "a part with its streams in another order", ["PRT-2"], stream
    )  # fmt: skip
