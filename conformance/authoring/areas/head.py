"""The head, and the newest version (SPEC.md sections 8.5 and 11.4)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from authoring.drafts import Draft, accepted, refused
from authoring.nexts import assign, good_next, remove, text
from authoring.states import trained
from authoring.stream import Stream, small_stream
from deltawire_conformance.case import Case, Materialize, Pad, Put

AREA = "head"
OTHER = "11111111-1111-4111-8111-111111111111"

HEADS: list[tuple[str, str, Callable[[Stream], object]]] = [
    ("missing", "a stream without a head", lambda s: s.objects.pop("head.json")),
    ("stale", "a head that says version 0", lambda s: s.head(0)),
    ("ahead", "a head that says a version which is not there", lambda s: s.head(7)),
    ("at-the-end-of-numbers", "a head that says version 2^53-1", lambda s: s.head((1 << 53) - 1)),
    ("empty", "a head without a byte", lambda s: s.head(2, raw=lambda _: b"")),
    ("cut-short", "a head that is cut short", lambda s: s.head(2, raw=lambda data: data[:100])),
    (
        "member-twice",
        "a head with its version twice",
        lambda s: s.head(0, raw=text('"version":0', '"version":0,"version":0')),
    ),
    ("no-version", "a head without a version", lambda s: s.head(2, edit=remove("version"))),
    ("another-stream", "a head of another stream", lambda s: s.head(7, edit=assign("stream_id", OTHER))),
    (
        "reader-feature",
        "a head with an unknown reader feature",
        lambda s: s.head(0, reader_features=["novel"], writer_features=["novel"]),
    ),
    ("major-version", "a head of another major version", lambda s: s.head(0, protocol_version="1.0")),
    (
        "another-kind",
        "a version record in the place of the head",
        lambda s: s.head(2, raw=lambda _: s.objects["versions/00000000000000000000.json"]),
    ),
]
"""Heads that do not keep a reader from the newest version. HED-1"""


def drafts() -> Iterator[Draft]:
    """All cases."""
    for name, title, change in HEADS:
        stream = small_stream(f"head-{name}")
        change(stream)
        yield accepted(AREA, name, title, ["HED-1", "HED-2", "LAT-2", "LAT-3", "LAT-4"], stream)
    yield _huge()
    yield good_next(
        AREA, "left-behind", "five more versions, and a head that stayed behind", ["LAT-4", "HED-1"],
        stream=small_stream("left-behind", versions=1), grow=_five_more,
    )  # fmt: skip
    none = small_stream("of-no-version", versions=1)
    none.objects = {key: none.objects[key] for key in ("stream.json", "head.json")}
    yield refused(
        AREA, "of-no-version", "a head of a stream that has no version", ["HED-2", "LAT-3"], none, "version_not_found"
    )  # fmt: skip


def _five_more(stream: Stream) -> None:
    for step in range(1, 6):
        stream.delta(trained(stream.states[-1], step, changes=1))


def _huge() -> Draft:
    stream = small_stream("huge")
    stream.head(0)
    return Draft(
        AREA,
        "huge",
        negative=False,
        case=Case(
            title="a head larger than a record may be",
            requirements=("HED-1", "HED-2", "LIM-1"),
            role="consumer",
            steps=(Put(), Pad(key="head.json", bytes=(1 << 24) + 1), Materialize(version="latest", state="2")),
        ),
        trees={"store": dict(stream.objects)},
        states={"2": stream.states[2].neutral(2)},
    )
