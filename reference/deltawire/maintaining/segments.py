"""What there is to build on: versions that follow from each other, and their snapshots (SPEC.md section 11.12)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from deltawire.deadline import Deadline
from deltawire.errors import DeltawireError, MissingObjectError, VersionNotFoundError
from deltawire.format import keys
from deltawire.format.records import AnchorRecord, Delta, Snapshot
from deltawire.format.tensors import TensorTable
from deltawire.maintaining.ladder import Ladder, Span
from deltawire.producer.anchors import AnchorPolicy
from deltawire.reading.stream import (
    Committed,
    StreamReader,
    check_anchor,
    check_follows,
    check_rollback,
    check_span,
)


@dataclass(frozen=True, slots=True)
class Listing:
    """What the keys of a stream say."""

    anchors: frozenset[int]
    spans: frozenset[Span]


@dataclass
class Segment:
    """Versions that follow from each other, none but the first a rebase: spans lie within one (SPN-2)."""

    versions: dict[int, Committed] = field(default_factory=dict)
    """By number, ascending without holes."""

    @property
    def first(self) -> int:
        """Number of the first."""
        return next(iter(self.versions))

    @property
    def last(self) -> int:
        """Number of the last."""
        return self.first + len(self.versions) - 1

    @property
    def owned(self) -> list[int]:
        """Versions with a snapshot in their own record: the first, or none."""
        return [self.first] if self.versions[self.first].record.snapshot is not None else []

    def delta_bytes(self, base: int, target: int) -> int:
        """Size of the parts of all deltas between two versions."""
        return sum(part_bytes(self.versions[number]) for number in range(base + 1, target + 1))


def part_bytes(version: Committed) -> int:
    """Size of the parts of a version's delta."""
    delta = version.record.delta
    return 0 if delta is None else sum(part.bytes for part in delta.parts)


@dataclass
class Survey:
    """The part of a line that matters for what is missing."""

    listing: Listing
    newest: int
    segments: list[Segment]
    """Ascending."""
    problems: list[str]
    """What is wrong with records, a sentence each."""


def survey(
    reader: StreamReader,
    ladder: Ladder,
    *,
    boundary: int,
    newest: int,
    unwanted: Collection[Span],
    useless: Collection[int],
    known: dict[int, Committed],
    deadline: Deadline,
) -> Survey:
    """Read the records from the newest version back to a snapshot that all that is missing can be made from.

    A record that is missing, no good or does not follow from the one before it ends a segment there.

    Args:
        reader: the stream.
        ladder: which spans there should be.
        boundary: the oldest version to look at.
        newest: the newest one.
        unwanted: spans not to make.
        useless: anchors not to use.
        known: records that were read before; becomes those that were looked at now.
        deadline: when to give up.
    """
    anchors = frozenset(reader.numbers(keys.ANCHORS, deadline))
    listing = Listing(anchors, frozenset(Span(*ends) for ends in reader.spans(deadline)))
    missing = (span for span in ladder.spans(boundary, newest) if span not in listing.spans | set(unwanted))
    lowest = min((span.base for span in missing), default=newest)
    usable = listing.anchors - set(useless)
    found: list[tuple[int, Committed | DeltawireError]] = []
    numbers = range(newest, boundary - 1, -1)
    unknown = reader.versions((number for number in numbers if number not in known), deadline)
    for number in numbers:
        version = known[number] if number in known else next(unknown)
        found.append((number, version))
        reader.transfer.limits.check("path_records", len(found), "number of versions to look at")
        owned = isinstance(version, Committed) and version.record.snapshot is not None
        if number <= lowest and (owned or (number in usable and isinstance(version, Committed))):
            break
    segments, problems = _cut(found[::-1])
    known.clear()
    known.update(item for segment in segments for item in segment.versions.items())
    return Survey(listing, newest, segments, problems)


def _cut(found: list[tuple[int, Committed | DeltawireError]]) -> tuple[list[Segment], list[str]]:
    segments: list[Segment] = []
    problems: list[str] = []
    seen: dict[int, Committed] = {}
    before: Committed | None = None
    for number, read in found:
        if isinstance(read, DeltawireError):
            problems.append(f"version {number} cannot be used: {read}")
            before = None
            continue
        version = Committed(read.record, read.digest, b"")  # the bytes are not needed any more
        seen[number] = version
        whole = version.record.snapshot is not None
        if before is not None:
            try:
                _check_link(before, version, seen)
            except DeltawireError as error:
                problems.append(f"version {number} does not follow from the one before: {error}")
                before = None
        if before is None or whole:
            segments.append(Segment())
        segments[-1].versions[number] = version
        before = version
    return segments, problems


def _check_link(before: Committed, version: Committed, seen: dict[int, Committed]) -> None:
    check_follows(before, version)
    origin = version.record.rollback_of
    if origin is not None and origin.version in seen:
        check_rollback(version.record, seen[origin.version])


def snapshot_of(reader: StreamReader, version: Committed, deadline: Deadline) -> Snapshot:
    """The snapshot of a version, its own or an anchor's. ANC-2 Raises what is wrong with the anchor."""
    if version.record.snapshot is not None:
        return version.record.snapshot
    try:
        anchor: AnchorRecord = reader.anchor(version.record.version, deadline)
    except VersionNotFoundError as error:
        raise MissingObjectError(str(error)) from None
    check_anchor(anchor, version)
    return anchor.snapshot


def anchor_due(
    policy: AnchorPolicy, segment: Segment, snapshots: Collection[int], table: TensorTable, newest: int
) -> bool:
    """Whether the newest version should have an anchor."""
    last = max((number for number in snapshots if number in segment.versions), default=None)
    if last is None or newest != segment.last:
        return False  # there is nothing that it could be made from
    return policy.due(
        versions=newest - last, delta_bytes=segment.delta_bytes(last, newest), state_bytes=table.state_bytes
    )


def delta_of(reader: StreamReader, span: Span, base: Committed, target: Committed, deadline: Deadline) -> Delta:
    """The delta of a span that is there, whose record is checked against both its ends. SPN-4

    Raises:
        MissingObjectError: it is not there any more.
        FormatError, UnsupportedError, IntegrityError: it is no good.
    """
    try:
        record = reader.span(*span, deadline)
    except VersionNotFoundError as error:
        raise MissingObjectError(str(error)) from None
    check_span(record, base, target)
    return record.delta
