"""Fencing: what becomes of a producer that another one has taken the stream from (SPEC.md section 11.9)."""

from __future__ import annotations

from collections.abc import Iterator

from authoring.areas.lease import leased
from authoring.drafts import Draft, changed
from authoring.producing import LEASE, folder, next_states, producing, resting_stream, version
from authoring.states import State, trained
from authoring.stream import Stream
from deltawire_conformance.case import Case, Delete, Fault, Judge, Lease, Publish, Put

AREA = "fencing"
V1 = version(1)
DAY = 86_400_000


def drafts() -> Iterator[Draft]:
    """All cases."""
    yield from _while_publishing()
    yield from _while_holding()
    yield _late_but_first()
    yield _after_takeover()


def _taken(name: str, *, commits: bool, lease: bool = True) -> tuple[Stream, dict[str, bytes], State | None]:
    """What a later holder, with the epoch 6, has put into the stream while ours, with the epoch 5, was at work."""
    stream = resting_stream(name)
    before = dict(stream.objects)
    state = None
    if lease:
        stream.lease("trainer-9", epoch=6, ttl_ms=DAY)
    if commits:
        stream.epoch = 6
        state = trained(stream.states[0], 77)
        stream.delta(state)
        stream.head(1)
    return stream, changed(before, stream.objects), state


def _while_publishing() -> Iterator[Draft]:
    _, theirs, state = _taken("stalled", commits=True)
    assert state is not None
    yield producing(
        AREA,
        "stalled-writer",
        "a writer stalls in its commit, while another takes the stream over and commits the version",
        ["CMT-8", "LSE-9"],
        stream=resting_stream("stalled"),
        error="fenced",
        options={"ttl_ms": 60_000},
        faults=[Fault(method="PUT", key=V1, action="put", tree="theirs")],
        trees={"theirs": theirs},
        extra_states={"1": state},
        judged={"newest": 1, "unchanged": (V1, version(0), LEASE, "head.json")},
    )
    for name, title, commits in (
        ("lease-replaced", "the lease is replaced while the version is stored, for longer than the ttl", False),
        ("overtaken", "another takes the stream over and commits while the version is stored", True),
    ):
        _, theirs, state = _taken(name, commits=commits)
        yield producing(
            AREA,
            name,
            title,
            ["LSE-9", "LSE-10"],
            stream=resting_stream(name),
            error="fenced",
            options={"ttl_ms": 600},
            faults=[
                Fault(method="PUT", key=folder(1), action="put", tree="theirs"),
                Fault(method="PUT", key=folder(1), action="delay", seconds=1.5),
            ],
            trees={"theirs": theirs},
            extra_states={} if state is None else {"1": state},
            judged={
                "newest": int(commits),
                "unchanged": (LEASE, "versions/*", "head.json"),
                **({} if commits else {"absent": (V1,)}),
            },
        )
    _, theirs, _ = _taken("before-the-line", commits=False)
    yield producing(
        AREA,
        "above-the-line",
        "another takes the lease before its holder has put its epoch above that of the newest version",
        ["LSE-7", "LSE-3"],
        stream=resting_stream("before-the-line", lease=False),
        error="fenced",
        faults=[Fault(method="PUT", key=LEASE, action="put", tree="theirs", skip=1)],
        trees={"theirs": theirs},
        judged={"newest": 0, "unchanged": ("*",), "absent": (V1, folder(1))},
    )
    _, theirs, _ = _taken("between", commits=False)
    yield producing(
        AREA,
        "between-versions",
        "the lease is replaced after the first of two versions, for longer than the ttl",
        ["LSE-9", "LSE-10"],
        stream=resting_stream("between"),
        states=next_states(resting_stream("between"), 2),
        error="fenced",
        committed=1,
        options={"ttl_ms": 600},
        faults=[
            Fault(method="PUT", key=folder(2), action="put", tree="theirs"),
            Fault(method="PUT", key=folder(2), action="delay", seconds=1.5),
        ],
        trees={"theirs": theirs},
        judged={"unchanged": (LEASE,), "absent": (version(2),)},
    )


def _while_holding() -> Iterator[Draft]:
    _, theirs, _ = _taken("held", commits=False)
    draft = leased(
        "lease-taken",
        "the lease is replaced while it is held",
        ["LSE-9"],
        resting_stream("held"),
        Lease(holder="trainer-1", epoch=5, options={"ttl_ms": 600}, hold_ms=1500, meanwhile="theirs",
              error=("fenced",)),
        trees={"theirs": theirs},
        judged={"unchanged": (LEASE,)},
    )  # fmt: skip
    yield _here(draft)
    draft = leased(
        "lease-gone",
        "the lease is removed while it is held",
        ["LSE-9"],
        resting_stream("removed"),
        Lease(holder="trainer-1", epoch=5, options={"ttl_ms": 600}, hold_ms=1500, during=(Delete(keys=(LEASE,)),),
              error=("fenced",)),
        judged={"absent": (LEASE,)},
    )  # fmt: skip
    yield _here(draft)
    stream, theirs, _ = _taken("restarted", commits=False)
    draft = leased(
        "same-holder-name",
        "the lease is replaced by one with the name and the epoch of its holder",
        ["LSE-9", "LSE-3"],
        resting_stream("restarted"),
        Lease(holder="trainer-1", epoch=5, options={"ttl_ms": 600}, hold_ms=1500, meanwhile="theirs",
              error=("fenced",)),
        trees={"theirs": _lease_under(stream, "trainer-1", 5)},
        judged={"unchanged": (LEASE,)},
    )  # fmt: skip
    yield _here(draft)


def _here(draft: Draft) -> Draft:
    draft.area = AREA
    return draft


def _lease_under(stream: Stream, holder: str, epoch: int) -> dict[str, bytes]:
    stream.lease(holder, epoch=epoch, ttl_ms=DAY)
    return {LEASE: stream.objects[LEASE]}


def _late_but_first() -> Draft:
    """A stalled holder whose create is the first one: the version is as good as any."""
    _, theirs, _ = _taken("late", commits=False)
    stream = resting_stream("late")
    return producing(
        AREA,
        "late-but-first",
        "a writer stalls in its commit, another takes the lease, but has not committed anything yet",
        ["VSN-1", "CMT-6"],
        stream=stream,
        options={"ttl_ms": 60_000},
        faults=[Fault(method="PUT", key=V1, action="put", tree="theirs")],
        trees={"theirs": theirs},
        judged={"members": {V1: {"epoch": 5}}, "unchanged": (LEASE,)},
    )


def _after_takeover() -> Draft:
    """Two real producers: the later one publishes, the earlier one finds out."""
    stream = resting_stream("takeover")
    states = next_states(stream, 2)
    return Draft(
        AREA,
        "taken-over",
        negative=True,
        case=Case(
            title="another producer takes the stream over from a live holder and publishes",
            requirements=("LSE-4", "LSE-9", "LSE-5"),
            role="producer",
            features=("lease",),
            steps=(
                Put(),
                Lease(
                    holder="trainer-1",
                    epoch=5,
                    options={"ttl_ms": 900},
                    hold_ms=1200,
                    during=(Publish(versions=(1, 2), options={"take_over": True, "holder": "trainer-2"}),),
                    error=("fenced",),
                ),
                Judge(
                    newest=2,
                    states={"1": "1", "2": "2"},
                    members={
                        version(2): {"epoch": 6},
                        LEASE: {"holder": "trainer-2", "epoch": 6, "released": True},
                    },
                ),
            ),
        ),
        trees={"store": dict(stream.objects)},
        inputs={"input": states},
        states={str(number): state.neutral(number) for number, state in enumerate(states, 1)},
    )
