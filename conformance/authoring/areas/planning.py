"""Ways to a version: what can be got round, what not, and spans (SPEC.md sections 8.13 and 11.5)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

from authoring.drafts import Draft, accepted, changed, refused, refused_next
from authoring.parts import RawRow
from authoring.states import State, small_model, trained
from authoring.stream import Json, Stream, small_stream
from deltawire.format.keys import span_key, version_key
from deltawire.format.strict_json import sha256
from deltawire_conformance.case import Case, Materialize, Put

AREA = "planning"
OTHER = "11111111-1111-4111-8111-111111111111"
NOTE = "A consumer that takes no spans reports the record of version 2, one that does may report either."


def drafts() -> Iterator[Draft]:
    """All cases."""
    yield from _lost()
    yield from _not_found()
    yield from _rebases()
    yield from _spans()
    yield from _spans_passed_over()
    yield from _spans_refused()


def _stream(name: str, *, versions: int = 5) -> Stream:
    return small_stream(f"planning {name}", versions=versions)


def _cut(stream: Stream, version: int) -> None:
    """Make a record malformed."""
    stream.objects[version_key(version)] = stream.objects[version_key(version)][:-1]


def _lost() -> Iterator[Draft]:
    stream = _stream("lost", versions=4)
    del stream.objects[version_key(2)]
    yield refused(
        AREA, "path-lost", "a stream without the record of a version in its middle", ["PLN-3"], stream, "path_lost"
    )  # fmt: skip
    stream = _stream("malformed", versions=4)
    _cut(stream, 2)
    yield refused(
        AREA, "malformed-between", "a stream with a malformed record of a version in its middle", ["PLN-3"], stream,
        "malformed_record",
    )  # fmt: skip
    yield refused_next(
        AREA, "damaged-part", "a part of zeros, of the right size", ["PLN-5", "DSC-3"],
        _stream("zeros", versions=1), "digest_mismatch", grow=_zeros,
    )  # fmt: skip


def _zeros(stream: Stream) -> None:
    made = stream.delta(trained(stream.states[-1], 1))
    part = made["delta"]["parts"][0]
    stream.objects[part["key"]] = bytes(part["bytes"])


def _not_found() -> Iterator[Draft]:
    def negative(name: str, title: str, requirement: str, stream: Stream, code: str, version: Any) -> Draft:
        return Draft(
            AREA, name, negative=True,
            case=Case(
                title=title, requirements=(requirement,), role="consumer",
                steps=(Put(), Materialize(version=version, error=(code,))),
            ),
            trees={"store": dict(stream.objects)},
        )  # fmt: skip

    stream = _stream("beyond", versions=2)
    yield negative(
        "beyond-the-newest", "a version after the newest", "PLN-1", stream, "version_not_found", 2
    )  # fmt: skip
    stream = Stream("planning no version")
    stream.create()
    yield negative("no-version", "a stream without versions", "LAT-3", stream, "version_not_found", "latest")


def _then(
    name: str, title: str, requirements: Sequence[str], grow: Callable[[Stream], object],
    *, version: int | Literal["latest"] = "latest", **more: Any,
) -> Draft:  # fmt: skip
    """A consumer that holds version 1 and reaches the newest, whatever is broken between."""
    stream = _stream(name, versions=2)
    before = dict(stream.objects)
    grow(stream)
    newest = len(stream.states) - 1
    return Draft(
        AREA, name, negative=False,
        case=Case(
            title=title, requirements=tuple(requirements), role="consumer",
            steps=(
                Put(), Materialize(version=1, state="1"), Put(tree="then"),
                Materialize(version=version, state=str(newest)),
            ),
            **more,
        ),
        trees={"store": before, "then": changed(before, stream.objects)},
        states={str(at): stream.states[at].neutral(at) for at in (1, newest)},
    )  # fmt: skip


def _rebased(stream: Stream) -> None:
    """Versions 2 to 4: a delta, a rebase, a delta."""
    stream.delta(trained(stream.states[-1], 2))
    other = small_model(seed="other")
    stream.rebase(State(dict(list(other.tensors.items())[1:]), files=other.files))
    stream.delta(trained(stream.states[-1], 4))


def _rebases() -> Iterator[Draft]:
    yield _then("rebase", "a rebase with fewer tensors, and a version after it", ["VSN-5", "CHN-1"], _rebased)

    def part_gone(stream: Stream) -> None:
        _rebased(stream)
        del stream.objects[stream.records[2]["delta"]["parts"][0]["key"]]

    def record_cut(stream: Stream) -> None:
        _rebased(stream)
        _cut(stream, 2)

    yield _then("part-before-rebase", "a part that is gone, of a version before a rebase", ["PLN-1"], part_gone)
    yield _then(
        "record-before-rebase", "a malformed record of a version before a rebase", ["PLN-3"], record_cut
    )  # fmt: skip


def _three_more(stream: Stream) -> None:
    for step in (2, 3, 4):
        stream.delta(trained(stream.states[-1], step))


def _spans() -> Iterator[Draft]:
    def over(break_it: Callable[[Stream], object], **span: Any) -> Callable[[Stream], None]:
        def grow(stream: Stream) -> None:
            _three_more(stream)
            stream.span(1, 3, **span)
            break_it(stream)

        return grow

    yield _then(
        "span-over-malformed", "a span over a version with a malformed record", ["PLN-3", "SPN-4", "SPN-2"],
        over(lambda s: _cut(s, 2)), features=("spans",),
    )  # fmt: skip
    yield _then(
        "span-over-lost", "a span over a version whose record is gone", ["PLN-3", "SPN-4"],
        over(lambda s: s.objects.pop(version_key(2)), codec="gap-set"), version=4, features=("spans",),
    )  # fmt: skip
    yield _then(
        "span-over-part", "a span over a version whose part is gone", ["PLN-5"],
        over(lambda s: s.objects.pop(s.records[2]["delta"]["parts"][0]["key"]), codec="dense"), level="should",
        features=("spans",),
    )  # fmt: skip


def _with_span(name: str, edit: Callable[[Json], object], raw: Callable[[bytes], bytes] = lambda data: data) -> Stream:
    stream = _stream(name)
    stream.span(0, 3, edit=edit, raw=raw)
    return stream


def _spans_passed_over() -> Iterator[Draft]:
    wrong = sha256(b"another record")
    faults: list[tuple[str, str, list[str], Callable[[Json], object]]] = [
        ("base", "a span of another record of its base", ["SPN-4", "SPN-6"], lambda r: r.update(base_digest=wrong)),
        ("key", "a span from another version than its key says", ["SPN-1", "SPN-6"], lambda r: r.update(base=1)),
        ("backwards", "a span that leads nowhere", ["SPN-1", "SPN-6"], lambda r: r.update(base=3)),
        ("stream", "a span of another stream", ["SPN-6", "STR-2"], lambda r: r.update(stream_id=OTHER)),
        ("size", "a span with more bytes than it replaces", ["SPN-3", "SPN-6"], lambda r: r.update(replaces_bytes=10)),
    ]
    for name, title, requirements, edit in faults:
        yield accepted(
            AREA, f"span-passed-over-{name}", f"{title}, beside sound deltas", requirements,
            _with_span(f"passed {name}", edit),
        )  # fmt: skip
    yield accepted(
        AREA, "span-passed-over-cut", "a span whose record is no JSON, beside sound deltas", ["SPN-6"],
        _with_span("passed cut", lambda _: None, lambda data: data[:-1]),
    )  # fmt: skip
    stream = _with_span("passed part", lambda _: None)
    part = next(key for key in stream.objects if "/part-" in key and stream.objects[span_key(0, 3)].count(key.encode()))
    del stream.objects[part]
    yield accepted(
        AREA, "span-passed-over-part", "a span whose part is gone, beside sound deltas", ["PLN-5", "SPN-6"], stream,
        level="should",
    )  # fmt: skip


def _off_by_one(record: Json) -> None:
    digest = int(record["delta"]["digest_after"], 16)
    record["delta"]["digest_after"] = f"{(digest + 1) % (1 << 64):016x}"


def _spans_refused() -> Iterator[Draft]:
    wrong = sha256(b"another")
    faults: list[tuple[str, str, str, Callable[[Json], object]]] = [
        ("base", "a span of another record of its base", "SPN-4", lambda r: r.update(base_digest=wrong)),
        ("target", "a span of another record of its target", "SPN-4", lambda r: r.update(version_digest=wrong)),
        ("table", "a span with another tensor table", "SPN-4", lambda r: r["tensors"].update(digest=wrong)),
        ("state", "a span with another state digest", "SPN-4", lambda r: r.update(state_digest="0" * 16)),
        ("sums", "a span whose sums do not lead from its base to its target", "SPN-4", _off_by_one),
        ("size", "a span with more bytes than it replaces", "SPN-3", lambda r: r.update(replaces_bytes=10)),
    ]
    for name, title, requirement, edit in faults:

        def grow(stream: Stream, edit: Callable[[Json], object] = edit) -> None:
            _three_more(stream)
            stream.span(1, 3, edit=edit)
            _cut(stream, 2)

        yield refused_next(
            AREA, f"span-other-{name}", f"{title}, over a malformed record", [requirement, "PLN-3"],
            _stream(f"refused {name}", versions=2), ("malformed_record", "broken_chain"), grow=grow, note=NOTE,
        )  # fmt: skip

    def wrong_rows(rows: list[RawRow]) -> None:
        for row, by in ((rows[0], 1), (rows[1], -1)):
            row.digest_after = (row.digest_after + by) % (1 << 64)

    def grow_rows(stream: Stream) -> None:
        _three_more(stream)
        stream.span(1, 3, rows=wrong_rows)
        _cut(stream, 2)

    yield refused_next(
        AREA, "span-rows", "a span with two wrong digests of rows, over a malformed record", ["DIG-5", "PLN-5"],
        _stream("span rows", versions=2), ("malformed_record", "state_mismatch"), grow=grow_rows, note=NOTE,
    )  # fmt: skip
