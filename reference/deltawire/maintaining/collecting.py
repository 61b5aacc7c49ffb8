"""Collecting: moving the boundary, and removing what no retained version and no live pin needs (SPEC.md 11.14)."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from deltawire.deadline import Deadline
from deltawire.errors import ConflictError, VersionNotFoundError
from deltawire.format import features, keys
from deltawire.maintaining.boundary import Boundary
from deltawire.maintaining.observing import PinObserver
from deltawire.maintaining.orphans import Orphans, find_orphans
from deltawire.maintaining.removing import Protected, Removal
from deltawire.maintaining.report import Collected, held_back, runs_of
from deltawire.maintaining.retaining import EVERYTHING, Choice, RetentionPolicy, choose
from deltawire.maintaining.staying import Stays, count_in
from deltawire.maintaining.survey import Facts, Listing, Survey, seen
from deltawire.reading.pins import StoredPin, read_pins
from deltawire.reading.retention import Retention
from deltawire.reading.stream import StreamReader

_RACES = 10
"""How often to begin again because another maintainer was faster."""
_FOLDERS = 1000
"""Folders of orphans that are dealt with at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectOptions:
    """How to collect."""

    policy: RetentionPolicy = EVERYTHING
    single_maintainer: bool = False
    """The operator's word that nobody else moves the boundary; needed on stores that cannot swap. RET-5"""
    dry_run: bool = False
    """Only say what would be done; write nothing at all."""
    wait: bool = False
    """Observe readers that stand in the way until it is known whether they are alive. Otherwise what they pin stays
    until a later pass of the same collector knows."""


@dataclass(frozen=True, slots=True)
class _View:
    """A stream as a pass found it."""

    retention: Retention
    newest: int
    listing: Listing
    versions: dict[int, Facts]
    anchors: dict[int, Facts]
    spans: dict[tuple[int, int], Facts]


def _tell_nobody(sentence: str, /) -> None:
    """Say nothing."""


class Collector:
    """Collects in one stream, pass by pass, and remembers what it has seen of pins and records.

    Args:
        reader: of the stream.
        options: how to collect.
        clock: seconds by a clock that never goes back.
        stop: set by another thread to end a pass early, at a point from which the next one goes on.
        sleep: waits so many seconds; None waits until then or until told to stop.
        tell: told, in a sentence, of what takes long.
    """

    def __init__(
        self,
        reader: StreamReader,
        options: CollectOptions,
        *,
        clock: Callable[[], float] = time.monotonic,
        stop: threading.Event | None = None,
        sleep: Callable[[float], object] | None = None,
        tell: Callable[[str], object] = _tell_nobody,
    ) -> None:
        self._reader = reader
        self._transfer = reader.transfer
        self._options = options
        self._clock = clock
        self._stop = stop or threading.Event()
        self._sleep = sleep or self._stop.wait
        self._tell = tell
        self._observer = PinObserver(clock=clock)
        self._known: Survey | None = None
        self._whole: set[int] = set()
        """Versions kept below the boundary whose snapshots were found to be whole."""
        self._unpinned = Stays(Retention())
        """What would stay if there were no pins."""
        self._notes: list[str] = []
        self._waited = 0.0

    def run(self, deadline: Deadline) -> Collected:
        """One pass. COL-1 to COL-8

        Raises:
            StreamNotFoundError, UnsupportedFeatureError: there is no stream here, or none that we may write to.
            MalformedRecordError, WrongStreamError, UnsupportedProtocolError, LimitExceededError: what is retained
                cannot be read, or there is more than the limits allow. RET-4
            ConflictError: other maintainers kept moving the boundary.
            StoreUnfitError: the store cannot arbitrate between maintainers. RET-5
            StoreError, DeadlineExceededError: the store did not answer; what was not done is left to the next pass.
        """
        stream = self._reader.stream(deadline)
        features.check_features(stream.writer_features, features.WRITER_FEATURES, role="writer")  # VER-3
        options, self._notes, self._waited = self._options, [], 0.0
        self._known = self._known or Survey(self._reader, stream)
        boundary = Boundary(
            self._transfer.store,
            stream,
            limits=self._transfer.limits,
            single_maintainer=options.single_maintainer,
            sleep=self._sleep,
        )
        if options.policy.collects:
            boundary.check()
        for _ in range(_RACES):
            stored = self._transfer.call(deadline, boundary.read)
            retention = Retention() if stored is None else stored.retention
            view = self._view(self._known, retention, deadline)
            if view is None:
                old = retention.boundary
                return Collected(dry_run=options.dry_run, newest=None, previous_boundary=old, boundary=old)
            choice = self._choose(self._known, view, deadline)
            if choice == _unchanged(retention) or options.dry_run:
                break
            if self._stop.is_set():
                choice = _unchanged(retention)
                break
            if self._transfer.call(deadline, lambda s=stored, c=choice: boundary.move(s, c)):  # type: ignore[misc]
                break
        else:
            raise ConflictError("other maintainers keep moving the boundary", hint="let one maintainer do it")
        return self._collect(self._known, view, Retention(choice.boundary, choice.kept), deadline)

    def _view(self, survey: Survey, retention: Retention, deadline: Deadline) -> _View | None:
        """What is there; None in a stream without versions. COL-1"""
        listing = survey.listing(deadline)
        try:
            newest = self._reader.latest(deadline)
        except VersionNotFoundError:
            return None  # FRK-8
        newest = max([newest, *listing.versions])
        return _View(
            retention,
            newest,
            listing,
            survey.versions(listing, self._required(retention, newest), deadline),
            survey.anchors(listing, [number for number in listing.anchors if number in retention], deadline),
            survey.spans(
                listing, [span for span in listing.spans if span[0] in retention and span[1] in retention], deadline
            ),
        )

    def _required(self, retention: Retention, newest: int) -> list[int]:
        """Versions that must be there."""
        count = newest - retention.boundary + 1
        self._transfer.limits.check("path_records", count, "number of versions from the boundary to the newest")
        return [*sorted(retention.kept), *range(retention.boundary, newest + 1)]

    def _choose(self, survey: Survey, view: _View, deadline: Deadline) -> Choice:
        """What is to be retained; before that, where asked to, wait for what is known of readers in the way. COL-2"""
        pins = self._look(deadline)
        looked: dict[int, bool] = {}

        def usable(number: int) -> bool:
            if number in self._whole and number < view.retention.boundary:
                return True
            if number not in looked:
                looked[number] = survey.usable(number, anchored=number in view.anchors, deadline=deadline)
            return looked[number]

        def chosen(pins: Sequence[StoredPin]) -> Choice:
            return choose(
                self._options.policy,
                versions={number: seen(facts, view.anchors.get(number)) for number, facts in view.versions.items()},
                spans={span: facts.bytes for span, facts in view.spans.items()},
                retention=view.retention,
                newest=view.newest,
                pins=pins,
                usable=usable,
            )

        free = chosen(())
        self._unpinned = Stays(Retention(free.boundary, free.kept))
        if self._options.wait:
            pins = self._wait(view, pins, deadline)
        choice = chosen(self._observer.live(pins))
        self._whole = {number for number in choice.kept if looked.get(number) or number in self._whole}
        return choice

    def _wait(self, view: _View, pins: list[StoredPin], deadline: Deadline) -> list[StoredPin]:
        """Watch the pins because of which something would stay, until each is seen to change or to be gone. PIN-8"""
        doomed = sorted(number for number in _numbers(view.listing) if number not in self._unpinned)
        told: set[str] = set()
        began = self._clock()
        while not self._stop.is_set():
            pending = [
                (pin, wait)
                for pin in self._observer.live(pins)
                if (wait := self._observer.next_look(pin)) is not None and count_in(pin, doomed)
            ]
            if not pending:
                break
            for pin, _ in pending:
                if pin.id not in told and pin.record is not None:
                    told.add(pin.id)
                    self._tell(f"watching for up to {pin.ttl * 1.1:g} s whether {pin.record.holder!r} is alive")
            deadline.remaining()
            self._sleep(min(wait for _, wait in pending))
            pins = self._look(deadline)
        self._waited += self._clock() - began
        return pins

    def _collect(self, survey: Survey, view: _View, retention: Retention, deadline: Deadline) -> Collected:
        """Remove what is neither retained nor pinned. COL-4 to COL-8"""
        pins = self._look(deadline)  # only now: whoever comes later sees the boundary. COL-4
        live = self._observer.live(pins)
        stays = Stays(retention, live)
        listing = view.listing
        versions = [number for number in listing.versions if number not in stays]
        anchors = [number for number in listing.anchors if number not in stays]
        spans = [span for span in listing.spans if not stays.hold_whole(span)]
        removal = Removal(self._transfer, survey, dry_run=self._options.dry_run, stopped=self._stop.is_set)
        protected = self._protected(survey, view, stays, deadline)
        orphans: list[Orphans] = []
        waiting = 0
        if protected is not None:
            removal.run(protected, versions=versions, anchors=anchors, spans=spans, deadline=deadline)
            found = find_orphans(
                self._transfer,
                owned=protected.folders | removal.removed.folders,
                named=protected.inherited,
            )
            for chunk in _chunks(found):
                if self._stop.is_set():
                    break
                gone = [each for each in chunk if each.folder[0] not in stays]
                waiting += sum(len(each.objects) for each in chunk if each.folder[0] in stays)
                removal.delete([info.key for each in gone for info in each.objects], deadline)
                orphans += gone
        dead = [pin for pin in pins if self._observer.gone(pin)]
        removal.delete([pin.key for pin in dead], deadline)  # PIN-10
        if self._stop.is_set():
            self._notes.append("stopped early; the next pass goes on from here")
        counts = removal.removed.counts
        return Collected(
            dry_run=self._options.dry_run,
            newest=view.newest,
            previous_boundary=view.retention.boundary,
            boundary=retention.boundary,
            kept=runs_of(retention.kept),
            versions=runs_of(removal.removed.versions),
            anchors=counts["anchors"],
            spans=counts["spans"],
            objects=counts["objects"],
            bytes=counts["bytes"],
            orphans=sum(len(each.objects) for each in orphans),
            orphan_bytes=sum(each.bytes for each in orphans),
            waiting_orphans=waiting,
            pins=len(dead),
            held_back=held_back(live, (number for number in listing.versions if number not in self._unpinned)),
            waited_seconds=self._waited,
            notes=tuple(self._notes),
        )

    def _protected(self, survey: Survey, view: _View, stays: Stays, deadline: Deadline) -> Protected | None:
        """What the records that stay name; None if one of a version cannot be read, so that nothing may go. COL-5"""
        listing = view.listing
        required = self._required(stays.retention, view.newest)
        pinned = [number for number in listing.versions if number not in stays.retention and number in stays]
        versions = survey.versions(listing, sorted({*required, *pinned}), deadline)
        for number in (*required, *pinned):
            if number not in versions:
                error = survey.bad(keys.version_key(number))
                self._notes.append(f"no objects were collected, as a version that stays cannot be read: {error}")
                return None
        anchors = survey.anchors(listing, [number for number in listing.anchors if number in stays], deadline)
        spans = survey.spans(listing, [span for span in listing.spans if stays.hold_whole(span)], deadline)
        return Protected.of(stays.__contains__, (*versions.values(), *anchors.values(), *spans.values()))

    def _look(self, deadline: Deadline) -> list[StoredPin]:
        return self._observer.look(lambda: read_pins(self._reader, deadline))


def _unchanged(retention: Retention) -> Choice:
    return Choice(retention.boundary, tuple(sorted(retention.kept)))


def _numbers(listing: Listing) -> set[int]:
    return listing.versions.keys() | listing.anchors.keys()


def _chunks(found: Iterable[Orphans]) -> Iterator[list[Orphans]]:
    rest = iter(found)
    while chunk := list(itertools.islice(rest, _FOLDERS)):
        yield chunk
