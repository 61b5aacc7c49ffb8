"""Pins of a consumer that follows (SPEC.md sections 8.11 and 11.13)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from authoring.drafts import Draft, changed
from authoring.lines import line
from authoring.states import trained
from authoring.stream import Stream, small_stream
from deltawire_conformance.case import AnyStep, Case, Follow, Judge, Level, Materialize, Put

AREA = "pins"
TREES = ("then-1", "then-2")


def drafts() -> Iterator[Draft]:
    """All cases."""
    yield _following(
        "while-following", "a pin covers what is held and what comes, and is gone at the end",
        ["PIN-3", "PIN-5", "PIN-7"], growing(),
        Follow(version=2, state="2", meanwhile=TREES, pinned={"0": (0, 1, 2), "1": (1, 2)}),
    )  # fmt: skip
    yield _following(
        "renewed", "a pin is written again within its ttl while nothing comes", ["PIN-5"], growing(),
        Follow(version=2, state="2", meanwhile=TREES, renewed_ms=3300, options={"ttl_ms": 3000}), level="should",
    )  # fmt: skip
    stream = growing()
    stream.pin(0, holder="engine-1")
    stream.pin(1, holder="engine-2", released=True)
    stream.pin(0, holder="engine-3", raw=lambda data: data[:50])
    yield _following(
        "of-others", "pins of other readers, one released and one that cannot be read, stay as they are",
        ["PIN-2"], stream, Follow(version=2, state="2", meanwhile=TREES),
    )  # fmt: skip
    stream = line(versions=4, anchors=[2])
    yield _following(
        "nothing-left", "a consumer that reads once leaves no pin", ["PIN-7"], stream,
        Materialize(version="latest", state="3"), trees={}, states=[3],
    )  # fmt: skip
    yield _refused()


def growing() -> Stream:
    """A stream of one version; ``grown`` has what comes then."""
    return small_stream("growing", versions=1)


def grown(stream: Stream) -> dict[str, dict[str, bytes]]:
    """Trees of a version each, to be laid one after the other."""
    trees = {}
    for step, name in enumerate(TREES, 1):
        before = dict(stream.objects)
        stream.delta(trained(stream.states[-1], step))
        trees[name] = changed(before, stream.objects)
    return trees


def _following(
    name: str, title: str, requirements: Sequence[str], stream: Stream, call: AnyStep, *, level: Level = "must",
    trees: dict[str, dict[str, bytes]] | None = None, states: Sequence[int] = (2,),
) -> Draft:  # fmt: skip
    store = dict(stream.objects)
    laid = grown(stream) if trees is None else trees
    return Draft(
        AREA,
        name,
        negative=False,
        case=Case(
            title=title,
            requirements=tuple(requirements),
            level=level,
            role="consumer",
            features=("pins",),
            steps=(Put(), call, Judge(unchanged=("*",), added=("leases/readers/*",), unpinned=True)),
        ),
        trees={"store": store, **laid},
        states={str(version): stream.states[version].neutral(version) for version in states},
    )


def _refused() -> Draft:
    stream = line(versions=3, anchors=[])
    for key in [key for key in stream.objects if key.startswith("data/00000000000000000002-")]:
        stream.objects[key] = bytes(byte ^ (place == 1000) for place, byte in enumerate(stream.objects[key]))
    return Draft(
        AREA,
        "after-a-refusal",
        negative=True,
        case=Case(
            title="a consumer that is refused leaves no pin either",
            requirements=("PIN-7", "ERR-2"),
            role="consumer",
            features=("pins",),
            steps=(
                Put(),
                Materialize(version=1, state="1"),
                Materialize(version="latest", error=("digest_mismatch",)),
                Judge(
                    unchanged=("*",),
                    added=("leases/readers/*",),
                    unpinned=True,
                    findings=("digest_mismatch", "path_lost"),
                ),
            ),
        ),
        trees={"store": dict(stream.objects)},
        states={"1": stream.states[1].neutral(1)},
    )
