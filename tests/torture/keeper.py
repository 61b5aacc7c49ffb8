"""The maintainer: it makes anchors and spans, collects as early as it may, and clears up in the end."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace

from deltawire.consumer.pin import PinTerms
from deltawire.consumer.pinning import pinned
from deltawire.deadline import Deadline
from deltawire.errors import StreamNotFoundError
from deltawire.maintaining.builder import Builder
from deltawire.maintaining.building import Built
from deltawire.maintaining.collecting import CollectOptions
from deltawire.maintaining.ladder import Ladder
from deltawire.maintaining.maintainer import Maintainer, Pass
from deltawire.maintaining.retaining import RetentionPolicy
from deltawire.producer.anchors import AnchorPolicy
from deltawire.reading.stream import StreamReader
from deltawire.reading.transfer import Transfer
from deltawire.store import open_store
from tests.torture.scene import KEEP_LAST, MAINTAINER, PIN_TTL, Journal, Scene

_OPTIONS = CollectOptions(policy=RetentionPolicy(keep_last=KEEP_LAST))
_PASSES = 50
"""How many passes it may take at most until nothing is left to do."""


def maintain(scene: Scene, who: str, life: int, journal: Journal) -> None:
    """Pass after pass until told to stop; then until nothing is left to do."""
    store = open_store(scene.url)
    transfer = Transfer(store, workers=2)
    reader = StreamReader(transfer)
    terms = PinTerms(ttl=PIN_TTL, holder=MAINTAINER)

    def pin(first: int, last: int) -> AbstractContextManager[object]:
        return pinned(reader, first, last, deadline=Deadline(None), terms=terms)

    ladder = Ladder(smallest=2, largest=8)
    with Builder(store, ladder=ladder, anchors=AnchorPolicy(every=4), batch=2, workers=2, pin=pin) as builder:

        def build(deadline: Deadline) -> Built:
            return builder.run(timeout=deadline.left())

        while not scene.ordered("last-pass"):
            try:
                with Maintainer(store, _OPTIONS, build=build, workers=2) as maintainer:
                    for done in maintainer.run(interval=0.2):
                        _note(done, journal)
                        if scene.ordered("last-pass"):
                            maintainer.stop()
            except StreamNotFoundError:
                maintainer.stop()
        with Maintainer(store, replace(_OPTIONS, wait=True), build=build, workers=2) as maintainer:
            for done, _ in zip(maintainer.run(interval=0.5), range(_PASSES), strict=False):
                _note(done, journal)
                rest = done.collected
                if rest is not None and not rest.changed:
                    break
    transfer.close()


def _note(done: Pass[Built], journal: Journal) -> None:
    if done.error is not None:
        journal.note("refused", code=done.error.code, message=str(done.error))
    if done.built is not None:
        built = done.built
        if built.anchors or built.spans or built.problems:
            journal.note("built", anchors=built.anchors, spans=built.spans, problems=built.problems)
    if done.collected is not None and done.collected.changed:
        found = done.collected
        journal.note(
            "collected",
            boundary=found.boundary,
            versions=sum(last - first + 1 for first, last in found.versions),
            runs=found.versions,
            orphans=found.orphans,
            waiting=found.waiting_orphans,
            pins=found.pins,
            notes=found.notes,
        )
