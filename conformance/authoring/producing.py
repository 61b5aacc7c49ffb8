"""Cases of producers: what is in the store before, what goes wrong, and what must be there in the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from authoring.drafts import Draft, Tree
from authoring.states import State, small_model, trained
from authoring.stream import Json, Stream
from deltawire_conformance.case import AnyStep, Calm, Case, Fault, Judge, Publish, Put, Requests

LEASE = "leases/writer.json"
SOUND = ("conditional_records", "same_bytes_again", "blobs_before_record", "no_overwrite", "no_deletes")
"""Rules that hold for any single producer."""
FOREVER = 1000
"""As often as anybody tries."""


def version(number: int) -> str:
    """Key of a version's record."""
    return f"versions/{number:020}.json"


def folder(number: int) -> str:
    """Pattern of what is stored for a version."""
    return f"data/{number:020}-*"


def resting_stream(name: str, *, versions: int = 1, epoch: int = 4, lease: bool = True, **options: Any) -> Stream:
    """A stream whose producer has ended: whoever comes next has the epoch after its own, and no other.

    Args:
        name: of the stream.
        versions: how many it has.
        epoch: of all of them, and of the lease.
        lease: whether there is one.
        options: of the stream.
    """
    stream = Stream(name, **options)
    stream.create()
    stream.epoch = epoch
    state = small_model()
    for step in range(versions):
        if step:
            state = trained(state, step)
            stream.delta(state)
        else:
            stream.rebase(state)
    if versions:
        stream.head(versions - 1)
    if lease:
        stream.lease(released=True)
    return stream


def next_states(stream: Stream | None, count: int = 1) -> list[State]:
    """What is published next."""
    state = small_model() if stream is None or not stream.states else trained(stream.states[-1], 50)
    found = [state]
    for step in range(1, count):
        found.append(trained(found[-1], 50 + step))
    return found


def producing(
    area: str,
    name: str,
    title: str,
    requirements: Sequence[str],
    *,
    stream: Stream | None = None,
    error: str | Sequence[str] = (),
    states: Sequence[State] | None = None,
    options: Json | None = None,
    faults: Sequence[Fault] = (),
    trees: Mapping[str, Tree] | None = None,
    extra_states: Mapping[str, State] | None = None,
    committed: int | None = None,
    judged: Json | None = None,
    rules: Sequence[str] | None = None,
    after: Sequence[AnyStep] = (),
    store: Tree | None = None,
    **more: Any,
) -> Draft:
    """A producer publishes into a stream, or into an empty store, and is done or must refuse.

    Args:
        area, name, title, requirements: of the case.
        stream: what is there before.
        error: codes of which the refusal has one; done if empty.
        states: to publish; one more step of training if None.
        options: of ``publish``.
        faults: what goes wrong; the case is for the simulator alone then.
        trees: what faults put into the store.
        extra_states: further states below ``expected/``, by the version that has them.
        committed: how many of the states are reported as committed; all, or none if it must refuse.
        judged: further members of the judge's step.
        rules: for the simulator; None says those of any producer where there are faults.
        after: steps in the end.
        store: what is there before, if it is not all of the stream.
        more: further members of the case.
    """
    codes = (error,) if isinstance(error, str) else tuple(error)
    published = next_states(stream) if states is None else list(states)
    first = 0 if stream is None else len(stream.states)
    done = (0 if codes else len(published)) if committed is None else committed
    there = range(first, first + done)
    expected = {str(number): published[number - first].neutral(number) for number in there}
    expected |= {number: state.neutral(int(number)) for number, state in (extra_states or {}).items()}
    judging: Json = {"newest": first + done - 1 if first + done else None, "states": {n: n for n in expected}}
    judging |= judged or {}
    looked = rules if rules is not None else SOUND if faults else ()
    steps: list[AnyStep] = [] if stream is None else [Put()]
    steps.append(Publish(options=options or {}, error=codes, versions=tuple(there)))
    if faults:
        steps.append(Calm())
    steps.append(Judge(**judging))
    if looked:
        steps.append(Requests(rules=tuple(looked)))
    if faults or looked:
        more.setdefault("stores", ("simulator",))
    laid: dict[str, Tree] = dict(trees or {})
    if stream is not None:
        laid["store"] = dict(stream.objects) if store is None else store
    return Draft(
        area,
        name,
        negative=bool(codes),
        case=Case(
            title=title,
            requirements=tuple(requirements),
            role="producer",
            faults=tuple(faults),
            steps=(*steps, *after),
            **more,
        ),
        trees=laid,
        states=expected,
        inputs={"input": published},
    )


def refused_whole(stream: Stream) -> Json:
    """For the judge: nothing is changed, and nothing is stored for a next version."""
    number = len(stream.states)
    return {"unchanged": ("*",), "absent": (version(number), folder(number))}
