"""A declared single writer, in stores that arbitrate and in stores that do not (SPEC.md sections 5.9, 8.1 and 11.1)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from msgspec import structs

from authoring.areas import publishing
from authoring.areas.collecting import keeping
from authoring.drafts import Draft, changed, worked
from authoring.lines import line
from authoring.producing import LEASE, next_states, producing, refused_whole, version
from authoring.states import small_model, trained
from authoring.stream import Stream
from deltawire.format.keys import version_key
from deltawire_conformance.case import AnyStep, Case, Collect, Delete, Fork, Judge, Publish, Put, Rollback

AREA = "single-writer"
DECLARED = {"single_writer": True}
TWINS = (
    "dtypes", "shapes", "aliases", "nothing-changed", "bits-not-numbers", "table-changes", "files", "reopened",
    "absolute", "signed",
)  # fmt: skip
"""Cases of the area publishing that are done by a single writer too."""


def drafts() -> Iterator[Draft]:
    """All cases."""
    by_name = {draft.name: draft for draft in publishing.drafts()}
    yield from (_twin(by_name[name]) for name in TWINS)
    yield from _continued()
    yield from _met()
    yield from _undeclared()


def _twin(draft: Draft) -> Draft:
    case = draft.case
    requirements = (*case.requirements, *({"STR-3", "LSE-1"} - {*case.requirements}))
    return replace(
        draft,
        area=AREA,
        case=structs.replace(case, steps=tuple(map(_declared, case.steps)), requirements=tuple(sorted(requirements))),
    )


def _declared(step: AnyStep) -> AnyStep:
    if isinstance(step, Publish):
        return structs.replace(step, options={**step.options, **DECLARED})
    assert isinstance(step, Judge)
    stream = {"writers": "single", **step.members.get("stream.json", {})}
    lacking = {key: names for key, names in step.lacking.items() if key != LEASE}
    return structs.replace(
        step,
        members={**step.members, "stream.json": stream},
        lacking=lacking,
        absent=(*step.absent, LEASE),
    )


def _stream(name: str, *, versions: int = 1, writers: str = "single") -> Stream:
    stream = Stream(f"single {name}")
    stream.create(writers=writers)
    stream.epoch = 3
    state = small_model()
    stream.rebase(state)
    for step in range(1, versions):
        state = trained(state, step)
        stream.delta(state)
    stream.head(versions - 1)
    return stream


def _continued() -> Iterator[Draft]:
    stream = _stream("taken-up", versions=3)
    yield producing(
        AREA,
        "taken-up",
        "a stream that another implementation has left is taken up",
        ["OPN-4", "CHN-1", "CHN-2", "REC-6", "LSE-1"],
        stream=stream,
        states=next_states(stream, 2),
        options=DECLARED,
        judged={
            "members": {version(3): {"epoch": 3, "parent": {"digest": stream.digest(2)}}, version(4): {"epoch": 3}},
            "unchanged": ("stream.json", "versions/*", "data/*"),
            "absent": (LEASE,),
        },
    )
    stream = _stream("head-ahead", versions=2)
    stream.head(7)
    yield producing(
        AREA,
        "head-ahead",
        "the head names a version that does not exist",
        ["HED-2", "HED-3", "OPN-4"],
        stream=stream,
        options=DECLARED,
        judged={"unchanged": ("versions/*",), "members": {"head.json": {"version": 2}}},
    )
    stream = _stream("rolled-back", versions=3)
    yield worked(
        AREA,
        "rolled-back",
        "an earlier version comes back",
        ["RBK-1", "LSE-1"],
        stream,
        Rollback(version=1, expect_version=3, options=DECLARED),
        role="producer",
        features=("rollback",),
        states=[2],
        expected={"3": stream.states[1].neutral(3)},
        judged={
            "newest": 3,
            "members": {version(3): {"rollback_of": {"version": 1, "digest": stream.digest(1)}}},
            "unchanged": ("stream.json", "versions/*", "data/*"),
            "absent": (LEASE,),
        },
    )
    source = line(name="single source", versions=3, anchors=[])
    yield worked(
        AREA,
        "forked",
        "a stream of many writers is forked for a single one, who goes on",
        ["FRK-1", "STR-3", "LSE-1"],
        Stream("nowhere"),
        Fork(version=2, options=DECLARED),
        Publish(versions=(1,), options=DECLARED),
        role="producer",
        features=("fork",),
        source=source,
        inputs={"input": [trained(source.states[2], 60)]},
        expected={"0": source.states[2].neutral(0), "1": trained(source.states[2], 60).neutral(1)},
        judged={"newest": 1, "members": {"stream.json": {"writers": "single"}}, "absent": (LEASE,)},
    )


def _met() -> Iterator[Draft]:
    """Somebody else writes all the same, while ours waits."""
    stream = _stream("another-first")
    before = dict(stream.objects)
    theirs = trained(stream.states[0], 77)
    stream.delta(theirs)
    yield _interrupted(
        "another-first",
        "another writer commits the next version of a stream that is open already",
        ["CMT-8", "OPN-5"],
        before,
        [Put(tree="theirs")],
        after=0,
        trees={"theirs": changed(before, stream.objects)},
        expected={"1": theirs.neutral(1), "2": trained(theirs, 60).neutral(2)},
        again=True,
        inputs={"input": [trained(stream.states[0], 50)], "again": [trained(theirs, 60)]},
        judged={"newest": 2, "unchanged": ("versions/*", "data/*", "stream.json")},
    )
    stream = _stream("parent-replaced")
    before = dict(stream.objects)
    theirs = trained(stream.states[0], 77)
    stream.delta(theirs)
    first, second = next_states(_stream("parent-replaced"), 2)
    yield _interrupted(
        "parent-replaced",
        "another writer replaces a version between its commit and that of the next one",
        ["CMT-12", "OPN-5", "STO-28"],
        before,
        [Put(tree="theirs")],
        after=1,
        trees={"theirs": changed(before, stream.objects)},
        expected={"1": theirs.neutral(1), "2": trained(theirs, 60).neutral(2)},
        again=True,
        inputs={"input": [first, second], "again": [trained(theirs, 60)]},
        judged={"newest": 2, "unchanged": ("versions/*", "data/*", "stream.json")},
        arbitration="lacking",
    )
    stream = _stream("parent-gone")
    yield _interrupted(
        "parent-gone",
        "a version is gone when the next one is to be committed",
        ["CMT-12"],
        dict(stream.objects),
        [Delete(keys=(version(1),))],
        after=1,
        inputs={"input": [first, second]},
        judged={"newest": 0, "unchanged": ("versions/*", "data/*", "stream.json")},
        arbitration="lacking",
    )


def _interrupted(
    name: str, title: str, requirements: Sequence[str], before: dict[str, bytes], meanwhile: Sequence[Put | Delete], *,
    after: int, judged: dict[str, Any], inputs: dict[str, Any], trees: dict[str, Any] | None = None,
    expected: dict[str, Any] | None = None, again: bool = False, **more: Any,
) -> Draft:  # fmt: skip
    """A producer that waits after so many versions, and must refuse to go on; then another one may."""
    steps: list[AnyStep] = [
        Put(),
        Publish(
            options={**DECLARED, "pause_after": after},
            paused=tuple(meanwhile),
            versions=tuple(range(1, after + 1)),
            error=("conflict",),
        ),
    ]
    if again:
        steps.append(Publish(input="again", options=DECLARED, versions=(2,)))
    states = {} if expected is None else expected
    steps.append(Judge(states={number: number for number in states}, **judged))
    return Draft(
        AREA,
        name,
        negative=True,
        case=Case(
            title=title,
            requirements=tuple(requirements),
            role="producer",
            features=("pause",),
            steps=tuple(steps),
            **more,
        ),
        trees={"store": before, **(trees or {})},
        states=states,
        inputs=inputs,
    )


def _undeclared() -> Iterator[Draft]:
    """Nobody has said that there is one writer, or the stream is for many: refused where the store cannot arbitrate."""
    yield producing(
        AREA,
        "not-declared",
        "an empty store that cannot arbitrate, and nobody said that there is a single writer",
        ["OPN-1", "STO-28", "STO-11"],
        error="store_unfit",
        judged={"absent": ("*",)},
        arbitration="lacking",
    )
    stream = _stream("kept")
    yield producing(
        AREA,
        "not-declared-again",
        "a stream of a single writer in a store that cannot arbitrate, and nobody said so anew",
        ["OPN-1"],
        stream=stream,
        error="store_unfit",
        judged=refused_whole(stream) | {"added": ()},
        arbitration="lacking",
    )
    stream = _stream("of-many", writers="many")
    yield producing(
        AREA,
        "stream-of-many",
        "a single writer, and a stream of many in a store that cannot arbitrate",
        ["STR-3", "OPN-3"],
        stream=stream,
        options=DECLARED,
        error="store_unfit",
        judged=refused_whole(stream) | {"added": ()},
        arbitration="lacking",
    )
    single, many = _stream("rolled back", versions=3), line(name="single refused", versions=3, anchors=[2])
    for name, title, requirements, stream, call, more in (
        (
            "rollback-not-declared",
            "a rollback in a store that cannot arbitrate, without a word on writers",
            ["OPN-1"],
            single,
            Rollback(version=1, error=("store_unfit",)),
            {"role": "producer", "features": ("rollback",)},
        ),
        (
            "collect-not-declared",
            "collecting in a store that cannot swap, without a word on maintainers",
            ["RET-5"],
            many,
            Collect(options={"keep_last": 1}, error=("store_unfit",)),
            {"features": ("collect",)},
        ),
    ):
        yield worked(
            AREA, name, title, requirements, stream, call,
            negative=True, judged={"unchanged": ("*",), "added": ()}, arbitration="lacking", **more,
        )  # fmt: skip
    yield worked(
        AREA,
        "fork-not-declared",
        "a fork into a store that cannot arbitrate, without a word on writers",
        ["OPN-1"],
        Stream("nowhere"),
        Fork(version=2, error=("store_unfit",)),
        role="producer",
        features=("fork",),
        negative=True,
        source=many,
        judged={"absent": ("*",)},
        arbitration="lacking",
    )
    moved = line(name="single boundary", versions=3, anchors=[2])
    moved.retention(0)
    yield worked(
        AREA,
        "boundary-overwritten",
        "the only maintainer moves a boundary in a store that cannot swap",
        ["RET-5", "COL-3"],
        moved,
        Collect(options=keeping(1), boundary=2),
        features=("collect",),
        states=[2],
        judged={
            "members": {"retention.json": {"boundary": 2}},
            "absent": (version_key(0), version_key(1)),
            "unchanged": ("stream.json", version_key(2)),
        },
        arbitration="lacking",
    )
