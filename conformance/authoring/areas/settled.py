"""Points on which two readers of SPEC.md could once differ; each case is of the area that it belongs to."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from authoring.areas.lease import leased
from authoring.drafts import Draft, accepted, changed, refused, refused_next
from authoring.nexts import assign, bad_next, both, good_next, text
from authoring.parts import RawPart, RawRow, rebuffer, stream_names, write_part
from authoring.producing import LEASE, next_states, producing, resting_stream
from authoring.states import small_model, trained
from authoring.stream import Edit, Json, Raw, Stream, public_key, same, small_stream, unedited
from deltawire.format.keys import version_key
from deltawire_conformance.case import Case, Judge, Lease, Materialize, Publish, Put

VALIDITY, CODEC_OFFSETS, CODEC_DATA = 0, 11, 12
"""Places of buffers in a batch: the validity of the column ``tensor``, and the column ``codec``."""


def drafts() -> Iterator[Draft]:
    """All cases."""
    yield from _records()
    yield from _limits()
    yield from _parts()
    yield from _snapshots()
    yield from _signatures()
    yield from _beside_the_line()


def _good(
    area: str, name: str, title: str, requirement: str, *, edit: Edit = unedited, raw: Raw = same, **more: Any
) -> Draft:
    return good_next(
        area, name, title, [requirement], stream=small_stream(f"settled {name}", versions=1),
        grow=lambda s: s.delta(trained(s.states[-1], 1), edit=edit, raw=raw), **more,
    )  # fmt: skip


def _records() -> Iterator[Draft]:
    area = "records"
    yield _good(area, "minus-zero", "an epoch of -0", "JSN-3", raw=text('"epoch":0', '"epoch":-0'))
    yield _good(
        area, "noncharacters", "noncharacters in a string of metadata", "JSN-1",
        edit=assign("metadata", {"x": "\ufffe\uffff\U0001ffff"}),
    )  # fmt: skip
    yield _good(
        area, "no-such-day", "a time on a day that no calendar has", "REC-5",
        edit=assign("created_at", "2026-99-99T99:99:99Z"),
    )  # fmt: skip
    yield _good(
        area, "name-of-200-emoji", "a producer whose name has 200 characters beyond 16 bits", "REC-1",
        edit=assign("producer.name", "\U0001f600" * 200),
    )  # fmt: skip
    yield _good(
        area, "changed-tensors", "a delta that counts another number of changed tensors", "DLT-3",
        edit=assign("delta.changed_tensors", 1000),
    )  # fmt: skip
    stream = Stream("settled uuid-of-zeros")
    stream.stream_id = "00000000-0000-0000-0000-000000000000"
    stream.create()
    stream.rebase(small_model())
    yield accepted(area, "uuid-of-zeros", "a stream whose identity is the uuid of zeros", ["STR-2"], stream)
    yield bad_next(
        area, "version-with-leading-zero", "a protocol version with a leading zero", ["VER-1", "REC-1"],
        "malformed_record", edit=assign("protocol_version", "00.1"),
    )  # fmt: skip
    yield bad_next(
        area, "later-version-of-three", "a later protocol version of three numbers", ["VER-1"], "malformed_record",
        edit=assign("protocol_version", "1.0.0"),
    )  # fmt: skip
    yield bad_next(
        area, "protocol-before-version", "another protocol, and a number for its version", ["VER-1"],
        "unsupported_protocol", edit=both(assign("protocol", "other"), assign("protocol_version", 1)),
    )  # fmt: skip
    yield bad_next(
        area, "reader-features-mixed", "reader features of which one is a number", ["VER-2", "REC-2"],
        "malformed_record", edit=both(assign("reader_features", ["novel", 7]), assign("writer_features", ["novel"])),
    )  # fmt: skip


def _limits() -> Iterator[Draft]:
    area = "limits"
    few: Json = {"options": {"limits": {"metadata_bytes": 64}}, "features": ("limits",)}
    yield _good(
        area, "metadata-with-escapes", "metadata that is small without its escapes and white space", "LIM-1",
        raw=text('"metadata":{}', '"metadata" : { "x" : "' + r"\u0041" * 40 + '" }'), **few,
    )  # fmt: skip
    stream = small_stream("settled metadata-of-numbers", versions=1)
    written = '"metadata":{"x":[' + ",".join(["1.000000"] * 8) + "]}"
    yield refused_next(
        area, "metadata-of-numbers", "metadata of numbers with more digits than they need", ["LIM-1"], stream,
        "limit_exceeded",
        grow=lambda s: s.delta(trained(s.states[-1], 1), raw=text('"metadata":{}', written)), **few,
    )  # fmt: skip
    yield refused_next(
        area, "table-bytes-claimed", "a small tensor table that is larger than table_bytes by its record",
        ["LIM-1", "DSC-3"], small_stream("settled table-bytes", versions=1), "limit_exceeded",
        grow=lambda s: s.rebase(small_model(seed="next"), edit=assign("tensors.bytes", 268435457)),
    )  # fmt: skip

    def two_batches(rows: list[RawRow]) -> list[RawPart]:
        part = write_part([rows[:1], rows[1:]], streams=stream_names(rows))
        part.descriptor["batches"][1]["rows"] = 4000001
        return [part]

    yield _partial(
        area, "rows-not-wanted", "too many rows in a batch that holds no tensor that is wanted", ["LIM-1", "REC-2"],
        grow=lambda s: s.delta(trained(s.states[-1], 9), write=two_batches), error="limit_exceeded",
    )  # fmt: skip


def _partial(
    area: str, name: str, title: str, requirements: list[str], *, tensors: tuple[str, ...] = ("embed.weight",),
    grow: Callable[[Stream], object], error: str | None = None,
) -> Draft:  # fmt: skip
    """A consumer of some tensors holds version 0, and a further version comes."""
    stream = small_stream(f"settled {name}", versions=1)
    before = dict(stream.objects)
    grow(stream)
    options: Json = {"tensors": list(tensors)}
    return Draft(
        area,
        name,
        negative=error is not None,
        case=Case(
            title=title,
            requirements=tuple(requirements),
            role="consumer",
            features=("partial",),
            steps=(
                Put(),
                Materialize(version=0, state="0", options=options),
                Put(tree="then"),
                Materialize(options=options, **({"state": "1"} if error is None else {"error": (error,)})),
            ),
        ),
        trees={"store": before, "then": changed(before, stream.objects)},
        states={
            str(number): stream.states[number].neutral(number, only=tensors)
            for number in ((0, 1) if error is None else (0,))
        },
    )


def _one_part(
    name: str, title: str, requirements: list[str], write: Callable[[list[RawRow]], list[RawPart]],
    error: str | None = None,
) -> Draft:  # fmt: skip
    """A version whose parts are written like this."""
    stream = small_stream(f"settled {name}", versions=1)

    def grow(stream: Stream) -> object:
        return stream.delta(trained(stream.states[-1], 9), write=write)

    if error is not None:
        return refused_next("parts", name, title, requirements, stream, error, grow=grow)
    return good_next("parts", name, title, requirements, stream=stream, grow=grow)


def _buffers(edit: Callable[[list[bytes]], object]) -> Callable[[list[RawRow]], list[RawPart]]:
    return lambda rows: [rebuffer(write_part([rows]), edit)]


def _not_valid(contents: list[bytes]) -> None:
    contents[VALIDITY] = bytes(8)


def _from_three(contents: list[bytes]) -> None:
    offsets = struct.unpack(f"<{len(contents[CODEC_OFFSETS]) // 4}i", contents[CODEC_OFFSETS])
    contents[CODEC_OFFSETS] = struct.pack(f"<{len(offsets)}i", *(offset + 3 for offset in offsets))
    contents[CODEC_DATA] = b"abc" + contents[CODEC_DATA] + b"defgh"


def _frames(content: bytes) -> bytes:
    """Two frames, and before, between and after them one that is skipped."""
    codec, half = pa.Codec("zstd", 3), len(content) // 2
    skipped = struct.pack("<II", 0x184D2A5F, 3) + b"abc"
    return b"".join(
        [skipped, *(codec.compress(piece, asbytes=True) + skipped for piece in (content[:half], content[half:]))]
    )


def _backwards(rows: list[RawRow]) -> list[RawPart]:
    part = write_part([rows[:1], rows[1:]], streams=stream_names(rows))
    part.descriptor["batches"].reverse()
    return [part]


def _parts() -> Iterator[Draft]:
    yield _one_part(
        "batches-backwards", "a record that describes the second batch of a part before the first", ["PRT-4"],
        _backwards, "malformed_record",
    )  # fmt: skip
    yield _one_part(
        "part-without-batches", "a part with rows, and one without any batch", ["PRT-7"],
        lambda rows: [write_part([rows]), write_part([], streams=stream_names(rows))],
    )  # fmt: skip
    yield _one_part(
        "further-stream", "a part with an empty stream that no codec knows", ["PRT-2", "ROW-3"],
        lambda rows: [write_part([rows], streams=[*stream_names(rows), "notes"])],
    )  # fmt: skip
    yield _one_part(
        "validity-without-nulls", "a validity buffer of zeros, where the field node counts no null", ["PRT-5"],
        _buffers(_not_valid),
    )  # fmt: skip
    yield _one_part(
        "offsets-from-three", "a buffer that begins before its first string and ends behind its last", ["PRT-5"],
        _buffers(_from_three),
    )  # fmt: skip
    yield _one_part(
        "several-frames", "buffers of two Zstandard frames each, between frames to be skipped", ["PRT-3"],
        lambda rows: [rebuffer(write_part([rows]), lambda _: None, compress=_frames)],
    )  # fmt: skip


def _rebased(stream: Stream, **snapshot: Any) -> str:
    """A rebase; the key of its shard."""
    made = stream.rebase(small_model(seed="next"), **snapshot)
    key: str = made["snapshot"]["shards"][0]["key"]
    return key


def _deep(header: Json, _: int) -> None:
    value: Any = 1
    for _step in range(40):
        value = [value]
    header["norm.weight"]["later"] = value


def _in_table_order(data: bytes, _: int) -> bytes:
    """A shard whose tensors lie as in the table, with a header that is not padded."""
    size = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:size])
    state = small_model(seed="next")
    at = 0
    for tensor in state.table():
        header[tensor.name]["data_offsets"] = [at, at + tensor.bytes]
        at += tensor.bytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (3 - (8 + len(text)) % 8)
    assert (8 + len(text)) % 8
    return len(text).to_bytes(8, "little") + text + b"".join(v.data for v in state.tensors.values())


def _flip(stream: Stream) -> None:
    key = _rebased(stream)
    data = stream.objects[key]
    stream.objects[key] = data[:-1] + bytes([data[-1] ^ 1])


def _snapshots() -> Iterator[Draft]:
    area = "snapshots"
    yield refused_next(
        area, "bit-flipped", "a shard of which a bit was flipped in the store, read whole", ["SNP-5", "DSC-3"],
        small_stream("settled bit-flipped", versions=1), "digest_mismatch", grow=_flip,
    )  # fmt: skip
    yield refused_next(
        area, "header-too-deep", "a shard whose header is nested forty deep in a member that nobody knows",
        ["JSN-2", "LIM-1"], small_stream("settled header-too-deep", versions=1), "limit_exceeded",
        grow=lambda s: _rebased(s, header=_deep),
    )  # fmt: skip
    yield good_next(
        area, "in-table-order", "a shard whose tensors lie in table order behind a header without padding", ["SNP-4"],
        stream=small_stream("settled in-table-order", versions=1),
        grow=lambda s: _rebased(s, shard=_in_table_order),
    )  # fmt: skip


def _twice_by_another(data: bytes) -> bytes:
    value = json.loads(data)["signature"]["value"].encode()
    named = data.replace(public_key("a").encode(), public_key("z").encode())
    return named.replace(b'"metadata":{}', b'"metadata":{"x":"' + value + b'"}')


def _signatures() -> Iterator[Draft]:
    area, features = "signatures", ("signatures",)
    yield refused_next(
        area, "digits-twice-by-another", "the digits of a signature twice, in the name of a key that is not listed",
        ["SIG-4"], small_stream("settled digits-twice", versions=1, signers=["a"]), "malformed_record",
        grow=lambda s: s.delta(trained(s.states[-1], 1), raw=_twice_by_another),
        options={"public_keys": [public_key("a")]}, features=features,
    )  # fmt: skip
    yield refused(
        area, "no-key-in-the-list", "a signed stream, and an empty list of public keys to believe", ["SIG-5"],
        small_stream("settled no-key", versions=1, signers=["a"]), "invalid_argument", options={"public_keys": []},
        features=features,
    )  # fmt: skip


def _beside_the_line() -> Iterator[Draft]:
    yield refused_next(
        "retention", "nothing-from-the-boundary-on", "a boundary above every version that is there", ["LAT-5"],
        small_stream("settled nothing-from", versions=2), "version_not_found", grow=lambda s: s.retention(5),
    )  # fmt: skip
    stream = small_stream("settled continued", versions=2)
    stream.objects[version_key(2) + "/notes.txt"] = b"not a record"
    yield accepted(
        "keys", "next-record-continued", "a key that continues that of the next version's record",
        ["KEY-5", "STO-15", "LAT-4"], stream,
    )  # fmt: skip
    yield _partial(
        "following", "nothing-selected", "a consumer that wants no tensor", ["FOL-6"], tensors=(),
        grow=lambda s: s.delta(trained(s.states[-1], 1)),
    )  # fmt: skip
    lost = resting_stream("settled lost", versions=2)
    there = {key: data for key, data in lost.objects.items() if key != "stream.json"}
    yield Draft(
        "publishing", "stream-record-lost", negative=True,
        case=Case(
            title="versions of a stream whose stream.json is not there any more", requirements=("OPN-2",),
            role="producer",
            steps=(
                Put(), Publish(error=("stream_not_found",)), Put(tree="back"),
                Judge(newest=1, unchanged=("*",), absent=(version_key(2),)),
            ),
        ),
        trees={"store": there, "back": {"stream.json": lost.objects["stream.json"]}},
        inputs={"input": next_states(lost)},
    )  # fmt: skip
    empty = Stream("settled boundary-of-nothing")
    empty.create()
    empty.retention(3)
    yield producing(
        "publishing", "boundary-of-nothing", "a boundary in a stream that has no version", ["OPN-4", "LAT-5"],
        stream=empty, error="version_not_found",
        judged={"newest": None, "unchanged": ("stream.json", "retention.json"), "absent": ("versions/*", "data/*"),
                "findings": ("missing_object",)},
    )  # fmt: skip
    single = Stream("settled single")
    single.create(writers="single")
    single.rebase(small_model())
    single.head(0)
    yield leased(
        "single", "the lease of a stream with a single writer", ["LSE-1"], single,
        Lease(holder="trainer-1", error=("invalid_argument",)), judged={"absent": (LEASE,), "unchanged": ("*",)},
    )  # fmt: skip
    former = resting_stream("settled former")
    former.lease(
        released=True,
        edit=lambda r: (r.update(metadata={"step": 7}, later={"a": 1}), r["producer"].update(build="x")),
    )
    yield leased(
        "members-of-the-former", "a lease of a former holder with metadata and members that nobody knows", ["VER-5"],
        former, Lease(holder="trainer-1", above=4),
        judged={
            "members": {LEASE: {"later": {"a": 1}, "holder": "trainer-1"}},
            "lacking": {LEASE: ("metadata.step", "producer.build")},
        },
    )  # fmt: skip
