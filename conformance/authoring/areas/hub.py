"""Buckets of the Hugging Face Hub by the Hub's own API, as far as it is seen from outside (SPEC.md section 5.9)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from authoring.areas.collecting import keeping
from authoring.drafts import Draft, Tree, changed, worked
from authoring.lines import line
from authoring.states import trained
from authoring.stream import Stream, small_stream
from deltawire.format.keys import version_key
from deltawire_conformance.case import AnyStep, Case, Collect, Delete, Follow, Materialize, Put

AREA = "hub"
ALIKE = (
    "versions-00000000000000000009.json", "versions.old/00000000000000000009.json",
    "anchors-old/00000000000000000002.json", "spans-old/00000000000000000002-00000000000000000000.json",
    "leases/readers-old/note.json", "data-old/note",
)  # fmt: skip
"""Keys that begin with the letters of a folder's name and are not in it."""


def drafts() -> Iterator[Draft]:
    """All cases."""
    yield _consumer(
        "nothing-there",
        "a prefix under which there is nothing",
        ["STO-33", "STR-1"],
        [Materialize(error=("stream_not_found",))],
        small_stream("nothing"),
        {},
        negative=True,
    )
    stream = small_stream("alike", versions=3)
    del stream.objects["head.json"]
    stream.objects |= dict.fromkeys(ALIKE, b"not of this stream")
    yield _consumer(
        "same-letters",
        "keys that begin with the letters of a folder and are not in it, and no head",
        ["STO-32", "KEY-5", "LAT-3"],
        [Put(), Materialize(state="2")],
        stream,
        {"store": dict(stream.objects)},
    )
    yield from _anew()
    stream = line(name="alike-collected", versions=4, anchors=[3])
    stream.objects |= dict.fromkeys(ALIKE, b"not of this stream")
    yield worked(
        AREA,
        "same-letters-collected",
        "what only begins with the letters of a folder is left alone by a maintainer",
        ["STO-32", "COL-7"],
        stream,
        Collect(options=keeping(1), boundary=3),
        features=("collect",),
        stores=("hub",),
        states=[3],
        judged={"unchanged": ("stream.json", *ALIKE), "absent": (version_key(0), version_key(2))},
    )


def _anew() -> Iterator[Draft]:
    stream = small_stream("anew", versions=1)
    trees: dict[str, Tree] = {"store": dict(stream.objects)}
    for number in (1, 2):
        before = dict(stream.objects)
        stream.delta(trained(stream.states[-1], number))
        stream.head(number)
        trees[f"then-{number}"] = changed(before, stream.objects)
    yield _consumer(
        "looked-up-anew",
        "a head that changes and a version that was not there, looked up again and again",
        ["STO-31", "STO-2"],
        [
            Put(), Materialize(state="0"), Put(tree="then-1"), Materialize(state="1"), Put(tree="then-2"),
            Materialize(state="2"),
        ],
        stream,
        trees,
    )  # fmt: skip
    yield _consumer(
        "followed",
        "a follower sees what is written meanwhile",
        ["STO-31", "STO-2", "FOL-1"],
        [Put(), Follow(version=2, state="2", meanwhile=("then-1", "then-2"))],
        stream,
        trees,
    )
    yield _consumer(
        "gone",
        "the stream is gone when it is looked up again",
        ["STO-31", "STO-6", "STR-1"],
        [Put(), Materialize(state="2"), Delete(keys=tuple(stream.objects)), Materialize(error=("stream_not_found",))],
        stream,
        {"store": dict(stream.objects)},
        negative=True,
    )


def _consumer(
    name: str, title: str, requirements: Sequence[str], steps: Sequence[AnyStep], stream: Stream,
    trees: dict[str, Tree], *, negative: bool = False,
) -> Draft:  # fmt: skip
    held = {step.state for step in steps if isinstance(step, (Materialize, Follow)) and step.state is not None}
    return Draft(
        AREA,
        name,
        negative=negative,
        case=Case(title=title, requirements=tuple(requirements), role="consumer", stores=("hub",), steps=tuple(steps)),
        trees=trees,
        states={each: stream.states[int(each)].neutral(int(each)) for each in held},
    )
