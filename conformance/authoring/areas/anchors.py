"""Anchors: a way to begin with, and no reason to stop (SPEC.md sections 8.4 and 11.5)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from authoring.drafts import Draft, accepted, changed, refused
from authoring.states import small_model
from authoring.stream import Json, Stream, small_stream
from deltawire.format.keys import version_key
from deltawire.format.strict_json import sha256
from deltawire_conformance.case import Case, Materialize, Put

AREA = "anchors"
OTHER = "11111111-1111-4111-8111-111111111111"
NEEDED: dict[str, Any] = {"features": ("anchors",)}


def drafts() -> Iterator[Draft]:
    """All cases."""
    yield from _needed()
    yield from _passed_over()
    yield from _refused()
    yield _overtaken()


def _stream(name: str, *, versions: int = 5) -> Stream:
    return small_stream(f"anchors {name}", versions=versions)


def _lose_first_shard(stream: Stream) -> None:
    """Take the shard of version 0 away, so that no way begins there."""
    del stream.objects[stream.records[0]["snapshot"]["shards"][0]["key"]]


def _lose(stream: Stream, version: int) -> None:
    del stream.objects[version_key(version)]


def _needed() -> Iterator[Draft]:
    stream = _stream("only way")
    stream.anchor(3)
    _lose_first_shard(stream)
    yield accepted(
        AREA, "only-way", "an anchor, after a snapshot whose shard is gone", ["CNF-1", "ANC-2", "PLN-5"], stream,
        level="should", **NEEDED,
    )  # fmt: skip
    stream = _stream("record gone")
    stream.anchor(3)
    _lose(stream, 2)
    yield accepted(
        AREA, "record-gone", "an anchor, after a version whose record is gone", ["PLN-3", "ANC-2"], stream, **NEEDED
    )  # fmt: skip
    stream = _stream("newest")
    stream.anchor(4)
    _lose(stream, 1)
    yield accepted(
        AREA, "of-the-newest", "an anchor of the newest version, after one whose record is gone", ["PLN-3", "ANC-3"],
        stream, **NEEDED,
    )  # fmt: skip
    stream = _stream("older")
    stream.anchor(2)
    stream.anchor(4, raw=lambda data: data[:-1])
    _lose(stream, 1)
    yield accepted(
        AREA, "older-one", "an anchor that is no JSON, an older one, and a record that is gone before both",
        ["PLN-4", "PLN-3"], stream, **NEEDED,
    )  # fmt: skip


def _passed_over() -> Iterator[Draft]:
    faults: list[tuple[str, str, Callable[[Json], object]]] = [
        ("version", "an anchor of another version than its key says", lambda record: record.update(version=2)),
        ("null", "an anchor with null in place of its snapshot", lambda record: record.update(snapshot=None)),
        ("stream", "an anchor of another stream", lambda record: record.update(stream_id=OTHER)),
        ("feature", "an anchor that needs a feature which nobody knows", _needs_feature),
    ]
    for name, title, edit in faults:
        stream = _stream(f"passed {name}")
        stream.anchor(4, edit=edit)
        requirements = ["PLN-4", "ANC-2"] if name == "version" else ["PLN-4"]
        yield accepted(AREA, f"passed-over-{name}", f"{title}, beside sound deltas", requirements, stream)
    stream = _stream("passed shard")
    made = stream.anchor(4)
    stream.objects[made["snapshot"]["shards"][0]["key"]] += b"\0"
    yield accepted(
        AREA, "passed-over-shard", "an anchor whose shard has another size, beside sound deltas", ["PLN-5"], stream,
        level="should",
    )  # fmt: skip


def _needs_feature(record: Json) -> None:
    for member in ("reader_features", "writer_features"):
        record[member] = [*record[member], "novel"]


def _refused() -> Iterator[Draft]:
    """With nothing but the anchor to begin with: the record of version 1 is malformed, and that stays the error."""

    def negative(name: str, title: str, requirements: Sequence[str], edit: Callable[[Json], object]) -> Draft:
        stream = _stream(name)
        stream.anchor(3, edit=edit)
        stream.objects[version_key(1)] = stream.objects[version_key(1)][:-1]
        codes = ("malformed_record", "broken_chain")
        return refused(AREA, name, title, requirements, stream, codes, note=NOTE)

    yield negative(
        "other-version-digest", "an anchor of another record of its version, and no other way", ["ANC-2", "PLN-3"],
        lambda record: record.update(version_digest=sha256(b"another record")),
    )  # fmt: skip
    yield negative(
        "other-state-digest", "an anchor with another state digest than its version, and no other way",
        ["ANC-2", "PLN-3"], lambda record: record.update(state_digest="0123456789abcdef"),
    )  # fmt: skip
    yield negative(
        "other-table", "an anchor with another tensor table than its version, and no other way", ["ANC-2", "PLN-3"],
        lambda record: record["tensors"].update(digest=sha256(b"another table")),
    )  # fmt: skip
    stream = _stream("other state")
    stream.states[3] = small_model(seed="other")
    stream.anchor(3, edit=lambda record: record.update(state_digest=stream.records[3]["state_digest"]))
    stream.objects[version_key(1)] = stream.objects[version_key(1)][:-1]
    yield refused(
        AREA, "other-state", "an anchor whose snapshot holds another state, and no other way", ["ANC-3", "PLN-3"],
        stream, ("malformed_record", "state_mismatch"), note=NOTE,
    )  # fmt: skip


NOTE = "A consumer that uses no anchors reports the record of version 1, one that does may report either."


def _overtaken() -> Draft:
    """A consumer that holds version 1 and cannot go on from there."""
    stream = _stream("overtaken", versions=2)
    before = dict(stream.objects)
    grown = _stream("overtaken", versions=5)
    grown.anchor(3)
    grown.objects[version_key(2)] = grown.objects[version_key(2)][:-1]
    return Draft(
        AREA,
        "overtaken",
        negative=False,
        case=Case(
            title="a consumer whose next version has a malformed record, and an anchor after it",
            requirements=("PLN-3", "FOL-3"),
            role="consumer",
            features=("anchors",),
            steps=(
                Put(),
                Materialize(version=1, state="1"),
                Put(tree="then"),
                Materialize(version="latest", state="4"),
            ),
        ),
        trees={"store": before, "then": changed(before, grown.objects)},
        states={"1": stream.states[1].neutral(1), "4": grown.states[4].neutral(4)},
    )
