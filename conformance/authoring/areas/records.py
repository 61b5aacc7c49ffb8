"""Records: JSON, the envelope, the shape of each kind (SPEC.md sections 7.1 and 8.1)."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator

from authoring.drafts import Draft, accepted, published, refused, refused_next
from authoring.nexts import assign, bad_next, both, good_next, remove, text
from authoring.states import small_model, trained
from authoring.stream import Edit, Json, Raw, Stream, dump, small_stream
from deltawire_conformance.case import Case, Delete, Materialize, Put

AREA = "records"
OTHER = "11111111-1111-4111-8111-111111111111"
"""A uuid that no record here has."""
EMPTY = b'"metadata":{}'


def _empty(changed: int, after: str = "0") -> Edit:
    def edit(record: Json) -> None:
        delta = record["delta"]
        delta.update(changed_elements=changed, changed_tensors=changed, parts=[])
        delta.update(digest_before="0" * 16, digest_after=after.rjust(16, "0"))

    return edit


JSON: list[tuple[str, str, Raw]] = [
    ("byte-order-mark", "a version record that begins with a byte order mark", lambda data: b"\xef\xbb\xbf" + data),
    ("not-utf-8", "a string in metadata with a byte that is not UTF-8", text(EMPTY, b'"metadata":{"x":"a\xffb"}')),
    (
        "half-surrogate",
        "a string in metadata with half a surrogate pair, escaped",
        text(EMPTY, r'"metadata":{"x":"\ud800"}'),
    ),
    ("nan", "the literal NaN in metadata", text(EMPTY, '"metadata":{"x":NaN}')),
    ("number-beyond-double", "the number 1e400 in metadata", text(EMPTY, '"metadata":{"x":1e400}')),
    ("integer-beyond-double", "an integer of 400 digits in metadata", text(EMPTY, f'"metadata":{{"x":{"9" * 400}}}')),
    (
        "member-twice-in-metadata",
        "an object within metadata with a member twice",
        text(EMPTY, '"metadata":{"x":[{"a":1,"a":2}]}'),
    ),
    ("trailing-comma", "a version record with a comma after its last member", lambda data: data[:-1] + b",}"),
    ("trailing-object", "a version record followed by an empty object", lambda data: data + b"{}"),
    ("cut-short", "a version record without its last byte", lambda data: data[:-1]),
]
"""Bytes that are no I-JSON. JSN-1"""

SHAPES: list[tuple[str, str, tuple[str, ...], Edit]] = [
    ("kind-missing", "a version record without kind", ("REC-1",), remove("kind")),
    ("commit-id-missing", "a version record without commit_id", ("REC-1",), remove("commit_id")),
    ("epoch-missing", "a version record without epoch", ("REC-1",), remove("epoch")),
    ("producer-missing", "a version record without producer", ("REC-1",), remove("producer")),
    ("reader-features-missing", "a version record without reader_features", ("REC-1",), remove("reader_features")),
    ("writer-features-missing", "a version record without writer_features", ("REC-1",), remove("writer_features")),
    ("metadata-missing", "a version record without metadata", ("REC-1",), remove("metadata")),
    ("epoch-negative", "a negative epoch", ("JSN-3",), assign("epoch", -1)),
    ("epoch-too-large", "an epoch of 2^53", ("JSN-3",), assign("epoch", 1 << 53)),
    ("epoch-true", "true in place of an epoch", ("JSN-3",), assign("epoch", value=True)),
    ("null-member", "null in place of the snapshot of a version with a delta", ("JSN-4",), assign("snapshot", None)),
    ("commit-id-upper-case", "a commit_id in upper case", ("REC-1",), assign("commit_id", OTHER.replace("1", "A"))),
    (
        "created-at-offset",
        "a time that gives UTC as an offset in place of Z",
        ("REC-1",),
        assign("created_at", "2026-12-01T09:30:04+00:00"),
    ),
    (
        "created-at-long-fraction",
        "a time with a fraction of ten digits",
        ("REC-1",),
        assign("created_at", "2026-12-01T09:30:04.0123456789Z"),
    ),
    ("state-digest-upper-case", "a state digest in upper case", ("JSN-3",), assign("state_digest", "ABCDEF0123456789")),
    (
        "table-digest-bare",
        "the digest of a tensor table without sha256: before it",
        ("DSC-2",),
        lambda record: record["tensors"].update(digest=record["tensors"]["digest"].removeprefix("sha256:")),
    ),
    ("kind-of-an-anchor", "a version record that says it is an anchor", ("REC-1",), assign("kind", "anchor")),
    ("metadata-an-array", "an array in place of metadata", ("REC-1",), assign("metadata", [])),
    ("producer-name-empty", "a producer whose name is empty", ("REC-1",), assign("producer.name", "")),
    ("producer-name-long", "a producer whose name has 201 characters", ("REC-1",), assign("producer.name", "n" * 201)),
    (
        "protocol-version-of-three",
        "a protocol version of three numbers",
        ("REC-1", "REC-2"),
        assign("protocol_version", "0.1.0"),
    ),
    ("parent-missing", "version 1 without a parent", ("VSN-3",), remove("parent")),
    ("parent-itself", "version 1 with version 1 for its parent", ("VSN-3",), assign("parent.version", 1)),
    ("delta-missing", "a version with neither a delta nor a snapshot", ("VSN-4",), remove("delta")),
    ("nothing-changed-counted", "a delta without parts that counts a changed element", ("DLT-4",), _empty(1)),
    ("nothing-changed-moved", "a delta without parts whose two digests differ", ("DLT-4",), _empty(0, "1")),
]
"""Records of another shape than section 8 says."""

FILES: list[tuple[str, str, str]] = [
    ("file-in-a-folder", "an auxiliary file whose name leads into a folder", "sub/config.json"),
    ("file-two-dots", "an auxiliary file whose name is two dots", ".."),
    ("file-backslash", "an auxiliary file whose name leads upwards with backslashes", "..\\config.json"),
    ("file-weights", "an auxiliary file that shadows weights", "model.safetensors"),
    ("file-101-characters", "an auxiliary file whose name has 101 characters", "n" * 101),
    ("file-twice", "an auxiliary file that is listed twice", "config.json"),
]
"""Names of files that FIL-2 rules out."""


def drafts() -> Iterator[Draft]:
    """All cases."""
    yield accepted(
        AREA, "small-stream", "a snapshot and two deltas", ["VSN-1", "DLT-1", "CHN-1"], small_stream("small")
    )
    yield _member_twice()
    yield refused_next(
        AREA,
        "wrong-stream-id",
        "a version record of another stream",
        ["STR-2", "CHN-5"],
        small_stream("other", versions=2),
        "wrong_stream",
        grow=lambda s: s.delta(trained(s.states[-1], 9), edit=assign("stream_id", OTHER)),
    )
    model = small_model()
    yield published(
        AREA, "publish-three", "three states published in one session", ["PUB-1", "PUB-7"],
        [model, trained(model, 1), trained(trained(model, 1), 2)],
    )  # fmt: skip
    for name, title, raw in JSON:
        yield bad_next(AREA, name, title, ["JSN-1"], "malformed_record", raw=raw)
    yield bad_next(
        AREA, "array-of-a-record", "a version record within an array", ["JSN-2"], "malformed_record",
        raw=lambda data: b"[" + data + b"]",
    )  # fmt: skip
    for name, title, number in (
        ("epoch-fraction", "an epoch written as 0.0", "0.0"),
        ("epoch-exponent", "an epoch written as 0e0", "0e0"),
    ):
        yield bad_next(
            AREA, name, title, ["JSN-3"], "malformed_record", raw=text('"epoch":0', f'"epoch":{number}')
        )  # fmt: skip
    for name, title, requirements, edit in SHAPES:
        yield bad_next(AREA, name, title, requirements, "malformed_record", edit=edit)
    for name, title, file_name in FILES:
        yield bad_next(AREA, name, title, ["FIL-2"], "malformed_record", edit=_another_file(file_name))
    yield from _wrong_kinds_of_versions()
    yield from _order()
    yield from _streams()
    yield from _sound()


def _member_twice() -> Draft:
    stream = small_stream("twice", versions=1)
    stream.delta(trained(stream.states[0], 1), raw=text('"epoch":0', '"epoch":0,"epoch":0'))
    return refused(
        AREA,
        "member-twice",
        "a version record with a member twice",
        ["JSN-1"],
        stream,
        "malformed_record",
    )


def _another_file(name: str) -> Edit:
    def edit(record: Json) -> None:
        record["files"].append({**record["files"][0], "name": name})

    return edit


def _wrong_kinds_of_versions() -> Iterator[Draft]:
    def delta_and_snapshot(stream: Stream) -> object:
        snapshot = copy.deepcopy(stream.records[0]["snapshot"])
        return stream.delta(trained(stream.states[0], 1), edit=lambda record: record.update(snapshot=snapshot))

    yield refused_next(
        AREA, "delta-and-snapshot", "a version with a delta and a snapshot", ["VSN-4"],
        small_stream("delta-and-snapshot", versions=1), "malformed_record", grow=delta_and_snapshot,
    )  # fmt: skip

    def first(name: str, edit: Edit) -> Stream:
        stream = Stream(name)
        stream.create()
        stream.rebase(small_model(), edit=edit)
        return stream

    nothing = {
        "changed_elements": 0, "changed_tensors": 0, "digest_before": "0" * 16, "digest_after": "0" * 16, "parts": [],
    }  # fmt: skip
    yield refused(
        AREA, "first-version-a-delta", "version 0 with a delta", ["VSN-4"],
        first("first-version-a-delta", both(remove("snapshot"), assign("delta", nothing))), "malformed_record",
    )  # fmt: skip
    parent = {"version": 0, "digest": "sha256:" + "0" * 64}
    yield refused(
        AREA, "first-version-a-child", "version 0 with a parent", ["VSN-3"],
        first("first-version-a-child", assign("parent", parent)), "malformed_record",
    )  # fmt: skip


def _order() -> Iterator[Draft]:
    """Two faults each, of which REC-2 says which one counts."""
    later = assign("protocol_version", "1.0")
    feature = both(assign("reader_features", ["novel"]), assign("writer_features", ["novel"]))
    yield bad_next(
        AREA, "json-before-protocol", "a record of another major version with a member twice", ["REC-2", "JSN-1"],
        "malformed_record", edit=later, raw=text('"epoch":0', '"epoch":0,"epoch":0'),
    )  # fmt: skip
    yield bad_next(
        AREA, "protocol-before-features", "a record of another major version with an unknown reader feature",
        ["REC-2", "VER-1"], "unsupported_protocol", edit=both(later, feature),
    )  # fmt: skip
    yield bad_next(
        AREA, "features-before-shape", "a record without a state digest, with an unknown reader feature",
        ["REC-2", "VER-2"], "unsupported_feature", edit=both(feature, remove("state_digest")),
    )  # fmt: skip
    yield bad_next(
        AREA, "shape-before-stream", "a record of another stream without a state digest", ["REC-2"],
        "malformed_record", edit=both(assign("stream_id", OTHER), remove("state_digest")),
    )  # fmt: skip


def _streams() -> Iterator[Draft]:
    stream = small_stream("no-stream-record", versions=1)
    yield Draft(
        AREA,
        "no-stream-record",
        negative=True,
        case=Case(
            title="a prefix with version records and without stream.json",
            requirements=("STR-1", "LAT-1"),
            role="consumer",
            steps=(Put(), Delete(keys=("stream.json",)), Materialize(error=("stream_not_found",))),
        ),
        trees={"store": dict(stream.objects)},
    )
    only = Stream("no-version-yet")
    only.create()
    yield refused(
        AREA, "no-version-yet", "a stream without any version", ["LAT-3"], only, "version_not_found",
    )  # fmt: skip
    few = Stream("unknown-writers")
    few.create(writers="few")
    few.rebase(small_model())
    yield refused(
        AREA, "unknown-writers", "a stream record whose writers are few", ["REC-2"], few, "malformed_record"
    )  # fmt: skip


def _sound() -> Iterator[Draft]:
    def rewritten(data: bytes) -> bytes:
        # Other white space and another order of members, by which the next record names it.
        record = dict(reversed(list(json.loads(data).items())))
        return b"\n\t" + dump(record).replace(b'":', b'" :\r\n ') + b"  \n"

    def grow(stream: Stream) -> None:
        stream.delta(trained(stream.states[-1], 1), raw=rewritten)
        stream.delta(trained(stream.states[-1], 2))

    yield good_next(
        AREA, "white-space", "a record with white space and its members in another order", ["JSN-5", "CHN-1"],
        stream=small_stream("white-space", versions=1), grow=grow,
    )  # fmt: skip
    deep: Json = {"x": [None, {"": [True, 1.5, -2e300, 9007199254740993, "\U0001f600\u0000"]}], "y": None}
    yield good_next(
        AREA, "free-metadata", "metadata of every kind of JSON value", ["JSN-4", "REC-1"],
        stream=small_stream("free-metadata", versions=1),
        grow=lambda s: s.delta(trained(s.states[-1], 1), metadata=deep, raw=text("-2e+300", "-2E+0300")),
    )  # fmt: skip
    yield good_next(
        AREA, "escaped-members", "members and values of the envelope written with escapes", ["JSN-1"],
        stream=small_stream("escaped-members", versions=1),
        grow=lambda s: s.delta(
            trained(s.states[-1], 1),
            raw=text('"protocol":"deltawire"', r'"prot\u006fcol":"\u0064eltawire"'),
        ),
    )  # fmt: skip
    yield good_next(
        AREA, "times-of-every-form", "times without a fraction and with nine digits", ["REC-1", "REC-5"],
        stream=small_stream("times-of-every-form", versions=1),
        grow=lambda s: [
            s.delta(trained(s.states[-1], 1), edit=assign("created_at", "1999-01-01T00:00:00Z")),
            s.delta(trained(s.states[-1], 2), edit=assign("created_at", "1998-12-31T23:59:59.123456789Z")),
        ],
    )  # fmt: skip
    names = {"a": b"1", "-": b"2", "a..b": b"3", "n" * 100: b"4", "Tokenizer_1.model": b"", "config.json": b"{}"}
    stream = Stream("file-names")
    stream.create()
    stream.rebase(small_model(files=names))
    yield accepted(
        AREA, "file-names", "auxiliary files with every kind of name that there may be", ["FIL-2"], stream
    )  # fmt: skip
