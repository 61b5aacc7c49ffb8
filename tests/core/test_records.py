"""Records: they come back, grow, and every broken rule has its code."""

from __future__ import annotations

import copy
import json
from functools import partial
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltawire.errors import CODES, DeltawireError, LimitExceededError
from deltawire.format import records, strict_json
from deltawire.format.records import AnchorRecord, Envelope, HeadRecord, StreamRecord, VersionRecord
from deltawire.limits import DEFAULT_LIMITS, Limits
from tests.core.refusal import refusal

SHA = "sha256:" + "0123456789abcdef" * 4
UUID = "01234567-89ab-4def-8123-456789abcdef"
Value = dict[str, Any]


def envelope(kind: str) -> Value:
    return {
        "protocol": "deltawire",
        "protocol_version": "0.1",
        "kind": kind,
        "stream_id": UUID,
        "commit_id": UUID,
        "epoch": 3,
        "created_at": "2026-01-02T03:04:05.678Z",
        "producer": {"name": "test", "version": "1"},
        "reader_features": [],
        "writer_features": [],
        "metadata": {"step": 7, "nested": {"deep": [1, None, "x"]}},
    }


def descriptor(key: str, media_type: str = "application/json", size: int = 100) -> Value:
    return {"key": key, "media_type": media_type, "bytes": size, "digest": SHA}


def batch(offset: int) -> Value:
    claims = {"rows": 2, "first_tensor": 0, "last_tensor": 3, "decoded_bytes": 300}
    return {"offset": offset, "bytes": 100, "digest": SHA} | claims


def part() -> Value:
    return descriptor("data/p/part-00000.arrow", records.ARROW_TYPE, 1000) | {
        "streams": ["positions", "value_0"],
        "batches": [batch(8), batch(200)],
    }


def shard(first: int, last: int) -> Value:
    return descriptor(f"data/s/{first}", records.SAFETENSORS_TYPE, 1000) | {
        "header_bytes": 96,
        "header_digest": SHA,
        "first_tensor": first,
        "last_tensor": last,
    }


def file(name: str) -> Value:
    return descriptor("files/abc") | {"name": name}


def snapshot() -> Value:
    return {
        "shards": [shard(0, 1), shard(2, 2)],
        "index": descriptor("data/s/index"),
        "files": [file("config.json")],
    }


def stream() -> Value:
    return envelope("stream") | {"writers": "many"}


KEYS = ["ed25519:" + f"{number:064x}" for number in range(2, 19)]


def signed_stream() -> Value:
    signature = {"key": KEYS[0], "value": "0123456789abcdef" * 8}
    more = {"writer_features": ["signed"], "signature": signature, "signing_keys": KEYS[:16]}
    return envelope("stream") | {"writers": "many"} | more


def delta_version() -> Value:
    return envelope("version") | {
        "version": 5,
        "parent": {"version": 4, "digest": SHA},
        "tensors": descriptor("tensors/abc.json"),
        "state_digest": "00" * 8,
        "delta": {
            "changed_elements": 4,
            "changed_tensors": 2,
            "digest_before": "01" * 8,
            "digest_after": "ff" * 8,
            "parts": [part()],
        },
        "files": [file("config.json"), file("tokenizer.json")],
    }


def snapshot_version() -> Value:
    made = envelope("version") | {"version": 0, "tensors": descriptor("tensors/abc.json"), "state_digest": "0" * 16}
    return made | {"snapshot": snapshot()}


def anchor() -> Value:
    return envelope("anchor") | {
        "version": 5,
        "version_digest": SHA,
        "tensors": descriptor("tensors/abc.json"),
        "state_digest": "0" * 16,
        "snapshot": snapshot(),
    }


def head() -> Value:
    return envelope("head") | {"version": 5, "anchor": 3}


MAKERS: dict[str, tuple[Any, type[Envelope]]] = {
    "stream": (stream, StreamRecord),
    "signed": (signed_stream, StreamRecord),
    "delta": (delta_version, VersionRecord),
    "snapshot": (snapshot_version, VersionRecord),
    "anchor": (anchor, AnchorRecord),
    "head": (head, HeadRecord),
}


def decode(value: Value, kind: type[Envelope], limits: Limits = DEFAULT_LIMITS) -> Envelope:
    return records.decode(json.dumps(value).encode(), kind, what="test", limits=limits)


def put(value: Value, path: str, new: Any) -> Value:
    """A copy with one member replaced; ``new`` of ``...`` removes it."""
    made = copy.deepcopy(value)
    at: Any = made
    *way, last = path.split(".")
    for step in way:
        at = at[int(step)] if isinstance(at, list) else at[step]
    if new is ...:
        del at[last]
    elif isinstance(at, list):
        at[int(last)] = new
    else:
        at[last] = new
    return made


@pytest.mark.parametrize("name", MAKERS)
def test_records_come_back(name: str) -> None:
    make, kind = MAKERS[name]
    record = decode(make(), kind)
    assert records.decode(records.encode(record), kind, what="test", limits=DEFAULT_LIMITS) == record
    assert json.loads(records.encode(record)) == make(), "nothing is added, renamed or reordered away"


@pytest.mark.parametrize("name", MAKERS)
def test_records_cannot_be_changed(name: str) -> None:
    make, kind = MAKERS[name]
    with pytest.raises(AttributeError):
        decode(make(), kind).epoch = 9  # type: ignore[misc]


def objects_in(value: Any, at: str = "") -> list[str]:
    """Paths of every object inside a value, but not inside free metadata."""
    found = [at] if isinstance(value, dict) else []
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, child in children:
        if name != "metadata":
            found += objects_in(child, f"{at}.{name}" if at else str(name))
    return found


@pytest.mark.parametrize("name", MAKERS)
@given(extra=st.dictionaries(st.text(st.characters(codec="ascii"), min_size=1).map("x-{}".format), st.integers()))
def test_unknown_members_are_ignored_at_every_depth(name: str, extra: dict[str, int]) -> None:
    # VER-4: a later minor version may add a member anywhere.
    make, kind = MAKERS[name]
    value = make()
    for path in objects_in(value):
        value = value | extra if not path else put(value, path, get(value, path) | extra)
    assert decode(value, kind) == decode(make(), kind)
    assert decode(value | {"protocol_version": "0.9"}, kind) == decode(make() | {"protocol_version": "0.9"}, kind)


def get(value: Any, path: str) -> Any:
    for step in path.split("."):
        value = value[int(step)] if isinstance(value, list) else value[step]
    return value


def test_a_rewrite_keeps_unknown_members() -> None:
    # VER-5: what a newer writer put into a head that we overwrite is still there.
    old = put(head() | {"x-new": {"a": 1}, "metadata": {"step": 5}}, "producer.x-build", "abc")
    record = decode(head() | {"version": 6}, HeadRecord)
    merged = strict_json.merge(old, msgspec.to_builtins(record))
    assert (merged["version"], merged["x-new"]) == (6, {"a": 1})
    assert "x-build" not in merged["producer"], "what is known is written anew, with all that is in it"
    assert merged["metadata"] == record.metadata
    assert decode(merged, HeadRecord) == record


def required_paths(value: Value) -> list[str]:
    optional = {"files", "snapshot.files", "anchor", "delta", "snapshot", "parent", "signature"}
    paths = []
    for at in objects_in(value):
        for name in value if not at else get(value, at):
            path = f"{at}.{name}" if at else name
            if path not in optional:
                paths.append(path)
    return [path for path in paths if not path.startswith("metadata.")]


EVERY_MEMBER = [(name, path) for name, (make, _) in MAKERS.items() for path in required_paths(make())]


@pytest.mark.parametrize(("name", "path"), EVERY_MEMBER)
def test_every_member_must_be_there_and_of_its_type(name: str, path: str) -> None:
    make, kind = MAKERS[name]
    decode(make(), kind)
    good = get(make(), path)
    if type(good) is str:  # whatever a record says, an error stays one line without control characters
        code = refusal(partial(decode, put(make(), path, "\x1b[2J\n"), kind))
        assert code is None or code in CODES
    others: list[Any] = [..., None, True, [], "", -1, 1.5, 2**53, {"a": 1}, [[]], "x" * 5000]
    for bad in others:
        if type(bad) is type(good) and isinstance(good, (list, dict)):
            continue
        code = refusal(partial(decode, put(make(), path, bad), kind))
        assert code is not None
        assert code in CODES


BROKEN: list[tuple[str, str, Any, str]] = [
    ("stream", "protocol", "deltalake", "unsupported_protocol"),
    ("stream", "protocol_version", "1.0", "unsupported_protocol"),
    ("stream", "protocol_version", "0", "malformed_record"),
    ("stream", "protocol_version", "00.1", "malformed_record"),
    ("stream", "protocol_version", "1.x", "malformed_record"),
    ("stream", "protocol_version", 0.1, "malformed_record"),
    ("stream", "protocol", 7, "malformed_record"),
    ("stream", "protocol_version", "0.x", "malformed_record"),
    ("stream", "protocol_version", "0.1\n", "malformed_record"),
    ("stream", "kind", "version", "malformed_record"),
    ("stream", "stream_id", UUID.upper(), "malformed_record"),
    ("stream", "stream_id", UUID + "\n", "malformed_record"),
    ("stream", "commit_id", "no uuid", "malformed_record"),
    ("stream", "created_at", "2026-01-02 03:04:05Z", "malformed_record"),
    ("stream", "created_at", "2026-01-02T03:04:05+01:00", "malformed_record"),
    ("stream", "created_at", "2026-01-02T03:04:05Z\n", "malformed_record"),
    ("stream", "writers", "few", "malformed_record"),
    ("stream", "reader_features", ["time-travel"], "unsupported_feature"),
    ("stream", "reader_features", ["Not A Name"], "unsupported_feature"),
    ("stream", "reader_features", [7], "malformed_record"),
    ("stream", "writer_features", ["Not A Name"], "malformed_record"),
    ("stream", "writer_features", ["a" * 65], "malformed_record"),
    ("stream", "writer_features", ["a"] * 65, "limit_exceeded"),
    ("stream", "reader_features", ["a"] * 65, "unsupported_feature"),
    ("stream", "reader_features", ["time-travel", 7], "malformed_record"),
    ("stream", "metadata", {"big": "x" * 70_000}, "limit_exceeded"),
    ("stream", "producer.name", "x" * 201, "malformed_record"),
    ("signed", "signing_keys", KEYS, "limit_exceeded"),  # SIG-1
    ("signed", "signing_keys", [*KEYS[:3], KEYS[1]], "malformed_record"),
    ("signed", "signing_keys", ["ed25519:" + "0" * 64], "malformed_record"),  # SIG-12
    ("signed", "signing_keys", [], "malformed_record"),
    ("signed", "signing_keys", ..., "malformed_record"),
    ("signed", "writer_features", [], "malformed_record"),
    ("signed", "signing_keys.0", KEYS[0] + "\n", "malformed_record"),
    ("signed", "signing_keys.0", KEYS[0][:-1], "malformed_record"),
    ("signed", "signing_keys.0", "ed448:" + "0" * 64, "malformed_record"),
    ("signed", "signing_keys.0", "ed25519:" + "A" * 64, "malformed_record"),
    ("signed", "signature", None, "malformed_record"),
    ("signed", "signature.key", KEYS[0] + "00", "malformed_record"),
    ("signed", "signature.value", "0" * 127, "malformed_record"),
    ("signed", "signature.value", "0" * 129, "malformed_record"),
    ("signed", "signature.value", "0" * 128 + "\n", "malformed_record"),
    ("signed", "signature.value", "F" * 128, "malformed_record"),
    ("signed", "signature.value", "", "malformed_record"),
    ("delta", "snapshot", snapshot(), "malformed_record"),  # VSN-4: either, not both
    ("delta", "delta", ..., "malformed_record"),
    ("delta", "parent", ..., "malformed_record"),  # VSN-3
    ("delta", "parent.version", 3, "malformed_record"),
    ("delta", "parent.version", 5, "malformed_record"),
    ("delta", "version", 0, "malformed_record"),
    ("delta", "version", 2**53, "malformed_record"),
    ("delta", "version", 4.0, "malformed_record"),
    ("delta", "parent", None, "malformed_record"),  # JSN-4: absent, not null
    ("delta", "snapshot", None, "malformed_record"),
    ("snapshot", "delta", None, "malformed_record"),
    ("delta", "state_digest", "0" * 15, "malformed_record"),
    ("delta", "state_digest", "0" * 16 + "\n", "malformed_record"),
    ("delta", "state_digest", "0X" + "0" * 14, "malformed_record"),
    ("delta", "state_digest", "A" * 16, "malformed_record"),
    ("delta", "parent.digest", "md5:" + "0" * 32, "malformed_record"),
    ("delta", "parent.digest", SHA.upper(), "malformed_record"),
    ("delta", "delta.parts", [], "malformed_record"),  # something changed, but there are no parts
    ("delta", "delta.parts.0.media_type", "application/json", "malformed_record"),
    ("delta", "delta.parts.0.streams", ["positions", "positions"], "malformed_record"),
    ("delta", "delta.parts.0.streams.0", "x" * 201, "malformed_record"),
    ("delta", "delta.parts.0.key", "", "malformed_record"),
    ("delta", "delta.parts.0.key", "x" * 513, "malformed_record"),
    ("delta", "delta.parts.0.key", "/etc/passwd", "malformed_record"),
    ("delta", "delta.parts.0.key", "data/../../x", "malformed_record"),
    ("delta", "delta.parts.0.key", "data/p/part\n", "malformed_record"),
    ("delta", "delta.parts.0.bytes", 299, "malformed_record"),  # PRT-4: batches lie within the part
    ("delta", "delta.parts.0.batches.1.offset", 107, "malformed_record"),  # they do not overlap
    ("delta", "delta.parts.0.batches.1.offset", 0, "malformed_record"),  # and they ascend
    ("delta", "delta.parts.0.batches.1.offset", 2**53 - 1, "malformed_record"),
    ("delta", "delta.parts.0.batches.1.bytes", 2**53 - 1, "limit_exceeded"),
    ("delta", "delta.parts.0.batches.0.first_tensor", 4, "malformed_record"),
    ("delta", "delta.parts.0.batches.0.rows", 4_000_001, "limit_exceeded"),
    ("delta", "delta.parts.0.batches.0.decoded_bytes", 2**30 + 1, "limit_exceeded"),
    ("delta", "delta.parts.0.batches.0.decoded_bytes", 17 << 20, "limit_exceeded"),  # LIM-2: a bomb
    ("delta", "files.1.name", "config.json", "malformed_record"),  # FIL-1: twice
    ("delta", "files.1.bytes", (256 << 20) + 1, "limit_exceeded"),
    ("snapshot", "version", 1, "malformed_record"),
    ("snapshot", "snapshot.shards", [], "malformed_record"),
    ("snapshot", "snapshot.shards.0.media_type", records.ARROW_TYPE, "malformed_record"),
    ("snapshot", "snapshot.shards.0.header_bytes", 7, "malformed_record"),
    ("snapshot", "snapshot.shards.0.header_bytes", 1001, "malformed_record"),
    ("snapshot", "snapshot.shards.0.header_bytes", 100_000_001, "limit_exceeded"),
    ("snapshot", "snapshot.shards.0.first_tensor", 1, "malformed_record"),  # SNP-3: in table order, without holes
    ("snapshot", "snapshot.shards.1.first_tensor", 1, "malformed_record"),
    ("snapshot", "snapshot.shards.1.first_tensor", 3, "malformed_record"),
    ("snapshot", "snapshot.files.0.name", "../x", "malformed_record"),
    ("anchor", "snapshot.shards", [shard(0, 0), shard(0, 0)], "malformed_record"),
    ("anchor", "snapshot", None, "malformed_record"),
    ("head", "version", "5", "malformed_record"),
    ("head", "anchor", -1, "malformed_record"),
]


@pytest.mark.parametrize(("name", "path", "bad", "code"), BROKEN)
def test_broken_rules(name: str, path: str, bad: Any, code: str) -> None:
    make, kind = MAKERS[name]
    with pytest.raises(DeltawireError) as raised:
        decode(put(make(), path, bad), kind)
    assert raised.value.code == code


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", ".hidden", "a/b", "a\\b", "a b", "x.", "a\n", "ä", "x" * 101, "model.safetensors",
     "model.safetensors.index.json", "model-00001-of-00001.safetensors", "tensors", "a\0b", "%2e"],
)  # fmt: skip
def test_file_names_that_could_do_harm(name: str) -> None:
    # FIL-2: one segment that neither leaves the folder nor shadows a shard.
    with pytest.raises(DeltawireError) as raised:
        decode(put(delta_version(), "files.0.name", name), VersionRecord)
    assert raised.value.code == "malformed_record"


def test_reader_features_must_be_writer_features(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deltawire.format.features.READER_FEATURES", frozenset({"ranked"}))
    decode(stream() | {"reader_features": ["ranked"], "writer_features": ["ranked"]}, StreamRecord)
    with pytest.raises(DeltawireError) as raised:
        decode(stream() | {"reader_features": ["ranked"]}, StreamRecord)
    assert raised.value.code == "malformed_record"  # VER-3


def test_another_major_version_may_have_any_shape() -> None:
    for value in ({"protocol": "deltawire", "protocol_version": "7.0"}, {"protocol": "x", "protocol_version": ""}):
        with pytest.raises(DeltawireError) as raised:
            decode(value, StreamRecord)
        assert raised.value.code == "unsupported_protocol"


def test_unknown_reader_features_come_before_the_shape() -> None:
    value = {"protocol": "deltawire", "protocol_version": "0.1", "reader_features": ["future"]}
    with pytest.raises(DeltawireError) as raised:
        decode(value, VersionRecord)
    assert raised.value.code == "unsupported_feature"


def test_unknown_writer_features_do_not_stop_readers() -> None:
    decode(stream() | {"writer_features": ["future"]}, StreamRecord)


@pytest.mark.parametrize(
    ("limits", "path", "value"),
    [
        (Limits(parts=1), "delta.parts", [part(), part()]),
        (Limits(batches=1), "delta.parts", [part()]),
        (Limits(files=1), "epoch", 3),
        (Limits(record_bytes=100), "epoch", 3),
        (Limits(json_depth=3), "epoch", 3),
        (Limits(batch_bytes=99), "epoch", 3),
        (Limits(rows=1), "epoch", 3),
        (Limits(file_bytes=99), "epoch", 3),
        (Limits(metadata_bytes=10), "epoch", 3),
    ],
)
def test_limits(limits: Limits, path: str, value: Any) -> None:
    made = put(delta_version(), path, value)
    decode(made, VersionRecord)
    with pytest.raises(LimitExceededError):
        decode(made, VersionRecord, limits)


def test_nothing_changed_needs_no_parts() -> None:
    empty = {"changed_elements": 0, "changed_tensors": 0, "digest_before": "0" * 16, "digest_after": "0" * 16}
    decode(delta_version() | {"delta": empty | {"parts": []}}, VersionRecord)


@given(st.data())
def test_any_damage_is_refused_or_read(data: st.DataObject) -> None:
    make, kind = MAKERS[data.draw(st.sampled_from(sorted(MAKERS)))]
    stored = bytearray(json.dumps(make()).encode())
    for _ in range(data.draw(st.integers(1, 3))):
        stored[data.draw(st.integers(0, len(stored) - 1))] = data.draw(st.integers(0, 255))
    code = refusal(lambda: records.decode(bytes(stored), kind, what="test", limits=DEFAULT_LIMITS))
    assert code is None or code in CODES
