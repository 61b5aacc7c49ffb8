"""Pins, and collecting, in a store that refuses some requests: with the simulator of S3 alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from authoring.areas.pins import TREES, growing, grown
from authoring.drafts import Draft, worked
from authoring.lines import line
from deltawire.format.keys import version_key
from deltawire_conformance.case import Case, Collect, Fault, Follow, Judge, Put

AREA = "pins-on-s3"
_PINS = "*leases/readers/*"


def drafts() -> Iterator[Draft]:
    """All cases."""
    yield _following(
        "may-not-write", "a consumer that may not write pins reads the same stream", ["PIN-2", "PIN-7"],
        [Fault(method="PUT", key=_PINS, action="refuse", status=403, times=1000)],
    )  # fmt: skip
    yield _following(
        "cannot-write", "the store fails whenever a pin is written", ["PIN-7"],
        [Fault(method="PUT", key=_PINS, action="refuse", status=503, times=1000)],
    )  # fmt: skip
    yield _following(
        "may-not-delete", "a consumer that may not delete its pin writes that it is released", ["PIN-7"],
        [Fault(method=method, key=_PINS, action="refuse", status=403, times=1000) for method in ("DELETE", "POST")],
        unpinned=True,
    )  # fmt: skip
    stream = line(versions=5, anchors=[3])
    yield worked(
        AREA,
        "data-first",
        "a maintainer may delete records, but no data: the records stay where they are",
        ["COL-5", "COL-8"],
        stream,
        Collect(options={"keep_last": 1}, error=("store_denied",)),
        negative=True,
        features=("collect",),
        stores=("simulator",),
        # A request that deletes many objects names none in its path.
        faults=(
            Fault(method="DELETE", key="*data/*", action="refuse", status=403, times=1000),
            Fault(method="POST", key="*", action="refuse", status=403, times=1000),
        ),
        states=[3, 4],
        judged={"unchanged": (*(version_key(version) for version in range(5)), "data/*"), "added": ("retention.json",)},
    )


def _following(
    name: str, title: str, requirements: Sequence[str], faults: Sequence[Fault], *, unpinned: bool = False
) -> Draft:
    stream = growing()
    store = dict(stream.objects)
    trees = grown(stream)
    return Draft(
        AREA,
        name,
        negative=False,
        case=Case(
            title=title,
            requirements=tuple(requirements),
            role="consumer",
            features=("pins",),
            stores=("simulator",),
            faults=tuple(faults),
            steps=(
                Put(),
                Follow(version=2, state="2", meanwhile=TREES),
                Judge(unchanged=("*",), added=("leases/readers/*",), unpinned=unpinned),
            ),
        ),
        trees={"store": store, **trees},
        states={"2": stream.states[2].neutral(2)},
    )
