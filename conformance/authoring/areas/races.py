"""Races: several producers at once (SPEC.md sections 11.1 and 11.9)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from authoring.drafts import Draft
from authoring.producing import LEASE, resting_stream, version
from authoring.states import State, small_model, trained
from authoring.stream import Stream
from deltawire_conformance.case import AnyStep, Case, Judge, Lease, Publish, Put, Race

AREA = "races"
LOST = ("lease_held", "conflict", "fenced")
"""What may become of a producer that meets another one."""


def drafts() -> Iterator[Draft]:
    """All cases."""
    yield _race(
        "empty-store",
        "three producers open an empty store at the same time",
        ["OPN-2", "LSE-3", "CMT-8"],
        None,
        [_publish(number, ttl_ms=4000) for number in range(3)],
        done=(1, 3),
    )
    yield _race(
        "existing-stream",
        "three producers open a stream at the same time",
        ["LSE-3", "LSE-5", "CMT-8", "OPN-7"],
        resting_stream("existing"),
        [_publish(number, ttl_ms=4000) for number in range(3)],
        done=(1, 3),
    )
    yield _race(
        "take-over",
        "two producers take the stream from each other while both publish",
        ["LSE-4", "LSE-9", "CMT-8"],
        resting_stream("both-take-over"),
        [_publish(number, ttl_ms=4000, take_over=True) for number in range(2)],
        done=(1, 2),
    )
    stream = resting_stream("gone-holder", lease=False)
    stream.lease("trainer-9", epoch=4, ttl_ms=700)
    yield _race(
        "gone-holder",
        "two producers observe the same holder, which is gone",
        ["LSE-6", "LSE-3"],
        stream,
        [_publish(number, ttl_ms=4000) for number in range(2)],
        done=(1, 2),
    )
    yield _race(
        "two-holders",
        "two producers want the lease at the same time",
        ["LSE-3", "LSE-5", "LSE-6"],
        resting_stream("holders"),
        [Lease(holder=f"trainer-{n}", options={"ttl_ms": 4000}, hold_ms=300, error=LOST) for n in (1, 2)],
        done=(1, 2),
        newest=0,
        features=("lease",),
    )
    yield _race(
        "publish-and-lease",
        "one producer publishes while another one wants the lease",
        ["LSE-3", "LSE-6", "OPN-7"],
        resting_stream("both"),
        [
            _publish(0, ttl_ms=4000),
            Lease(holder="trainer-2", options={"ttl_ms": 4000}, hold_ms=100, error=LOST),
        ],
        done=(1, 2),
        features=("lease",),
    )


def _publish(number: int, **options: object) -> Publish:
    return Publish(input=f"input-{number}", options={"holder": f"trainer-{number}", **options}, error=LOST)


def _race(
    name: str, title: str, requirements: Sequence[str], stream: Stream | None, calls: Sequence[Publish | Lease], *,
    done: tuple[int, int], newest: int | None = None, features: Sequence[str] = (),
) -> Draft:  # fmt: skip
    base = small_model() if stream is None else stream.states[-1]
    inputs: dict[str, Sequence[State]] = {
        call.input: [trained(base, 100 + number)] for number, call in enumerate(calls) if isinstance(call, Publish)
    }
    steps: list[AnyStep] = [] if stream is None else [Put()]
    steps.append(Race(steps=tuple(calls), done=done))
    steps.append(
        Judge(
            newest=newest,
            present=("stream.json", version(0), LEASE),
            unchanged=() if stream is None else ("stream.json", version(0), "data/*"),
        )
    )
    return Draft(
        AREA,
        name,
        negative=False,
        case=Case(
            title=title,
            requirements=tuple(requirements),
            role="producer",
            features=tuple(features),
            steps=tuple(steps),
        ),
        trees={} if stream is None else {"store": dict(stream.objects)},
        inputs=inputs,
    )
