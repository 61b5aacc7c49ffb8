"""``deltawire-conformance check``: one of everything that it can find, and nothing in streams that are sound."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from msgspec.structs import replace

from authoring.parts import RawPart, RawRow, write_part
from authoring.states import State, small_model, trained, values
from authoring.stream import Stream, small_stream
from deltawire.errors import StreamNotFoundError
from deltawire.format import keys, records
from deltawire.format.records import Envelope, Part, SpanRecord, VersionRecord
from deltawire.limits import DEFAULT_LIMITS, MIB
from deltawire_conformance.checking.checker import check_stream
from deltawire_conformance.checking.findings import Finding
from deltawire_conformance.checking.lines import line_findings
from deltawire_conformance.specification import requirement_texts
from tests.inspecting.streams import new_store, whole

Json = dict[str, Any]


def checked(objects: dict[str, bytes], *, deep: bool = False, trust: list[str] | None = None) -> list[Finding]:
    return check_stream(new_store(objects), deep=deep, trust=trust).findings


def last_delta(**options: Any) -> Stream:
    """Two versions; of the second one's record nothing has the sha256."""
    stream = small_stream("check", versions=1)
    stream.delta(trained(stream.states[0], 1), **options)
    stream.head(1)
    return stream


def only_rebase(**options: Any) -> Stream:
    stream = Stream("check")
    stream.create()
    stream.rebase(small_model(), **options)
    stream.head(0)
    return stream


def edited(key: str, edit: Callable[[Json], object]) -> Stream:
    stream = full()
    record = json.loads(stream.objects[key])
    edit(record)
    stream.objects[key] = json.dumps(record).encode()
    return stream


def full() -> Stream:
    stream = small_stream("check", versions=5)
    stream.anchor(3)
    stream.span(0, 4)
    stream.lease()
    stream.pin(1)
    stream.retention(0)
    return stream


def with_object(key: str, data: bytes = b"x") -> Stream:
    stream = full()
    stream.objects[key] = data
    return stream


def without(key: str) -> Stream:
    stream = full()
    del stream.objects[key]
    return stream


def setting(**members: Any) -> Callable[[Json], None]:
    def edit(record: Json) -> None:
        record.update(members)

    return edit


def within(*place: str | int, **members: Any) -> Callable[[Json], None]:
    def edit(record: Json) -> None:
        inner: Any = record
        for step in place:
            inner = inner[step]
        inner.update(members)

    return edit


def renamed_table(record: Json) -> None:
    record["tensors"]["key"] = record["tensors"]["key"].replace("tensors/table", "tensors/tafel")


def with_one_twice(table: Json) -> None:
    table["tensors"].append(table["tensors"][0])


def twice_the_same_write() -> Stream:
    return edited(HEAD, setting(commit_id=full().records[1]["commit_id"]))


def anchored(**options: Any) -> Stream:
    stream = small_stream("check")
    stream.anchor(2, **options)
    return stream


def swapped(rows: list[RawRow]) -> list[RawPart]:
    return [write_part([list(reversed(rows))])]


def two_batches(edit: Callable[[RawPart], object]) -> Callable[[list[RawRow]], list[RawPart]]:
    def write(rows: list[RawRow]) -> list[RawPart]:
        part = write_part([rows[:1], rows[1:]])
        edit(part)
        return [part]

    return write


def more_streams(rows: list[RawRow]) -> list[RawPart]:
    return [write_part([rows], streams=["positions", "signs", *(f"diff_{n}" for n in range(5))])]


def footless(part: RawPart) -> None:
    part.reseal(part.data[:-1] + b"2")


def other_name(part: RawPart) -> None:
    part.descriptor["streams"] = [*part.descriptor["streams"][:-1], "value_0"]


def one_less(part: RawPart) -> None:
    del part.descriptor["batches"][1]


def out_of_order(rows: list[RawRow]) -> list[RawPart]:
    return [write_part([rows[1:], rows[:1]])]


def misordered_shard(data: bytes, number: int) -> bytes:
    """Two BF16 tensors before the F32 one, in the order of the table and not of widths."""
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    names, at, parts = ["embed.weight", "layers.0.mlp.weight", "norm.weight"], 0, []
    for name in names:
        begin, end = header[name]["data_offsets"]
        parts.append(data[8 + length + begin : 8 + length + end])
        header[name]["data_offsets"] = [at, at + end - begin]
        at += end - begin
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + b"".join(parts)


def tight_shard(data: bytes, number: int) -> bytes:
    length = int.from_bytes(data[:8], "little")
    text = data[8 : 8 + length].rstrip() + b"\n"
    text += b" " * (-(len(text) - 1) % 8)
    return len(text).to_bytes(8, "little") + text + data[8 + length :]


def absolute() -> Stream:
    stream = Stream("check", writer_features=["absolute"])
    stream.create()
    stream.rebase(small_model())
    stream.delta(trained(small_model(), 1))
    stream.head(1)
    return stream


def ranked(*, reader_features: tuple[str, ...] = ("ranked",), codec: str = "ranked", **more: Any) -> Stream:
    stream = Stream("check", reader_features=reader_features, **more)
    stream.create()
    stream.rebase(small_model())
    stream.delta(trained(small_model(), 1), codec=codec)
    stream.head(1)
    return stream


def forgotten_in_record() -> Stream:
    stream = ranked()
    stream.delta(trained(stream.states[1], 2), codec="ranked", edit=setting(reader_features=[], writer_features=[]))
    stream.head(2)
    return stream


def forgotten_in_span() -> Stream:
    stream = ranked(reader_features=(), codec="gap")
    stream.delta(trained(stream.states[1], 2))
    stream.span(0, 2, codec="ranked")
    stream.head(2)
    return stream


def featureless_head() -> Stream:
    stream = Stream("check", writer_features=["absolute"])
    stream.create()
    stream.rebase(small_model())
    stream.head(0, edit=setting(writer_features=[]))
    return stream


def signed(edit: Callable[[Stream], object]) -> Stream:
    stream = small_stream("check", signers=["a"])
    edit(stream)
    return stream


def unsign(stream: Stream) -> None:
    stream.signer = None
    stream.delta(trained(stream.states[-1], 9))
    stream.head(3)


def collected() -> Stream:
    stream = full()
    stream.rebase(stream.states[-1])
    stream.head(5)
    stream.retention(5)
    record = json.loads(stream.objects[keys.version_key(2)])
    stream.objects[keys.version_key(2)] = json.dumps(record | {"epoch": 1.0}).encode()
    return stream


def aliases_left(record: Json) -> None:
    record["aliases"] = []


def lower_epoch() -> Stream:
    stream = Stream("check")
    stream.create()
    stream.epoch = 3
    stream.rebase(small_model())
    for step in (1, 2, 3, 4):
        stream.epoch = 3 if step < 4 else 2
        stream.delta(trained(stream.states[-1], step))
    stream.head(4)
    return stream


def other_table() -> Stream:
    """VSN-5: where the table differs there must be a rebase."""
    stream = small_stream("check", versions=1)
    other: State = stream.states[0].with_values("norm.weight", values("F32", (7,)))
    prefix = keys.data_prefix(1, "00000000-0000-4000-8000-000000000000")
    table = stream.table(other, prefix, edit=lambda record: record["tensors"][2].update(name="other.weight"))
    stream.delta(trained(stream.states[0], 1), edit=setting(tensors=table))
    return stream


HEAD, LAST = keys.HEAD, keys.version_key(4)
SIGNATURE = {"key": "ed25519:" + "0" * 63 + "2", "value": "0" * 128}


@dataclass(frozen=True)
class Case:
    requirement: str
    severity: str
    key: str
    """Or the beginning of it."""
    make: Callable[[], Stream]
    deep: bool = False
    code: str | None = None


DEEP = b'{"a":' * 40 + b"1" + b"}" * 40
FOREIGN = f"data/{4:020d}-00000000-0000-0000-0000-000000000000/part-00000.arrow"
OTHER = "00000000-0000-0000-0000-000000000000"

CASES_OF_CHECK = [
    Case("KEY-6", "error", "leases/other.json", lambda: with_object("leases/other.json")),
    Case("KEY-6", "error", "leases/readers/x.json", lambda: with_object("leases/readers/x.json")),
    Case("KEY-5", "note", "notes.txt", lambda: with_object("notes.txt")),
    Case("KEY-2", "note", "versions/7.json", lambda: with_object("versions/7.json")),
    Case("STO-25", "note", "probe/1", lambda: with_object("probe/1")),
    Case("COL-7", "note", "data/", lambda: with_object(f"data/{1:020d}-{OTHER}/x")),
    Case("COL-4", "note", keys.version_key(1), collected),
    Case("JSN-3", "note", keys.version_key(2), collected, code="malformed_record"),
    Case("JSN-1", "error", HEAD, lambda: with_object(HEAD, b"{"), code="malformed_record"),
    Case("JSN-1", "error", HEAD, lambda: with_object(HEAD, b'{"a":1,"a":1}'), code="malformed_record"),
    Case("JSN-2", "error", HEAD, lambda: with_object(HEAD, DEEP), code="limit_exceeded"),
    Case("JSN-3", "error", HEAD, lambda: edited(HEAD, setting(version=4.0)), code="malformed_record"),
    Case("JSN-3", "error", LAST, lambda: edited(LAST, setting(epoch=True)), code="malformed_record"),
    Case("JSN-4", "error", HEAD, lambda: edited(HEAD, setting(anchor=None)), code="malformed_record"),
    Case("REC-1", "error", LAST, lambda: edited(LAST, lambda record: record.pop("commit_id")), code="malformed_record"),
    Case("REC-1", "error", LAST, lambda: edited(LAST, setting(kind="anchor")), code="malformed_record"),
    Case("VER-1", "error", LAST, lambda: edited(LAST, setting(protocol_version="1.0")), code="unsupported_protocol"),
    Case("VER-1", "note", HEAD, lambda: edited(HEAD, setting(protocol_version="0.2"))),
    Case("VER-2", "error", LAST, lambda: edited(LAST, setting(reader_features=["x"], writer_features=["x"])),
         code="unsupported_feature"),
    Case("VER-3", "note", HEAD, lambda: edited(HEAD, setting(writer_features=["x"]))),
    Case("VER-3", "should", HEAD, lambda: edited(HEAD, setting(writer_features=["absolute"] * 2))),
    Case("VER-4", "note", HEAD, lambda: edited(HEAD, setting(novel=1))),
    Case("VER-4", "note", keys.anchor_key(3), lambda: edited(keys.anchor_key(3), within("tensors", novel=1))),
    Case("VER-7", "note", HEAD, lambda: edited(HEAD, setting(writer_features=["x-dev"]))),
    Case("section 7.1", "error", HEAD, lambda: edited(HEAD, setting(created_at="2026-13-01T00:00:00Z"))),
    Case("LIM-4", "error", HEAD, lambda: edited(HEAD, setting(metadata={"x": "y" * 70000})), code="limit_exceeded"),
    Case("VSN-3", "error", LAST, lambda: edited(LAST, lambda record: record.pop("parent")), code="malformed_record"),
    Case("VSN-4", "error", LAST, lambda: edited(LAST, lambda record: record.pop("delta")), code="malformed_record"),
    Case("DSC-2", "error", LAST, lambda: edited(LAST, within("tensors", digest="sha256:1")),
         code="malformed_record"),
    Case("KEY-1", "error", LAST, lambda: edited(LAST, within("tensors", key="a/../b")),
         code="malformed_record"),
    Case("PIN-1", "error", "leases/readers/", lambda: with_pin(3, last=1), code="malformed_record"),
    Case("RET-1", "error", keys.RETENTION, lambda: edited(keys.RETENTION, setting(kept=[3])), code="malformed_record"),
    Case("REC-4", "error", keys.version_key(1), twice_the_same_write),
    Case("REC-6", "error", keys.RETENTION, lambda: edited(keys.RETENTION, setting(epoch=1))),
    Case("REC-6", "error", keys.anchor_key(3), lambda: edited(keys.anchor_key(3), setting(epoch=1))),
    Case("REC-6", "error", HEAD, lambda: edited(HEAD, setting(epoch=1))),
    Case("STR-4", "error", HEAD, featureless_head),
    Case("SIG-2", "error", HEAD, lambda: edited(HEAD, setting(signature=SIGNATURE))),
    Case("SIG-2", "error", HEAD, lambda: signed(lambda stream: stream.head(2, edit=setting(signature=SIGNATURE)))),
    Case("SIG-2", "error", keys.version_key(3), lambda: signed(unsign)),
    Case("SIG-6", "error", keys.version_key(3), lambda: signed(unsign), code="bad_signature"),
    Case("SIG-11", "note", keys.STREAM, lambda: signed(lambda stream: stream)),
    Case("TAB-1", "error", LAST, lambda: edited(LAST, within("tensors", media_type="text/plain"))),
    Case("section 16.5", "error", LAST, lambda: edited(LAST, within("tensors", media_type="a/b"))),
    Case("TAB-1", "error", keys.version_key(0), lambda: only_rebase(edit=renamed_table)),
    Case("TAB-3", "error", "data/", lambda: only_rebase(table=with_one_twice),
         code="malformed_record"),
    Case("DTY-1", "error", "data/", lambda: only_rebase(table=lambda table: table["tensors"][0].update(dtype="F7")),
         code="unsupported_dtype"),
    Case("TAB-4", "should", "data/", lambda: only_rebase(table=aliases_left)),
    Case("KEY-9", "error", LAST, lambda: edited(LAST, within("delta", "parts", 0, key=FOREIGN)), code="broken_chain"),
    Case("CHN-2", "error", LAST, lower_epoch, code="broken_chain"),
    Case("CHN-3", "error", keys.version_key(1), other_table, code="broken_chain"),
    Case("HED-3", "note", HEAD, lambda: without(HEAD)),
    Case("HED-3", "note", HEAD, lambda: edited(HEAD, setting(version=2))),
    Case("HED-1", "note", HEAD, lambda: edited(HEAD, setting(stream_id=OTHER)),
         code="wrong_stream"),
    Case("HED-1", "note", HEAD, lambda: edited(HEAD, setting(anchor=2))),
    Case("SNP-6", "should", keys.anchor_key(3), lambda: edited(
        keys.anchor_key(3), lambda record: record["snapshot"].pop("files"))),
    Case("SNP-4", "error", "data/", lambda: anchored(shard=misordered_shard)),
    Case("SNP-4", "error", "data/", lambda: anchored(shard=tight_shard)),
    Case("section 8.7", "error", "data/", lambda: anchored(index=lambda data: data.replace(b"norm", b"form"))),
    Case("section 8.7", "error", "data/", lambda: anchored(index=lambda data: data.replace(b'size":', b'size":1'))),
    Case("section 8.7", "error", "data/", lambda: anchored(index=lambda data: b"[]")),
    Case("section 16.5", "error", keys.anchor_key(2), lambda: anchored(
        edit=within("snapshot", "index", media_type="text/json"))),
    Case("PRT-1", "error", "data/", lambda: last_delta(write=two_batches(footless)), code="malformed_part"),
    Case("PRT-2", "error", "data/", lambda: last_delta(write=two_batches(other_name)), code="malformed_part"),
    Case("PRT-4", "error", "data/", lambda: last_delta(write=two_batches(one_less)), code="malformed_part"),
    Case("PRT-7", "should", keys.version_key(1), lambda: last_delta(write=out_of_order)),
    Case("PRT-7", "should", "data/", lambda: last_delta(write=swapped), deep=True),
    Case("section 8.6", "error", "data/", lambda: last_delta(write=more_streams), deep=True),
    Case("section 8.2", "error", keys.version_key(1), lambda: last_delta(
        edit=within("delta", changed_tensors=2)), deep=True),
    Case("COD-2", "error", keys.version_key(1), absolute),
    Case("COD-2", "error", "data/", absolute, deep=True),
    Case("COD-2", "error", keys.version_key(1), lambda: ranked(writer_features=["absolute"])),
    Case("COD-2", "error", "data/", lambda: ranked(writer_features=["absolute"]), deep=True),
    Case("COD-4", "error", keys.version_key(1), lambda: ranked(reader_features=())),
    Case("COD-4", "error", "data/", lambda: ranked(reader_features=()), deep=True),
    Case("COD-4", "error", keys.version_key(2), forgotten_in_record),
    Case("COD-4", "error", "data/", forgotten_in_record, deep=True),
    Case("COD-4", "error", keys.span_key(0, 2), forgotten_in_span),
    Case("COD-4", "error", "data/", forgotten_in_span, deep=True),
    Case("STR-4", "error", keys.version_key(2), forgotten_in_record),
    Case("DSC-1", "error", "data/", lambda: without(full().records[2]["delta"]["parts"][0]["key"]),
         code="missing_object"),
    Case("DIG-5", "error", keys.version_key(1), lambda: last_delta(
        edit=within("delta", changed_elements=4)), deep=True, code="state_mismatch"),
]  # fmt: skip


def with_pin(first: int, **options: Any) -> Stream:
    stream = full()
    stream.pin(first, **options)
    return stream


@pytest.mark.parametrize(
    "case", CASES_OF_CHECK, ids=lambda case: f"{case.requirement}-{case.severity}-{case.key.rpartition('/')[2]}"
)
def test_found(case: Case) -> None:
    found = checked(case.make().objects, deep=case.deep)
    alike = [one for one in found if (one.requirement, one.severity) == (case.requirement, case.severity)]
    assert [one for one in alike if one.key.startswith(case.key) and (case.code in {None, one.code})], found
    texts = requirement_texts()
    assert [one for one in found if one.requirement not in texts and not one.requirement.startswith("section ")] == []
    if case.severity != "error":
        assert not [one for one in found if one.severity == "error"], found


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("make", [full, lambda: small_stream("check"), ranked, lambda: None])
def test_nothing_is_found(make: Callable[[], Stream | None], deep: bool) -> None:
    stream = make()
    assert checked(dict(whole()) if stream is None else stream.objects, deep=deep) == []


def test_no_stream() -> None:
    with pytest.raises(StreamNotFoundError):
        checked({})


def parsed(stream: Stream) -> dict[str, Envelope]:
    kinds: dict[str, type[Envelope]] = {"stream.json": records.StreamRecord, "head.json": records.HeadRecord}
    found: dict[str, Envelope] = {}
    for key, data in stream.objects.items():
        if not key.startswith("data/"):
            kind = kinds.get(key, SpanRecord if key.startswith(keys.SPANS) else VersionRecord)
            found[key] = records.decode(data, kind, what=key, limits=DEFAULT_LIMITS)
    return found


def resized(record: Any, size: int, **batch: Any) -> Any:
    """The record with parts of this size, and perhaps other batches."""

    def part_of(part: Part) -> Part:
        return replace(part, bytes=size, batches=tuple(replace(one, **batch) for one in part.batches))

    return replace(record, delta=replace(record.delta, parts=tuple(map(part_of, record.delta.parts))))


def test_deltas_that_outweigh_the_state() -> None:
    found = parsed(small_stream("check"))
    for number in (1, 2):
        found[keys.version_key(number)] = resized(found[keys.version_key(number)], 9 * MIB)
    assert [(one.requirement, one.severity) for one in line_findings(found)] == [("ANC-5", "should")]


def test_a_batch_that_is_too_large() -> None:
    found = parsed(small_stream("check"))
    found[keys.version_key(1)] = resized(found[keys.version_key(1)], 9 * MIB, decoded_bytes=20 * MIB)
    assert [(one.requirement, one.severity) for one in line_findings(found)] == [("PRT-7", "should")]


def test_a_span_that_is_longer_than_shorter_ones() -> None:
    stream = small_stream("check", versions=5)
    for base, target in ((0, 2), (2, 4), (0, 4)):
        stream.span(base, target)
    found = parsed(stream)
    assert list(line_findings(found)) == []
    found[keys.span_key(0, 4)] = resized(found[keys.span_key(0, 4)], 10000)
    assert [(one.requirement, one.severity) for one in line_findings(found)] == [("SPN-3", "should")]
