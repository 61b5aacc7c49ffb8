"""Committing: lost answers, refusals, others that come first (SPEC.md sections 5.4, 11.1 and 11.2)."""

from __future__ import annotations

from collections.abc import Iterator

from authoring.drafts import Draft, changed
from authoring.producing import FOREVER, LEASE, SOUND, folder, next_states, producing, resting_stream, version
from authoring.states import State, trained
from authoring.stream import Stream
from deltawire_conformance.case import Fault, Judge, Publish

AREA = "commit"
V1 = version(1)
RELEASED = {LEASE: {"released": True, "epoch": 5}}


def drafts() -> Iterator[Draft]:
    """All cases."""
    yield from _answers()
    yield from _beside()
    yield from _lost_races()
    yield from _unknown()
    yield from _denied()
    yield from _beyond()


def _put(action: str, key: str = V1, **more: object) -> Fault:
    return Fault(method="PUT", key=key, action=action, **more)  # type: ignore[arg-type]


def _answers() -> Iterator[Draft]:
    """The commit goes wrong on its way, and takes place once."""
    for name, title, requirements, fault in (
        (
            "lost-answer",
            "the version is created, and the answer is lost",
            ["CMT-4", "CMT-3", "CMT-6", "REC-4", "STO-20"],
            _put("lose_answer"),
        ),
        ("lost-request", "the request that creates the version is lost", ["CMT-6", "STO-20"], _put("lose_request")),
        (
            "lost-answers",
            "the answers to two attempts at creating the version are lost",
            ["CMT-5", "STO-19"],
            _put("lose_answer", times=2),
        ),
        (
            "written-though-500",
            "the version is created, and the answer is 500",
            ["CMT-4", "STO-20"],
            _put("do_and_refuse", status=500),
        ),
        (
            "conflict-409",
            "creating the version is answered with 409 twice, then done",
            ["STO-18", "CMT-6"],
            _put("refuse", status=409, times=2),
        ),
        (
            "written-though-409",
            "the version is created, and the answer is 409",
            ["STO-18", "CMT-4"],
            _put("do_and_refuse", status=409),
        ),
        (
            "busy-503",
            "creating the version is answered with 503 twice, then done",
            ["STO-21"],
            _put("refuse", times=2),
        ),
        ("busy-429", "creating the version is answered with 429, then done", ["STO-21"], _put("refuse", status=429)),
    ):
        yield producing(
            AREA,
            name,
            title,
            requirements,
            stream=resting_stream(name),
            faults=[fault],
            judged={"members": RELEASED, "unchanged": (version(0), folder(0), "stream.json")},
            rules=[*SOUND, "read_back", "boundary_after_commit"],
        )


def _beside() -> Iterator[Draft]:
    """What goes wrong is not the commit of the version."""
    yield producing(
        AREA,
        "lost-answer-stream",
        "stream.json is created, and the answer is lost",
        ["OPN-2", "CMT-4"],
        faults=[_put("lose_answer", "stream.json")],
        rules=[*SOUND, "read_back"],
    )
    winner = Stream("winner")
    winner.create()
    yield producing(
        AREA,
        "stream-of-another",
        "another producer creates stream.json first",
        ["OPN-2", "CMT-8", "STR-2"],
        faults=[_put("put", "stream.json", tree="winner")],
        trees={"winner": winner.objects},
        judged={
            "unchanged": ("stream.json",),
            "members": {version(0): {"stream_id": winner.stream_id}, LEASE: {"stream_id": winner.stream_id}},
        },
    )
    yield producing(
        AREA,
        "parts-go-wrong",
        "storing parts is answered with 503, and an answer to it is lost",
        ["CMT-1", "STO-21"],
        stream=resting_stream("parts"),
        states=next_states(resting_stream("parts"), 2),
        faults=[_put("refuse", folder(1)), _put("lose_answer", folder(2))],
    )
    yield producing(
        AREA,
        "head-denied",
        "the head cannot be written",
        ["HED-3", "VSN-1"],
        stream=resting_stream("headless"),
        states=next_states(resting_stream("headless"), 2),
        faults=[_put("refuse", "head.json", status=403, times=FOREVER)],
        judged={"unchanged": ("head.json",)},
    )
    yield producing(
        AREA,
        "order",
        "three versions, request by request",
        ["CMT-1", "CMT-2", "CMT-11", "DSC-1", "KEY-7", "LSE-1", "STO-10", "STO-17"],
        states=next_states(None, 3),
        rules=[*SOUND, "boundary_after_commit", "lease_first"],
    )
    yield producing(
        AREA,
        "line-after-lease",
        "a stream is taken up, request by request",
        ["OPN-7", "LSE-1", "LSE-7"],
        stream=resting_stream("line-after-lease", versions=2),
        rules=[*SOUND, "lease_first", "line_after_lease"],
    )
    yield producing(
        AREA,
        "head-follows",
        "each commit is followed by a head that names it",
        ["HED-3", "PUB-9"],
        states=next_states(None, 2),
        level="should",
        judged={"members": {"head.json": {"version": 1}}},
        rules=["head_after_commit"],
    )
    stream = resting_stream("head-members")
    stream.head(0, edit=lambda record: record.update(x_note={"kept": [1, 2]}))
    yield producing(
        AREA,
        "head-keeps-members",
        "the head has a member that nobody knows, and is overwritten",
        ["VER-5", "HED-3"],
        stream=stream,
        judged={"members": {"head.json": {"x_note": {"kept": [1, 2]}}}},
    )


def _others(name: str, epoch: int) -> tuple[Stream, dict[str, bytes], dict[str, bytes], State]:
    """A stream, what is there at first, what another producer adds, and the state that this is."""
    stream = resting_stream(name)
    before = dict(stream.objects)
    stream.epoch = epoch
    state = trained(stream.states[0], 77)
    stream.delta(state)
    return stream, before, changed(before, stream.objects), state


def _lost_races() -> Iterator[Draft]:
    """Another one's version is there first. Ours has the epoch 5."""
    for name, title, epoch, error in (
        ("late-writer", "the producer before commits a version late, in its lower epoch", 4, "conflict"),
        ("same-epoch", "another producer commits the version first, in the same epoch", 5, "conflict"),
        ("higher-epoch", "another producer commits the version first, in a higher epoch", 6, "fenced"),
    ):
        _, before, theirs, state = _others(name, epoch)
        yield producing(
            AREA,
            name,
            title,
            ["CMT-8", "CMT-5", *(["LSE-12"] if epoch == 4 else [])],
            stream=resting_stream(name),
            store=before,
            error=error,
            faults=[_put("put", tree="theirs")],
            trees={"theirs": theirs},
            extra_states={"1": state},
            judged={
                "newest": 1,
                "unchanged": (V1, version(0), "data/*", "head.json"),
                "members": {LEASE: {"released": True}},
            },
        )
    _, before, theirs, _ = _others("garbled", 5)
    yield producing(
        AREA,
        "unreadable-winner",
        "what another writer created first under the version's key cannot be read",
        ["CMT-8", "CMT-6"],
        stream=resting_stream("garbled"),
        store=before,
        error="conflict",
        faults=[_put("put", tree="theirs")],
        trees={"theirs": {V1: b'{"protocol":"deltawire"'}},
        judged={"newest": 1, "unchanged": ("versions/*", "head.json"), "findings": ("malformed_record",)},
    )
    _, before, theirs, state = _others("both", 6)
    yield producing(
        AREA,
        "lost-twice",
        "another producer comes first, and the answer that says so is lost",
        ["CMT-6", "CMT-8", "STO-20"],
        stream=resting_stream("both"),
        store=before,
        error="fenced",
        faults=[_put("put", tree="theirs"), _put("lose_answer")],
        trees={"theirs": theirs},
        extra_states={"1": state},
        judged={"newest": 1, "unchanged": (V1, "head.json")},
    )


def _unknown() -> Iterator[Draft]:
    """Nobody knows what became of the commit."""
    stream = resting_stream("unknown")
    state = next_states(stream)[0]
    again = trained(state, 60)
    draft = producing(
        AREA,
        "outcome-unknown",
        "the version is created, the answer is lost, and the record cannot be read back",
        ["CMT-6", "CMT-9", "STO-20"],
        stream=stream,
        error="outcome_unknown",
        faults=[
            _put("lose_answer", times=2),
            Fault(method="GET", key=V1, action="refuse", status=403, times=FOREVER, after=V1),
            Fault(method="HEAD", key=V1, action="refuse", status=403, times=FOREVER, after=V1),
        ],
        extra_states={"1": state},
        judged={"newest": 1, "unchanged": ("head.json", version(0)), "members": RELEASED},
        after=[Publish(input="again", versions=(2,)), Judge(newest=2, states={"1": "1", "2": "2"})],
    )
    draft.inputs["again"] = [again]
    draft.states["2"] = again.neutral(2)
    yield draft
    yield producing(
        AREA,
        "denied-after-503",
        "creating the version is answered with 503 once, then denied for ever",
        ["CMT-4", "CMT-6", "STO-20"],
        stream=resting_stream("denied-later"),
        error="outcome_unknown",
        faults=[_put("refuse"), _put("refuse", status=403, skip=1, times=FOREVER)],
        judged={"newest": 0, "absent": (V1,), "unchanged": ("head.json", version(0)), "members": RELEASED},
        note="The attempt that was answered with 503 may have arrived: only a definite refusal says that it has not.",
    )
    yield producing(
        AREA,
        "boundary-unreadable",
        "the version is created, and retention.json cannot be read",
        ["CMT-11"],
        stream=resting_stream("boundary-denied"),
        error="outcome_unknown",
        faults=[
            Fault(method="GET", key="retention.json", action="refuse", status=403, times=FOREVER, after=V1),
        ],
        extra_states={"1": next_states(resting_stream("boundary-denied"))[0]},
        judged={"newest": 1, "unchanged": ("head.json",)},
    )


def _denied() -> Iterator[Draft]:
    """A definite refusal: nothing is committed, and it has its own code."""
    for name, title, requirements, fault, error in (
        (
            "parts-denied",
            "the store denies to take what the version consists of",
            ["CMT-1", "PUB-4", "STO-21"],
            _put("refuse", folder(1), status=403, times=FOREVER),
            "store_denied",
        ),
        (
            "parts-unavailable",
            "the store never takes what the version consists of",
            ["CMT-1", "PUB-4", "STO-21"],
            _put("refuse", folder(1), times=FOREVER),
            "store_unavailable",
        ),
        (
            "version-denied",
            "the store denies to create the version",
            ["STO-21", "CMT-6"],
            _put("refuse", status=403, times=FOREVER),
            "store_denied",
        ),
        (
            "no-conditions",
            "the store says that it has no conditional writes when the version is created",
            ["STO-21", "STO-11"],
            _put("refuse", status=501, times=FOREVER),
            "store_unfit",
        ),
    ):
        yield producing(
            AREA,
            name,
            title,
            requirements,
            stream=resting_stream(name),
            error=error,
            faults=[fault],
            judged={"absent": (V1,), "unchanged": ("head.json", version(0), folder(0), "stream.json")},
        )
    yield producing(
        AREA,
        "renewal-denied",
        "the ttl passes while the version is stored, and the lease cannot be written before the commit",
        ["LSE-10"],
        stream=resting_stream("stale"),
        error="store_denied",
        options={"ttl_ms": 500},
        faults=[
            _put("delay", folder(1), seconds=1.2),
            _put("refuse", LEASE, status=403, times=FOREVER, after=folder(1)),
        ],
        judged={"absent": (V1,), "unchanged": ("head.json", version(0))},
    )
    yield producing(
        AREA,
        "ignored-conditions",
        "an empty store that takes conditional creates and ignores the condition",
        ["OPN-6"],
        error="store_unfit",
        level="should",
        faults=[_put("ignore_condition", "*", times=FOREVER)],
        judged={"absent": ("*",)},
        rules=[],
    )


def _beyond() -> Iterator[Draft]:
    """The boundary passes the version while it is committed."""
    for name, title, collected in (
        ("beyond-boundary", "the version is created where one had been that was collected", True),
        ("beyond-boundary-lost", "another's version is there, and the boundary has passed it", False),
    ):
        stream, before, _, _ = _others(name, 5)
        state = trained(stream.states[1], 78)
        stream.rebase(state)
        stream.retention(2)
        theirs = changed(before, stream.objects)
        if collected:
            theirs = {key: data for key, data in theirs.items() if key != V1 and not key.startswith(folder(1)[:-1])}
        yield producing(
            AREA,
            name,
            title,
            ["CMT-11", "OPN-5"],
            stream=resting_stream(name),
            store=before,
            error="fenced",
            faults=[_put("put", tree="theirs")],
            trees={"theirs": theirs},
            extra_states={"2": state},
            judged={"newest": 2, "unchanged": (version(2), folder(2), "retention.json", "head.json")},
        )
    stream = resting_stream("garbled-boundary")
    yield producing(
        AREA,
        "boundary-of-another",
        "retention.json is of another stream when the version has been created",
        ["CMT-11", "RET-4"],
        stream=stream,
        error="outcome_unknown",
        faults=[_put("put", tree="theirs")],
        trees={"theirs": _foreign_boundary()},
        judged={"newest": 1, "unchanged": ("retention.json", "head.json"), "findings": ("wrong_stream",)},
    )


def _foreign_boundary() -> dict[str, bytes]:
    other = Stream("foreign")
    other.retention(0)
    return {"retention.json": other.objects["retention.json"]}
