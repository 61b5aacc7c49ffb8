"""What a consumer asks for, request by request (SPEC.md sections 11.4 to 11.6)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from authoring.drafts import Draft, Tree, changed
from authoring.states import trained
from authoring.stream import Stream, small_stream
from deltawire_conformance.case import AnyStep, Case, Fault, Materialize, Put, Requests

AREA = "requests"


def drafts() -> Iterator[Draft]:
    """All cases."""
    yield _from_nothing()
    yield _grown("no-listing", "a consumer that holds a version comes to the next one", ["LAT-1", "LAT-4"], versions=1)
    yield _grown("no-listing-behind", "a consumer that is five versions behind", ["LAT-1", "LAT-4"], versions=5)
    yield _up_to_date()
    yield _faulty(
        "busy-503",
        "reading a record and a part is answered with 503 once each",
        [
            Fault(method="GET", key="versions/*", action="refuse"),
            Fault(method="GET", key="data/*.arrow", action="refuse"),
        ],
    )
    yield _faulty(
        "cut-bodies",
        "the bodies of a record, a shard and a part end early, once each",
        [
            Fault(method="GET", key="versions/*", action="cut_body"),
            Fault(method="GET", key="data/*.safetensors", action="cut_body"),
            Fault(method="GET", key="data/*.arrow", action="cut_body"),
        ],
    )
    yield _faulty(
        "lost-answers",
        "answers to reading the stream, the boundary and a listing are lost, once each",
        [
            Fault(method="GET", key="stream.json", action="lose_answer"),
            Fault(method="GET", key="retention.json", action="lose_answer"),
            Fault(method="GET", key="versions/", action="lose_answer"),
        ],
        head=False,
    )
    yield _denied()


def _case(
    name: str, title: str, requirements: Sequence[str], steps: Sequence[AnyStep], stream: Stream,
    trees: dict[str, Tree], *, faults: Sequence[Fault] = (), negative: bool = False,
) -> Draft:  # fmt: skip
    held = {step.state for step in steps if isinstance(step, Materialize) and step.state is not None}
    return Draft(
        AREA,
        name,
        negative=negative,
        case=Case(
            title=title,
            requirements=tuple(requirements),
            role="consumer",
            stores=("simulator",),
            faults=tuple(faults),
            steps=tuple(steps),
        ),
        trees=trees,
        states={name: stream.states[int(name)].neutral(int(name)) for name in held},
    )


def _from_nothing() -> Draft:
    stream = small_stream("from-nothing")
    return _case(
        "records-first",
        "a consumer comes from nothing",
        ["CHN-1"],
        [Put(), Materialize(state="2"), Requests(rules=("record_before_part",))],
        stream,
        {"store": dict(stream.objects)},
    )


def _grown(name: str, title: str, requirements: Sequence[str], *, versions: int) -> Draft:
    stream = small_stream(name, versions=1)
    before = dict(stream.objects)
    for step in range(1, versions + 1):
        stream.delta(trained(stream.states[-1], step))
    newest = str(versions)
    return _case(
        name,
        title,
        requirements,
        [
            Put(),
            Materialize(state="0"),
            Requests(rules=()),
            Put(tree="then"),
            Materialize(state=newest),
            Requests(rules=("no_listing", "record_before_part")),
        ],
        stream,
        {"store": before, "then": changed(before, stream.objects)},
    )


def _up_to_date() -> Draft:
    stream = small_stream("up-to-date")
    return _case(
        "nothing-new",
        "a consumer that holds the newest version looks for a newer one",
        ["LAT-1", "LAT-4", "FOL-1"],
        [
            Put(),
            Materialize(state="2"),
            Requests(rules=()),
            Materialize(state="2"),
            Requests(rules=("no_listing", "no_data")),
        ],
        stream,
        {"store": dict(stream.objects)},
    )


def _faulty(name: str, title: str, faults: Sequence[Fault], *, head: bool = True) -> Draft:
    stream = small_stream(name)
    if not head:
        del stream.objects["head.json"]
    return _case(
        name,
        title,
        ["STO-21", "STO-1"] if name == "cut-bodies" else ["STO-21"],
        [Put(), Materialize(state="2")],
        stream,
        {"store": dict(stream.objects)},
        faults=faults,
    )


def _denied() -> Draft:
    stream = small_stream("denied", versions=1)
    before = dict(stream.objects)
    stream.delta(trained(stream.states[-1], 1))
    return _case(
        "part-denied",
        "the store denies to read the part of the next version",
        ["STO-21", "FOL-3"],
        [Put(), Materialize(state="0"), Put(tree="then"), Materialize(state="0", error=("store_denied",))],
        stream,
        {"store": before, "then": changed(before, stream.objects)},
        faults=[Fault(method="GET", key="data/*.arrow", action="refuse", status=403, times=1000)],
        negative=True,
    )
