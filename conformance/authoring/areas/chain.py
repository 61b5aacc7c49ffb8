"""The chain of version records (SPEC.md section 11.5)."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator

from authoring.drafts import Draft, refused, refused_next
from authoring.nexts import assign, bad_next, good_next
from authoring.states import M64, small_model, trained
from authoring.stream import Edit, Json, Stream, dump, small_stream
from deltawire.format.keys import version_key
from deltawire.format.strict_json import sha256

AREA = "chain"
NOTHING = "sha256:" + "0" * 64


def drafts() -> Iterator[Draft]:
    """All cases."""
    yield bad_next(
        AREA, "parent-digest", "a next version that names another record for its parent", ["CHN-1"], "broken_chain",
        edit=assign("parent.digest", NOTHING),
    )  # fmt: skip
    yield refused_next(
        AREA, "parent-rewritten", "a next version that names its parent by a rewritten form of its record",
        ["JSN-5", "CHN-1"], _spaced("parent-rewritten"), "broken_chain",
        grow=lambda s: s.delta(
            trained(s.states[-1], 2), edit=assign("parent.digest", sha256(dump(s.records[-1])))
        ),
    )  # fmt: skip
    yield refused_next(
        AREA, "held-record-replaced", "a replaced record of the version held, and a next version that follows from it",
        ["CHN-1"], small_stream("held-record-replaced", versions=1), "broken_chain", grow=_replace_held,
    )  # fmt: skip
    yield refused(
        AREA, "middle-replaced", "a replaced record between a snapshot and the newest version", ["CHN-1"],
        _middle_replaced(), "broken_chain",
    )  # fmt: skip
    yield refused_next(
        AREA, "epoch-falls", "a next version whose epoch is below that of the version held", ["CHN-2"],
        _epochs("epoch-falls", 3), "broken_chain", grow=_next_epoch(2),
    )  # fmt: skip
    yield good_next(
        AREA, "epoch-rises", "versions whose epochs stay, and rise by more than one", ["CHN-2", "REC-6"],
        stream=_epochs("epoch-rises", 3), grow=lambda s: [_next_epoch(3)(s), _next_epoch((1 << 53) - 1)(s)],
    )  # fmt: skip
    yield bad_next(
        AREA, "another-table", "a delta with another tensor table than its parent", ["CHN-3", "TAB-1"], "broken_chain",
        edit=assign("tensors.digest", NOTHING),
    )  # fmt: skip
    yield bad_next(
        AREA, "state-digest", "a state digest that does not follow from the parent's and the delta's", ["CHN-4"],
        "broken_chain", edit=_off_by_one("state_digest"),
    )  # fmt: skip
    yield bad_next(
        AREA, "delta-digest", "a digest_after with which the state digest does not follow", ["CHN-4"], "broken_chain",
        edit=lambda record: _off_by_one("digest_after")(record["delta"]),
    )  # fmt: skip
    for name, title, direction in (
        ("digest-wraps-up", "a delta that takes the state digest past 2^64", 1),
        ("digest-wraps-down", "a delta that takes the state digest below 0", -1),
    ):
        yield _wrapping(name, title, direction)
    yield bad_next(
        AREA, "another-number", "the record of version 7 under the key of version 1", ["VSN-2", "CHN-5"],
        "broken_chain", edit=lambda record: record.update(version=7, parent={**record["parent"], "version": 6}),
    )  # fmt: skip
    yield refused_next(
        AREA, "another-stream-in-place", "another stream in the place of the one that is held", ["FOL-2"],
        small_stream("another-stream-in-place", versions=1), "wrong_base", grow=_another_stream,
    )  # fmt: skip
    yield good_next(
        AREA, "rebase-follows", "a rebase with other tensors after the version held", ["VSN-5", "CHN-3", "CHN-4"],
        stream=small_stream("rebase-follows", versions=1),
        grow=lambda s: s.rebase(small_model(seed="new").with_values("a", s.states[0].tensors["embed.weight"])),
    )  # fmt: skip
    yield good_next(
        AREA, "nothing-changed", "a version in which no bit changed, with no parts", ["VSN-7", "DLT-4"],
        stream=small_stream("nothing-changed", versions=1), grow=lambda s: s.delta(s.states[-1]),
    )  # fmt: skip


def _spaced(name: str) -> Stream:
    stream = small_stream(name, versions=1)
    stream.delta(trained(stream.states[-1], 1), raw=lambda data: data + b"\n")
    return stream


def _replace_held(stream: Stream) -> None:
    other = copy.deepcopy(stream)
    record = other.records[0]
    record["metadata"] = {"another": True}
    other.objects[version_key(0)] = dump(record)
    other.delta(trained(other.states[-1], 1))
    stream.objects = other.objects
    stream.records, stream.states = other.records, other.states


def _middle_replaced() -> Stream:
    stream = small_stream("middle-replaced", versions=3)
    stream.objects[version_key(1)] = dump(stream.records[1] | {"metadata": {"another": True}})
    return stream


def _epochs(name: str, epoch: int) -> Stream:
    stream = small_stream(name, versions=1)
    _next_epoch(epoch)(stream)
    return stream


def _next_epoch(epoch: int) -> Callable[[Stream], object]:
    def grow(stream: Stream) -> object:
        stream.epoch = epoch
        return stream.delta(trained(stream.states[-1], len(stream.states)))

    return grow


def _off_by_one(member: str) -> Edit:
    def edit(record: Json) -> None:
        record[member] = f"{(int(record[member], 16) + 1) & M64:016x}"

    return edit


def _wrapping(name: str, title: str, direction: int) -> Draft:
    stream = small_stream(name, versions=1)
    before = stream.states[0]

    def carry(step: int) -> int:
        delta = copy.deepcopy(stream).delta(trained(before, step))["delta"]
        return (before.digest + int(delta["digest_after"], 16) - int(delta["digest_before"], 16)) >> 64

    found = next(step for step in range(1, 100) if carry(step) == direction)
    return good_next(
        AREA, name, title, ["CHN-4", "DIG-5"], stream=stream, grow=lambda s: s.delta(trained(before, found))
    )  # fmt: skip


def _another_stream(stream: Stream) -> None:
    stream.objects = small_stream("another-stream", versions=2).objects
