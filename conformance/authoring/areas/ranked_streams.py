"""Streams with the feature ``ranked``: who writes to them (SPEC.md sections 8.1, 9 and 16.3)."""

from __future__ import annotations

from collections.abc import Iterator

from authoring.areas.collecting import keeping
from authoring.drafts import Draft, published, refused_next, worked
from authoring.nexts import assign
from authoring.producing import LEASE, next_states, producing, refused_whole, resting_stream, version
from authoring.ranked import AREA, FEATURES, ranked_stream
from authoring.states import State, small_model, trained, values
from authoring.stream import Stream
from deltawire.format.keys import RETENTION
from deltawire_conformance.case import Build, Collect, Fork, Publish, Rollback

KEYLESS = ("gap-set", "dense")
"""Codecs that need no base."""
MARKED = {"reader_features": ["ranked"], "writer_features": ["ranked"]}
"""What every record of such a stream says."""


def drafts() -> Iterator[Draft]:
    """All cases."""
    yield from _publishing()
    yield from _earlier_versions()
    yield from _maintaining()
    yield _for_writers_only()


def _for_writers_only() -> Draft:
    stream = ranked_stream("for writers only", small_model())
    state = trained(small_model(), 1)
    return refused_next(
        AREA, "for-writers-only", "a record that lists ranked as a writer feature, and not as a reader feature",
        ["VER-3"], stream, "malformed_record", grow=lambda s: s.delta(state, edit=assign("reader_features", [])),
        features=FEATURES,
    )  # fmt: skip


def _line(name: str, *, versions: int) -> Stream:
    stream = ranked_stream(name, small_model())
    for step in range(1, versions):
        stream.delta(trained(stream.states[-1], step), codec="ranked")
    stream.head(versions - 1)
    return stream


def _large(step: int) -> State:
    """Tensors large enough for several classes, of which a few per cent change."""
    state = State({name: values(name, (40, 30)) for name in ("BF16", "F16", "F32", "F64", "F8_E4M3", "I32")})
    for each in range(1, step + 1):
        state = trained(state, each, changes=50)
    return state


def _publishing() -> Iterator[Draft]:
    yield published(
        AREA, "created", "a new stream with the feature ranked", ["COD-4", "STR-4", "VER-3", "RNK-1"],
        [_large(step) for step in range(3)], options={"ranked": True}, features=FEATURES,
        members=dict.fromkeys(("stream.json", version(0), version(2), "head.json", LEASE), MARKED),
    )  # fmt: skip
    yield producing(
        AREA, "taken-up", "a stream with the feature ranked is taken up without asking for it",
        ["COD-4", "STR-4", "OPN-4"], stream=_line("taken up", versions=2), states=_published(), features=FEATURES,
        judged={"members": {version(2): MARKED, "head.json": MARKED, LEASE: MARKED}},
    )  # fmt: skip
    stream = ranked_stream("absolute too", small_model(), writer_features=["absolute"])
    yield producing(
        AREA, "absolute-too", "a stream with the features absolute and ranked", ["COD-2", "COD-4"], stream=stream,
        features=("ranked", "absolute"),
        judged={"codecs": KEYLESS, "members": {version(1): {"reader_features": ["ranked"]}}},
    )  # fmt: skip
    stream = resting_stream("not-ranked")
    yield producing(
        AREA, "not-ranked", "a stream without the feature ranked, and a producer that demands it", ["OPN-3"],
        stream=stream, error="invalid_argument", options={"ranked": True}, features=FEATURES,
        judged=refused_whole(stream),
    )  # fmt: skip
    yield producing(
        AREA, "absolute-demanded-too", "a producer that is told to create a stream with absolute and ranked",
        ["OPN-3"], error="invalid_argument", options={"ranked": True, "absolute": True},
        features=("ranked", "absolute"), judged={"absent": ("stream.json", version(0))},
    )  # fmt: skip
    stream = resting_stream("none asked")
    yield producing(
        AREA, "not-asked-for", "a stream without the feature ranked, by a producer that knows it", ["COD-4"],
        stream=stream, features=FEATURES,
        judged={"codecs": (*KEYLESS, "gap"), "members": {version(1): {"reader_features": [], "writer_features": []}}},
    )  # fmt: skip


def _published() -> list[State]:
    return next_states(_line("taken up", versions=2))


def _earlier_versions() -> Iterator[Draft]:
    stream = _line("rolled back", versions=3)
    state = stream.states[0]
    yield worked(
        AREA, "rolled-back", "a rollback in a stream with the feature ranked", ["COD-4", "STR-4", "RBK-3"], stream,
        Rollback(version=0, expect_version=3), role="producer", features=("ranked", "rollback"),
        expected={"3": state.neutral(3)},
        judged={"newest": 3, "members": {version(3): MARKED}, "unchanged": ("stream.json", "versions/*", "data/*")},
    )  # fmt: skip
    source = _line("forked", versions=2)
    following = trained(source.states[1], 9)
    yield worked(
        AREA, "forked", "a fork of a stream with the feature ranked, and its next version",
        ["COD-4", "STR-4", "FRK-1"], Stream("nowhere"), Fork(version=1), Publish(versions=(1,)), role="producer",
        features=("ranked", "fork"), source=source, inputs={"input": [following]},
        expected={"0": source.states[1].neutral(0), "1": following.neutral(1)},
        judged={"newest": 1, "members": dict.fromkeys(("stream.json", version(0), version(1)), MARKED)},
    )  # fmt: skip


def _maintaining() -> Iterator[Draft]:
    stream = _line("built", versions=5)
    yield worked(
        AREA, "built", "anchors and spans of deltas in the codec ranked", ["COD-4", "STR-4", "MNT-1"], stream,
        Build(least=1), states=range(5), features=("ranked", "build"),
        judged={
            "newest": 4, "unchanged": ("*",), "added": ("anchors/*", "spans/*", "data/*", "leases/readers/*"),
            "tidy": True, "members": {"*an*s/*.json": MARKED},  # of anchors or spans, whatever was added
        },
    )  # fmt: skip
    stream = _line("collected", versions=3)
    stream.anchor(2)
    yield worked(
        AREA, "collected", "the boundary moves in a stream with the feature ranked", ["STR-4", "COL-2"], stream,
        Collect(options=keeping(1), boundary=2), states=[2], features=("ranked", "collect"),
        judged={"newest": 2, "members": {RETENTION: MARKED | {"boundary": 2}}, "added": ("retention.json",)},
    )  # fmt: skip
