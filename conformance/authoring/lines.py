"""Streams that have a past: with anchors and spans, and with versions that were collected."""

from __future__ import annotations

from collections.abc import Iterable

from authoring.states import State, small_model, trained
from authoring.stream import Stream, named_uuid
from deltawire.format.keys import anchor_key, data_prefix, span_key, version_key


def line(
    *, name: str = "line", versions: int = 7, anchors: Iterable[int] = (2, 4), spans: Iterable[tuple[int, int]] = (),
    model: State | None = None, rebases: Iterable[int] = (), **options: object,
) -> Stream:  # fmt: skip
    """Versions 0, 1, 2 … of one model; all but the first and the rebases have deltas.

    Args:
        name: of the stream.
        versions: how many.
        anchors: versions that have one.
        spans: base and target of each.
        model: version 0.
        rebases: further versions that have a snapshot of their own.
        options: of ``Stream``.
    """
    stream = Stream(name, **options)  # type: ignore[arg-type]
    stream.create()
    state = model or small_model()
    stream.rebase(state)
    for number in range(1, versions):
        state = trained(state, number)
        if number in rebases:
            stream.rebase(state)
        else:
            stream.delta(state)
    for version in anchors:
        stream.anchor(version)
    for base, target in spans:
        stream.span(base, target)
    stream.head(versions - 1)
    return stream


def number(version: int) -> str:
    """A version as keys write it (KEY-2)."""
    return f"{version:020d}"


def of(*versions: int) -> tuple[str, ...]:
    """Patterns of everything that has the number of a version in its key, spans excepted."""
    return tuple(
        pattern
        for version in versions
        for pattern in (version_key(version), anchor_key(version), f"data/{number(version)}-*")
    )


def snapshot_of(version: int) -> tuple[str, ...]:
    """Patterns of the shards and the index of a version, and of its record: what goes of one whose table is shared."""
    return version_key(version), anchor_key(version), f"data/{number(version)}-*/model*"


def spans(*ends: tuple[int, int]) -> tuple[str, ...]:
    """Keys of spans by base and target."""
    return tuple(span_key(*each) for each in ends)


def orphan(stream: Stream, version: int) -> str:
    """Store an object that no record names, in a folder of a version; its key."""
    key = data_prefix(version, named_uuid(stream.name, "orphan", version)) + "part-00000.arrow"
    stream.objects[key] = b"left by a write that failed"
    return key


def forget(stream: Stream, *beginnings: str) -> None:
    """Remove objects by the beginnings of their keys."""
    for key in [key for key in stream.objects if key.startswith(beginnings)]:
        del stream.objects[key]
