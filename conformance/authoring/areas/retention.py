"""What is retained, as a reader sees it (SPEC.md section 8.12)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from authoring.drafts import Draft, accepted, refused, refused_next
from authoring.nexts import assign, good_next
from authoring.states import small_model, trained
from authoring.stream import Stream, small_stream
from deltawire.format.keys import version_key
from deltawire_conformance.case import Case, Materialize, Put

AREA = "retention"
OTHER = "11111111-1111-4111-8111-111111111111"

BROKEN: list[tuple[str, str, tuple[str, ...], str, Callable[[Stream], object]]] = [
    (
        "not-json",
        "retention.json is no JSON",
        ("RET-4",),
        "malformed_record",
        lambda s: s.retention(0, raw=lambda data: data[:-1]),
    ),
    (
        "another-stream",
        "retention.json of another stream",
        ("RET-4", "STR-2"),
        "wrong_stream",
        lambda s: s.retention(0, edit=assign("stream_id", OTHER)),
    ),
    (
        "major-version",
        "retention.json of another major version",
        ("RET-4", "VER-1"),
        "unsupported_protocol",
        lambda s: s.retention(0, edit=assign("protocol_version", "1.0")),
    ),
    (
        "no-boundary",
        "retention.json without a boundary",
        ("RET-4", "REC-2"),
        "malformed_record",
        lambda s: s.retention(0, edit=lambda record: record.pop("boundary")),
    ),
    ("kept-descends", "kept versions that descend", ("RET-1",), "malformed_record", lambda s: s.retention(2, 1, 0)),
    (
        "kept-twice",
        "a kept version that is listed twice",
        ("RET-1",),
        "malformed_record",
        lambda s: s.retention(2, 0, 0),
    ),
    (
        "kept-at-the-boundary",
        "a kept version that is not below the boundary",
        ("RET-1",),
        "malformed_record",
        lambda s: s.retention(2, 0, 2),
    ),
]
"""What a reader must not pass over. RET-4"""


def drafts() -> Iterator[Draft]:
    """All cases."""
    for name, title, requirements, error, add in BROKEN:
        stream = small_stream(f"retention-{name}", versions=1)

        def grow(stream: Stream, add: Callable[[Stream], object] = add) -> None:
            stream.delta(trained(stream.states[-1], 1))
            stream.rebase(trained(stream.states[-1], 2))
            add(stream)

        yield refused_next(AREA, name, title, requirements, stream, error, grow=grow)
    yield _asked(
        "below-the-boundary", "a version below the boundary whose record is there", 0, _line("below", boundary=3)
    )
    yield _asked(
        "between-kept", "a version below the boundary between others that are kept", 1, _line("between", 3, 0, 2)
    )
    yield refused(
        AREA, "boundary-ahead", "a boundary above the newest version that is there", ["LAT-5", "RET-3"],
        _line("boundary-ahead", 7), "version_not_found",
    )  # fmt: skip
    yield _anchor_below()
    yield accepted(
        AREA, "boundary", "a boundary, and everything still there", ["RET-1", "RET-3"], _line("boundary", 3)
    )  # fmt: skip
    yield accepted(
        AREA, "collected", "a boundary, and nothing left below it", ["RET-1", "LAT-5"],
        _collected(_line("collected", 3), 0, 1, 2),
    )  # fmt: skip
    yield _kept()
    stale = _collected(_line("kept-is-not-newest", 3, 0), 1, 2)
    stale.head(0)
    yield accepted(
        AREA, "kept-is-not-newest", "a head that says a kept version after which others were collected",
        ["LAT-5", "HED-1"], stale,
    )  # fmt: skip
    for name, title, kept in (
        ("held-kept", "a version held that is kept, and the ones after it collected", (0,)),
        ("held-lost", "a version held that is not retained any more, and the ones after it collected", ()),
    ):
        yield good_next(
            AREA, name, title, ["LAT-5", "RET-3"], stream=small_stream(name, versions=1), grow=_go_on(*kept)
        )


def _line(name: str, boundary: int, *kept: int) -> Stream:
    """Versions 0 to 4, of which 2 and 3 are rebases."""
    stream = small_stream(name, versions=2)
    stream.rebase(small_model(seed="second"))
    stream.rebase(small_model(seed="third"))
    stream.delta(trained(stream.states[-1], 4))
    stream.head(4)
    stream.retention(boundary, *kept)
    return stream


def _collected(stream: Stream, *versions: int) -> Stream:
    gone = tuple(f"data/{version:020d}" for version in versions)
    gone += tuple(version_key(version) for version in versions)
    stream.objects = {key: data for key, data in stream.objects.items() if not key.startswith(gone)}
    return stream


def _go_on(*kept: int) -> Callable[[Stream], None]:
    def grow(stream: Stream) -> None:
        stream.delta(trained(stream.states[-1], 1))
        stream.delta(trained(stream.states[-1], 2))
        stream.rebase(trained(stream.states[-1], 3))
        stream.delta(trained(stream.states[-1], 4))
        _collected(stream, 1, 2)
        stream.retention(3, *kept)

    return grow


def _asked(name: str, title: str, version: int, stream: Stream) -> Draft:
    return Draft(
        AREA,
        name,
        negative=True,
        case=Case(
            title=title,
            requirements=("RET-3", "PLN-1"),
            role="consumer",
            steps=(Put(), Materialize(version=version, error=("version_not_found",))),
        ),
        trees={"store": dict(stream.objects)},
    )


def _kept() -> Draft:
    stream = _line("kept", 3, 0, 2)
    return Draft(
        AREA,
        "kept",
        negative=False,
        case=Case(
            title="versions below the boundary that are kept, and asked for",
            requirements=("RET-1", "RET-3"),
            role="consumer",
            steps=(Put(), Materialize(version=0, state="0"), Materialize(version=2, state="2")),
        ),
        trees={"store": dict(stream.objects)},
        states={str(number): stream.states[number].neutral(number) for number in (0, 2)},
    )


def _anchor_below() -> Draft:
    stream = small_stream("anchor-below", versions=3)
    stream.anchor(1)
    anchor = stream.anchor(2)
    del stream.objects[anchor["snapshot"]["shards"][0]["key"]]
    stream.retention(2)
    return refused(
        AREA, "anchor-below-the-boundary", "a boundary whose snapshot is gone, and an anchor below it",
        ["RET-3"], stream, ("missing_object", "path_lost"),
        note="From the anchor below, a delta leads to the boundary, but no reader may use it.",
    )  # fmt: skip
