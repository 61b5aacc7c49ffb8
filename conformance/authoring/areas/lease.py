"""The writer lease: acquiring, keeping and releasing it (SPEC.md sections 8.10 and 11.9)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from authoring.drafts import Draft, Tree
from authoring.producing import LEASE, next_states, producing, resting_stream
from authoring.stream import Json, Stream
from deltawire_conformance.case import AnyStep, Calm, Case, Fault, Judge, Lease, Publish, Put, Requests

AREA = "lease"
DAY = 86_400_000
RULES = ("conditional_records", "new_commit_ids", "no_deletes")


def drafts() -> Iterator[Draft]:
    """All cases."""
    yield from _free()
    yield from _taken()
    yield from _kept()
    yield from _refused()
    yield from _held()


def leased(
    name: str, title: str, requirements: Sequence[str], stream: Stream, call: Lease, *,
    faults: Sequence[Fault] = (), trees: Mapping[str, Tree] | None = None, judged: Json | None = None,
    rules: Sequence[str] = (), before: Sequence[AnyStep] = (), store: Tree | None = None, **more: Any,
) -> Draft:  # fmt: skip
    """A case of the call ``lease``."""
    steps: list[AnyStep] = [Put(), *before, call]
    if faults:
        steps.append(Calm())
    steps.append(Judge(newest=len(stream.states) - 1 if stream.states else None, **(judged or {})))
    if rules:
        steps.append(Requests(rules=tuple(rules)))
    if rules or faults:
        more.setdefault("stores", ("simulator",))
    return Draft(
        AREA,
        name,
        negative=bool(call.error),
        case=Case(
            title=title,
            requirements=tuple(requirements),
            role="producer",
            features=("lease",),
            faults=tuple(faults),
            steps=tuple(steps),
            **more,
        ),
        trees={"store": dict(stream.objects) if store is None else store, **(trees or {})},
    )


def _ends(epoch: int | None = None, **members: Any) -> Json:
    """For the judge: the lease was released."""
    known = {} if epoch is None else {"epoch": epoch}
    return {"members": {LEASE: {"released": True, **known, **members}}}


def _free() -> Iterator[Draft]:
    """There is no lease, or one that was given up."""
    yield leased(
        "first",
        "the first lease of a stream without versions",
        ["LSE-4", "LSE-5", "LSE-11"],
        resting_stream("first", versions=0, lease=False),
        Lease(holder="trainer-1", epoch=0, held={"holder": "trainer-1", "epoch": 0, "released": False, "ttl_ms": 5000},
              options={"ttl_ms": 5000}),
        judged=_ends(0, holder="trainer-1"),
    )  # fmt: skip
    yield leased(
        "released",
        "a lease that was released, with a ttl of a day",
        ["LSE-4", "LSE-5"],
        _with_lease("released", released=True, ttl_ms=DAY),
        Lease(holder="trainer-1", epoch=5, held={"holder": "trainer-1", "epoch": 5, "released": False}),
        judged=_ends(5),
    )
    yield leased(
        "above-the-line",
        "there is no lease, and the newest version has the epoch 4",
        ["LSE-7"],
        resting_stream("above", versions=2, lease=False),
        Lease(holder="trainer-1", above=4),
        judged=_ends(),
    )
    yield leased(
        "above-the-line-with-lease",
        "a released lease of a lower epoch than the newest version",
        ["LSE-7"],
        _with_lease("above-lease", epoch=2, released=True),
        Lease(holder="trainer-1", above=4),
        judged=_ends(),
    )
    yield leased(
        "members-kept",
        "the lease has members that nobody knows",
        ["VER-5"],
        _with_lease("members", released=True, edit=lambda record: record.update(x_note={"kept": [1, None]})),
        Lease(holder="trainer-1", epoch=5, held={"x_note": {"kept": [1, None]}}),
        judged=_ends(5, x_note={"kept": [1, None]}),
    )
    yield leased(
        "twice",
        "the lease is acquired and released twice",
        ["LSE-5", "LSE-11"],
        resting_stream("twice"),
        Lease(holder="trainer-2", epoch=6),
        before=[Lease(holder="trainer-1", epoch=5)],
        judged=_ends(6, holder="trainer-2"),
    )


def _taken() -> Iterator[Draft]:
    """The holder is gone, or the operator says so."""
    yield leased(
        "holder-gone",
        "the lease of a holder that shows no sign of life for its ttl",
        ["LSE-6", "LSE-5"],
        _with_lease("gone", ttl_ms=700),
        Lease(holder="trainer-1", epoch=5),
        judged=_ends(5),
    )
    yield leased(
        "taken-over",
        "the lease of a holder with a ttl of a day is taken over at the operator's word",
        ["LSE-4", "LSE-5"],
        _with_lease("over", ttl_ms=DAY),
        Lease(holder="trainer-1", epoch=5, options={"take_over": True}),
        judged=_ends(5),
    )
    yield leased(
        "clock-of-the-future",
        "a holder that is gone, whose times are far in the future",
        ["LSE-6", "REC-5"],
        _with_lease(
            "future",
            ttl_ms=700,
            edit=lambda r: r.update(created_at="2099-01-01T00:00:00Z", acquired_at="2099-01-01T00:00:00Z"),
        ),
        Lease(holder="trainer-1", epoch=5),
        judged=_ends(5),
    )
    yield leased(
        "released-meanwhile",
        "the holder releases the lease while it is observed",
        ["LSE-6", "LSE-5"],
        _with_lease("meanwhile", ttl_ms=6000),
        Lease(holder="trainer-1", epoch=5),
        faults=[Fault(method="GET", key=LEASE, action="put", skip=1, tree="released")],
        trees={"released": _lease_of("meanwhile", released=True, number=1)},
        judged=_ends(5),
    )


def _kept() -> Iterator[Draft]:
    """What the simulator sees of a lease that is held."""
    yield leased(
        "every-write",
        "every write of the lease has its condition and a commit_id of its own",
        ["LSE-3", "STO-17"],
        resting_stream("writes"),
        Lease(holder="trainer-1", epoch=5, hold_ms=1500, options={"ttl_ms": 1000}),
        rules=RULES,
        judged=_ends(5),
    )
    yield leased(
        "renewed",
        "the lease is written again at least three times within its ttl",
        ["LSE-8"],
        resting_stream("renewed"),
        Lease(holder="trainer-1", epoch=5, hold_ms=1800, options={"ttl_ms": 1200}),
        rules=["renewals"],
        level="should",
        judged=_ends(5),
    )
    yield leased(
        "lost-answers",
        "answers to writes of the lease are lost",
        ["LSE-3"],
        resting_stream("lost"),
        Lease(holder="trainer-1", epoch=5, hold_ms=1500, options={"ttl_ms": 1500}),
        faults=[Fault(method="PUT", key=LEASE, action="lose_answer"),
                Fault(method="PUT", key=LEASE, action="do_and_refuse", status=500, skip=2)],
        rules=RULES,
        judged=_ends(5),
    )  # fmt: skip
    yield leased(
        "failing-store",
        "the store takes no renewal for a while, and then it does",
        ["LSE-9", "LSE-3"],
        resting_stream("failing"),
        Lease(holder="trainer-1", epoch=5, hold_ms=3000, options={"ttl_ms": 1500}),
        faults=[Fault(method="PUT", key=LEASE, action="refuse", status=403, skip=1, times=2)],
        judged=_ends(5),
    )


def _refused() -> Iterator[Draft]:
    """A lease that nobody may replace: not even at the operator's word to take over."""
    for name, title, code, requirements, edit in (
        ("other-stream", "a lease of another stream", "wrong_stream", ["LSE-2"],
         lambda r: r.update(stream_id="11111111-1111-4111-8111-111111111111")),
        ("reader-feature", "a lease with a reader feature that nobody knows", "unsupported_feature", ["LSE-2", "REC-2"],
         lambda r: r.update(reader_features=["x-dev"], writer_features=["x-dev"])),
        ("other-major", "a lease of another major version of the protocol", "unsupported_protocol", ["LSE-2", "VER-1"],
         lambda r: r.update(protocol_version="9.0")),
        ("no-ttl", "a lease with a ttl of 0", "malformed_record", ["LSE-2"], lambda r: r.update(ttl_ms=0)),
        ("no-holder", "a lease without a holder", "malformed_record", ["LSE-2"], lambda r: r.pop("holder")),
    ):  # fmt: skip
        for take_over in (False, True) if name == "other-stream" else (True,):
            yield leased(
                f"{name}-kept" if name == "other-stream" and take_over else name,
                f"{title}, to be taken over" if take_over else f"{title}, which was released",
                requirements,
                _with_lease(name, released=not take_over, edit=edit),
                Lease(holder="trainer-1", error=(code,), options={"take_over": True} if take_over else {}),
                judged={"unchanged": ("*",)},
            )
    yield leased(
        "unreadable",
        "a lease that is no JSON, to be taken over",
        ["LSE-2", "REC-2"],
        _with_lease("unreadable", raw=lambda data: data[:-1]),
        Lease(holder="trainer-1", error=("malformed_record",), options={"take_over": True}),
        judged={"unchanged": ("*",)},
    )


def _held() -> Iterator[Draft]:
    """The holder is alive."""
    renewed = [
        Fault(method="GET", key=LEASE, action="put", skip=1, tree="renewed-1"),
        Fault(method="GET", key=LEASE, action="put", skip=3, tree="renewed-2"),
    ]
    trees = {f"renewed-{number}": _lease_of("alive", ttl_ms=3000, number=number) for number in (1, 2)}
    yield leased(
        "alive",
        "the holder renews its lease while it is observed",
        ["LSE-6"],
        _with_lease("alive", ttl_ms=3000),
        Lease(holder="trainer-1", error=("lease_held",)),
        faults=renewed,
        trees=trees,
        judged={"members": {LEASE: {"holder": "trainer-0", "epoch": 4, "released": False}}},
    )
    yield producing(
        AREA,
        "alive-publish",
        "a producer opens a stream whose holder renews its lease",
        ["OPN-7", "LSE-1", "LSE-6"],
        stream=_with_lease("alive", ttl_ms=3000),
        error="lease_held",
        faults=renewed,
        trees=trees,
        judged={
            "members": {LEASE: {"holder": "trainer-0", "epoch": 4, "released": False}},
            "unchanged": ("versions/*", "data/*", "head.json"),
            "absent": ("data/00000000000000000001-*",),
        },
    )
    stream = resting_stream("two")
    yield Draft(
        AREA,
        "second-holder",
        negative=False,
        case=Case(
            title="while one producer holds the lease and renews it, another one is refused",
            requirements=("LSE-6", "LSE-8", "OPN-7"),
            role="producer",
            features=("lease",),
            steps=(
                Put(),
                Lease(
                    holder="trainer-1",
                    epoch=5,
                    options={"ttl_ms": 6000},
                    during=(Publish(error=("lease_held",)),),
                ),
                Publish(versions=(1,)),
                Judge(newest=1, states={"1": "1"}, members={LEASE: {"epoch": 6, "released": True}}),
            ),
        ),
        trees={"store": dict(stream.objects)},
        inputs={"input": next_states(stream)},
        states={"1": next_states(stream)[0].neutral(1)},
    )


def _with_lease(name: str, *, epoch: int = 4, edit: Callable[[Json], object] = lambda _: None, **lease: Any) -> Stream:
    stream = resting_stream(name, lease=False)
    stream.lease(epoch=epoch, edit=edit, **lease)
    return stream


def _lease_of(name: str, *, number: int, **lease: Any) -> dict[str, bytes]:
    """The lease of a stream as it is written again."""
    stream = _with_lease(name, **lease)
    for _ in range(number):
        stream.lease(**lease)
    return {LEASE: stream.objects[LEASE]}
