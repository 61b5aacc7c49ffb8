"""Versions of the protocol, features, and members that nobody knows (SPEC.md section 17)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from authoring.drafts import Draft, accepted, refused, refused_next
from authoring.nexts import assign, bad_next, both
from authoring.states import small_model, trained
from authoring.stream import Edit, Json, Stream, dump, small_stream, unedited

AREA = "features"
NOVEL = both(assign("reader_features", ["novel"]), assign("writer_features", ["novel"]))
LATER = assign("protocol_version", "1.0")


def drafts() -> Iterator[Draft]:
    """All cases."""
    yield bad_next(
        AREA, "reader-feature", "a version record with an unknown reader feature", ["VER-2"], "unsupported_feature",
        edit=NOVEL,
    )  # fmt: skip
    yield bad_next(
        AREA, "reader-feature-alone", "an unknown reader feature that is not a writer feature", ["VER-2", "REC-2"],
        "unsupported_feature", edit=assign("reader_features", ["novel"]),
    )  # fmt: skip
    yield bad_next(
        AREA, "reader-feature-in-trial", "an unknown reader feature whose name ends in -dev", ["VER-2", "VER-7"],
        "unsupported_feature",
        edit=both(assign("reader_features", ["x-dev"]), assign("writer_features", ["absolute", "x-dev"])),
    )  # fmt: skip
    yield refused(
        AREA, "stream-reader-feature", "a stream record with an unknown reader feature", ["VER-2", "STR-4"],
        _first("stream-reader-feature", NOVEL), "unsupported_feature",
    )  # fmt: skip
    yield refused_next(
        AREA, "retention-reader-feature", "retention.json with an unknown reader feature", ["VER-2", "RET-4"],
        small_stream("retention-reader-feature", versions=1), "unsupported_feature",
        grow=lambda s: [s.delta(trained(s.states[-1], 1)), s.retention(0, edit=NOVEL)],
    )  # fmt: skip
    yield bad_next(
        AREA, "major-version", "a record of another major version, of which nothing else is known",
        ["VER-1", "REC-2"], "unsupported_protocol",
        raw=lambda _: dump({"protocol": "deltawire", "protocol_version": "1.0", "what": ["comes", "then"]}),
    )  # fmt: skip
    yield bad_next(
        AREA, "major-version-ten", "a record of version 10.1", ["VER-1"], "unsupported_protocol",
        edit=assign("protocol_version", "10.1"),
    )  # fmt: skip
    yield refused(
        AREA, "stream-major-version", "a stream of another major version", ["VER-1"],
        _first("stream-major-version", LATER), "unsupported_protocol",
    )  # fmt: skip
    yield refused(
        AREA, "table-major-version", "a tensor table of another major version", ["TAB-5", "VER-1"],
        _first("table-major-version", unedited, table=LATER), "unsupported_protocol",
    )  # fmt: skip
    yield bad_next(
        AREA, "other-protocol", "a record of another protocol", ["VER-1"], "unsupported_protocol",
        edit=assign("protocol", "otherwire"),
    )  # fmt: skip
    yield bad_next(
        AREA, "protocol-capital", "a record whose protocol begins with a capital", ["VER-1"], "unsupported_protocol",
        edit=assign("protocol", "Deltawire"),
    )  # fmt: skip
    for name, title, number in (
        ("minor-version", "a stream of the minor version 0.7", "0.7"),
        ("minor-version-far", "a stream of the minor version 0.9999", "0.9999"),
    ):
        yield accepted(AREA, name, title, ["VER-1"], _everywhere(name, assign("protocol_version", number)))
    yield accepted(
        AREA, "writer-feature", "a stream with a writer feature that no reader knows", ["VER-3"],
        small_stream("writer-feature", writer_features=["novel", "x-1-dev"]),
    )  # fmt: skip
    yield accepted(
        AREA, "unknown-members", "members that nobody knows, in every object of every record", ["VER-4", "JSN-4"],
        _everywhere("unknown-members", _add_members),
    )  # fmt: skip
    beside: list[tuple[str, str, Callable[[Stream], object]]] = [
        ("anchor-reader-feature", "an anchor with an unknown reader feature", lambda s: s.anchor(2, edit=NOVEL)),
        ("anchor-major-version", "an anchor of another major version", lambda s: s.anchor(2, edit=LATER)),
        ("span-reader-feature", "a span with an unknown reader feature", lambda s: s.span(0, 2, edit=NOVEL)),
        ("span-major-version", "a span of another major version", lambda s: s.span(0, 2, edit=LATER)),
    ]
    for name, title, add in beside:
        stream = small_stream(name)
        add(stream)
        requirement = "PLN-4" if name.startswith("anchor") else "SPN-6"
        yield accepted(AREA, name, title, [requirement, "VER-1", "VER-2"], stream)


def _first(name: str, edit: Edit, *, table: Edit = unedited) -> Stream:
    stream = Stream(name)
    stream.create(edit=edit)
    stream.rebase(small_model(), table=table)
    return stream


def _everywhere(name: str, edit: Edit) -> Stream:
    """A stream, with a head and what is retained, of which all records are edited."""
    stream = Stream(name)
    stream.create(edit=edit)
    stream.rebase(small_model(), edit=edit, table=edit)
    stream.delta(trained(stream.states[-1], 1), edit=edit)
    stream.delta(trained(stream.states[-1], 2), edit=edit)
    stream.head(1, edit=edit)
    stream.retention(0, edit=edit)
    return stream


def _add_members(record: Json) -> None:
    def add(value: Any) -> None:
        if isinstance(value, dict):
            for member in list(value.values()):
                add(member)
            value["later"] = {"digest": None, "list": [None, 1.5, {"version": "x"}]}
        elif isinstance(value, list):
            for item in value:
                add(item)

    add(record)
