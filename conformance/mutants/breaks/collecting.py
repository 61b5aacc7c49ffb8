"""Maintainers that collect too much, or move the boundary where it must not be."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from deltawire.errors import DeltawireError, StreamNotFoundError
from deltawire.format import keys
from deltawire.format.records import RetentionRecord
from deltawire.maintaining import boundary, collecting, maintainer, orphans, retaining, survey
from deltawire.maintaining.boundary import StoredRetention
from deltawire.maintaining.removing import Protected
from deltawire.maintaining.report import Collected
from deltawire.producer.envelope import envelope
from deltawire.reading import pins
from deltawire.reading.retention import Retention
from deltawire.reading.stream import StreamReader
from mutants import Mutant
from mutants.patching import both, replace, skip

_COLLECTING = "deltawire.maintaining.collecting"
_once = maintainer.Maintainer.once
_run = collecting.Collector.run
_choose = retaining.choose
_read_boundary = boundary.Boundary.read
_find_orphans = orphans.find_orphans


def _wish(policy: retaining.RetentionPolicy, newest: int) -> int:
    return max(newest - (policy.keep_last or 1) + 1, 0)


def _lower(policy: retaining.RetentionPolicy, **seen: Any) -> retaining.Choice:
    found = _choose(policy, **seen)
    return retaining.Choice(min(found.boundary, _wish(policy, seen["newest"])), found.kept)


def _wished(policy: retaining.RetentionPolicy, **seen: Any) -> retaining.Choice:
    found = _choose(policy, **seen)
    return retaining.Choice(max(found.boundary, _wish(policy, seen["newest"])), found.kept)


def _forgotten(self: boundary.Boundary) -> StoredRetention | None:
    try:
        return _read_boundary(self)
    except DeltawireError:
        stored = self._store.get(keys.RETENTION, max_bytes=1 << 20)
        head = envelope(self._stream.stream_id, "retention", epoch=0, writer_features=())
        return StoredRetention(RetentionRecord(**head, boundary=0), {}, stored.token)


def _readable_pins(reader: StreamReader, deadline: Any) -> list[pins.StoredPin]:
    return [pin for pin in pins.read_pins(reader, deadline) if pin.record is not None]


def _every_orphan(*arguments: Any, **named: Any) -> Iterator[orphans.Orphans]:
    for found in _find_orphans(*arguments, **named):
        yield dataclasses.replace(found, folder=(-1, found.folder[1]))


def _empties(self: collecting.Collector, deadline: Any) -> Any:
    done = _run(self, deadline)
    if done.newest is None:
        for info in list(self._transfer.store.list(keys.DATA)):
            self._transfer.store.delete(info.key)
    return done


def _untroubled(self: maintainer.Maintainer[None], **options: Any) -> maintainer.Pass[None]:
    try:
        return _once(self, **options)
    except StreamNotFoundError:
        return maintainer.Pass(collected=Collected(dry_run=False, newest=None, previous_boundary=0, boundary=0))


def _tidies(self: collecting.Collector, deadline: Any) -> Any:
    done = _run(self, deadline)
    store = self._transfer.store
    for info in list(store.list("")):
        known = (keys.parse_numbered, keys.parse_span, keys.parse_data, keys.parse_pin)
        alone = {keys.STREAM, keys.HEAD, keys.LEASE, keys.RETENTION}
        if info.key not in alone and all(parse(info.key) is None for parse in known):
            store.delete(info.key)
    return done


def _protected(_: Any, known: survey.Survey, view: Any, stays: Any, deadline: Any) -> Protected:
    numbers = [number for number in view.listing.versions if number in stays]
    versions = known.versions(view.listing, numbers, deadline)
    anchors = known.anchors(view.listing, [number for number in view.listing.anchors if number in stays], deadline)
    return Protected.of(stays.__contains__, (*versions.values(), *anchors.values()))


def _only_new(listing: Callable[..., survey.Listing]) -> Callable[..., survey.Listing]:
    def found(self: survey.Survey, deadline: Any) -> survey.Listing:
        seen = listing(self, deadline)
        old = self._reader.retention(deadline).boundary
        return survey.Listing(
            {number: size for number, size in seen.versions.items() if number >= old},
            {number: size for number, size in seen.anchors.items() if number >= old},
            {span: size for span, size in seen.spans.items() if span[0] >= old},
        )

    return found


_MALFORMED = ("collecting/retention-cut-short", "collecting/retention-without-boundary", "collecting/kept-backwards")
_UNREADABLE_PINS = ("collecting/pin-cut-short", "collecting/pin-of-a-later-time", "collecting/pin-backwards")

MUTANTS = [
    Mutant(
        name="no-pins",
        what="collects as if nobody had pinned anything",
        patch=replace(f"{_COLLECTING}:read_pins", by=lambda *_: []),
        caught_by=(
            "collecting/pin-holds-back",
            "collecting/pin-below-the-boundary",
            "collecting/pin-of-the-past",
            "collecting/kept-and-pinned",
        ),
    ),
    Mutant(
        name="no-unreadable-pins",
        what="ignores pins that it cannot read",
        patch=replace(f"{_COLLECTING}:read_pins", by=_readable_pins),
        caught_by=_UNREADABLE_PINS,
    ),
    Mutant(
        name="released-pins-count",
        what="is held back by pins that were released",
        patch=replace("deltawire.reading.pins:StoredPin.released", by=property(lambda _: False)),
        caught_by=("collecting/released-pin",),
    ),
    Mutant(
        name="endless-pins",
        what="takes every pin for one without an end",
        patch=replace("deltawire.reading.pins:StoredPin.last", by=property(lambda _: None)),
        caught_by=("collecting/pin-of-the-past",),
    ),
    Mutant(
        name="kept-for-nobody",
        what="drops what was kept below the boundary, pinned or not",
        patch=replace("deltawire.maintaining.retaining:_Choosing._kept", by=lambda *_: False),
        caught_by=("collecting/kept-and-pinned",),
    ),
    Mutant(
        name="boundary-falls",
        what="lets the boundary fall where the policy wants more versions",
        patch=replace(f"{_COLLECTING}:choose", by=_lower),
        caught_by=("collecting/boundary-stays",),
    ),
    Mutant(
        name="boundary-anywhere",
        what="moves the boundary to a version without a snapshot",
        patch=replace(f"{_COLLECTING}:choose", by=_wished),
        caught_by=("collecting/keep-last", "collecting/snapshot-with-a-hole"),
    ),
    Mutant(
        name="unseen-snapshot",
        what="moves the boundary to a snapshot without looking for its objects",
        patch=replace("deltawire.maintaining.survey:Survey.usable", by=lambda *_, **__: True),
        caught_by=("collecting/snapshot-with-a-hole",),
    ),
    Mutant(
        name="forgets-members-of-the-boundary",
        what="writes retention.json without the members that it does not know",
        patch=replace("deltawire.format.strict_json:merge", by=lambda _, new: new),
        caught_by=("collecting/unknown-members",),
    ),
    Mutant(
        name="retention-made-up",
        what="takes a retention.json that it cannot read for none",
        patch=both(
            replace("deltawire.maintaining.boundary:Boundary.read", by=_forgotten),
            replace(
                "deltawire.reading.stream:read_retention",
                "deltawire.consumer.pinning:read_retention",
                "deltawire.producer.settling:read_retention",
                by=lambda *_: Retention(),
            ),
        ),
        caught_by=(
            *_MALFORMED,
            "collecting/retention-of-another-stream",
            "collecting/retention-of-a-later-time",
            "collecting/retention-of-another-major",
            "collecting/kept-at-the-boundary",
            "building/retention-cut-short",
            "building/retention-of-another-stream",
        ),
    ),
    Mutant(
        name="maintains-any-stream",
        what="writes to a stream with a feature that writers must know",
        patch=skip(f"{_COLLECTING}:features.check_features"),
        caught_by=(
            "collecting/unknown-writer-feature",
            "rollback/unknown-writer-feature",
            "fork/unknown-writer-feature",
            "building/unknown-writer-feature",
        ),
    ),
    Mutant(
        name="shared-go-too",
        what="deletes all that a collected record names below data/, whoever else names it",
        patch=replace(
            "deltawire.maintaining.removing:Protected.frees", by=lambda _, __, key: keys.parse_data(key) is not None
        ),
        caught_by=(
            "collecting/keep-last",
            "collecting/shared-files",
            "collecting/hostile-record",
        ),
    ),
    Mutant(
        name="deletes-what-records-say",
        what="deletes what a collected record names, wherever it is, unless a version names it too",
        patch=replace(
            "deltawire.maintaining.removing:Protected.frees", by=lambda self, _, key: key not in self.inherited
        ),
        caught_by=("collecting/hostile-record",),
    ),
    Mutant(
        name="blind-to-a-neighbour",
        what="goes on though the record of a version that stays cannot be read",
        patch=replace(f"{_COLLECTING}:Collector._protected", by=_protected),
        caught_by=("collecting/unreadable-neighbour",),
    ),
    Mutant(
        name="spans-stay",
        what="leaves the spans from and to collected versions",
        patch=replace("deltawire.maintaining.staying:Stays.hold_whole", by=lambda *_: True),
        caught_by=("collecting/spans", "collecting/half-collected"),
    ),
    Mutant(
        name="pinned-spans-go",
        what="removes spans of versions that are pinned, but not retained",
        patch=replace(
            "deltawire.maintaining.staying:Stays.hold_whole",
            by=lambda self, span: span[0] in self.retention and span[1] in self.retention,
        ),
        caught_by=("collecting/pin-below-the-boundary",),
    ),
    Mutant(
        name="every-orphan",
        what="deletes whatever no record names",
        patch=replace(f"{_COLLECTING}:find_orphans", by=_every_orphan),
        caught_by=("collecting/orphans", "collecting/pin-of-the-past"),
    ),
    Mutant(
        name="empties-unborn-streams",
        what="collects in a stream that has no version",
        patch=replace(f"{_COLLECTING}:Collector.run", by=_empties),
        caught_by=("collecting/no-version",),
    ),
    Mutant(
        name="nothing-to-collect",
        what="takes a place without a stream for one without anything to collect",
        patch=replace("deltawire.maintaining.maintainer:Maintainer.once", by=_untroubled),
        caught_by=("collecting/no-stream",),
    ),
    Mutant(
        name="tidies-up",
        what="deletes keys that it does not know",
        patch=replace(f"{_COLLECTING}:Collector.run", by=_tidies),
        caught_by=("collecting/foreign-keys",),
    ),
    Mutant(
        name="only-what-is-new",
        what="collects only what it has moved the boundary over itself",
        patch=replace("deltawire.maintaining.survey:Survey.listing", by=_only_new(survey.Survey.listing)),
        caught_by=("collecting/boundary-stays", "collecting/half-collected"),
    ),
    Mutant(
        name="records-first",
        what="deletes a version's record and leaves its data",
        patch=replace("deltawire.maintaining.removing:Protected.frees", by=lambda *_: False),
        caught_by=("collecting/keep-last", "collecting/new-table"),
    ),
]
