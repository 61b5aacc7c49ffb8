"""Heads that are believed, or feared."""

from __future__ import annotations

from deltawire.deadline import Deadline
from deltawire.errors import DeltawireError, VersionNotFoundError
from deltawire.format import keys, records
from deltawire.format.records import HeadRecord
from deltawire.reading.stream import StreamReader
from mutants import Mutant
from mutants.patching import replace


def cases(names: str) -> tuple[str, ...]:
    """Ids of cases of this area."""
    return tuple(f"head/{name}" for name in names.split())


def _said(self: StreamReader, deadline: Deadline) -> int | None:
    head = records.decode(self._read(keys.HEAD, deadline), HeadRecord, what=keys.HEAD, limits=self.transfer.limits)
    if head.stream_id != self.stream(deadline).stream_id:
        raise VersionNotFoundError("the head is of another stream")
    return head.version


def _believed(self: StreamReader, deadline: Deadline) -> int | None:
    try:
        return _said(self, deadline)
    except DeltawireError:
        return None


MUTANTS = [
    Mutant(
        name="head-is-newest",
        what="takes the head's word that there is no newer version",
        patch=replace("deltawire.reading.stream:StreamReader._forward", by=lambda _self, start, _deadline: start),
        caught_by=cases("stale left-behind"),
    ),
    Mutant(
        name="head-is-true",
        what="does not look whether the version is there that the head says",
        patch=replace("deltawire.reading.stream:StreamReader._hinted", by=_believed),
        caught_by=cases("ahead at-the-end-of-numbers"),
    ),
    Mutant(
        name="head-is-needed",
        what="stops at a head that it cannot read",
        patch=replace("deltawire.reading.stream:StreamReader._hinted", by=_said),
        caught_by=cases(
            "missing empty cut-short member-twice no-version another-stream reader-feature major-version "
            "another-kind huge"
        ),
    ),
]
