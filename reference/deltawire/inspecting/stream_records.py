"""All records of a stream: read, held to each other, and told apart from what is not part of it any more."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

from deltawire.deadline import Deadline
from deltawire.errors import (
    BrokenChainError,
    DeltawireError,
    LimitExceededError,
    MissingObjectError,
    ObjectNotFoundError,
    PathLostError,
    VersionNotFoundError,
)
from deltawire.format import features, keys, records, strict_json
from deltawire.format.records import (
    AnchorRecord,
    Envelope,
    RetentionRecord,
    SpanRecord,
    StreamRecord,
    VersionRecord,
    named_by,
)
from deltawire.inspecting.findings import Findings, Note, Use, ranges, versions_text
from deltawire.inspecting.folders import check_beside, check_copies, check_files, check_folder, check_snapshot_names
from deltawire.inspecting.inventory import Inventory
from deltawire.inspecting.spans import check_replaced
from deltawire.inspecting.ways import Ways, unreached
from deltawire.reading.planner import Edge
from deltawire.reading.retention import Retention, read_retention
from deltawire.reading.stream import (
    Committed,
    StreamReader,
    check_anchor,
    check_follows,
    check_ours,
    check_rollback,
    check_span,
)
from deltawire.reading.transfer import Transfer
from deltawire.reading.trust import Trust

R = TypeVar("R", bound=Envelope)
Naming = VersionRecord | AnchorRecord | SpanRecord
"""A record that names data objects."""


@dataclass(frozen=True, slots=True)
class Leftover:
    """A record of a version that is not retained; ``record`` is None if it cannot be read."""

    key: str
    version: int
    record: Naming | None


@dataclass(kw_only=True)
class StreamRecords:
    """The records of the retained versions that are good, and what else was seen of records."""

    retention: Retention = field(default_factory=Retention)
    versions: dict[int, Committed] = field(default_factory=dict)
    anchors: dict[int, AnchorRecord] = field(default_factory=dict)
    spans: dict[tuple[int, int], SpanRecord] = field(default_factory=dict)
    """By base and target."""
    unlinked: set[int] = field(default_factory=set)
    """Versions that do not follow from the one before, which is there."""
    leftovers: list[Leftover] = field(default_factory=list)
    unchecked: list[Naming] = field(default_factory=list)
    """Records that can be read, but not used: what they name is not an orphan."""
    unreadable: set[int] = field(default_factory=set)
    """Versions of which some record cannot be read: nobody knows what it names."""
    holes: list[tuple[int, int]] = field(default_factory=list)
    """First and last of each run of versions that should be there."""
    lost: list[int] = field(default_factory=list)
    """Good versions to which no snapshot and chain of deltas leads."""

    @property
    def newest(self) -> int | None:
        """The newest version whose record is good."""
        return max((number for number in self.versions if number >= self.retention.boundary), default=None)

    def doubtful(self, version: int) -> bool:
        """Whether a record of this version is missing or cannot be read, so that nobody knows what it names."""
        return version in self.unreadable or any(first <= version <= last for first, last in self.holes)

    def ways(self) -> Ways:
        """The steps that the records offer."""
        return Ways(self._edges())

    def _edges(self) -> Iterator[Edge]:
        for number, version in self.versions.items():
            record = version.record
            if record.snapshot is not None:
                yield Edge("snapshot", None, number, _size(record.snapshot.shards))
            elif record.delta is not None and number - 1 in self.versions and number not in self.unlinked:
                yield Edge("delta", number - 1, number, _size(record.delta.parts))
        for number, anchor in self.anchors.items():
            yield Edge("anchor", None, number, _size(anchor.snapshot.shards))
        for (base, target), span in self.spans.items():
            yield Edge("span", base, target, _size(span.delta.parts))


def _size(descriptors: Iterable[records.Descriptor]) -> int:
    return sum(descriptor.bytes for descriptor in descriptors)


class RecordsCheck:
    """Reads every record and collects what is wrong. VRF-1"""

    def __init__(self, reader: StreamReader, inventory: Inventory, findings: Findings, deadline: Deadline) -> None:
        self._reader = reader
        self._inventory = inventory
        self._findings = findings
        self._deadline = deadline
        self._stream = reader.stream(deadline)
        self._found = StreamRecords()

    def run(self) -> StreamRecords:
        """Read and check."""
        inventory = self._inventory
        versions = dict(zip(inventory.versions, self._reader.versions(inventory.versions, self._deadline), strict=True))
        anchors = list(self._reader.transfer.map(self._load_anchor, inventory.anchors, deadline=self._deadline))
        spans = list(self._reader.span_records(inventory.spans, self._deadline))
        self._read_retention()  # after the records: whatever stands where one was collected shows now. RET-3
        self._sort_versions(versions)
        self._find_holes({number for number, found in versions.items() if not _gone(found)})
        for number, anchor in zip(inventory.anchors, anchors, strict=True):
            self._take_anchor(number, anchor)
        for (base, target), span in zip(inventory.spans, spans, strict=True):
            self._take_span(base, target, span)
        self._find_ways()
        self._note_members()
        return self._found

    def _load_anchor(self, number: int) -> AnchorRecord | DeltawireError:
        # Runs in the pool, so it must not wait for the pool.
        key = keys.anchor_key(number)
        try:
            return read_record(self._reader.transfer, key, AnchorRecord, self._reader.trust, self._stream)
        except DeltawireError as error:
            if error.retryable:
                raise
            return error

    def _read_retention(self) -> None:
        try:
            self._found.retention = read_retention(self._reader.transfer, self._stream, self._deadline)
        except DeltawireError as error:
            self._findings.add(error, keys.RETENTION, Use("retention", keys.MAX_VERSION), requirement="RET-4")
            # Nobody knows what is retained: whatever is there may be, and whatever is not need not be.
            runs = ranges(self._inventory.versions)
            if runs:
                boundary = runs[-1][0]
                self._found.retention = Retention(
                    boundary, tuple(number for number in self._inventory.versions if number < boundary)
                )

    def _sort_versions(self, loaded: dict[int, Committed | DeltawireError]) -> None:
        """Every version record, on its own and against the one before. REC-2, CHN-1 to CHN-4"""
        found = self._found
        for number, version in loaded.items():
            key, use = keys.version_key(number), Use("version", number)
            if _gone(version):
                continue
            if number not in found.retention:
                record = version.record if isinstance(version, Committed) else None
                found.leftovers.append(Leftover(key, number, record))
            elif isinstance(version, DeltawireError):
                found.unreadable.add(number)
                self._findings.add(version, key, use, requirement=_rule_of_own(version, self._stream, number))
            else:
                found.versions[number] = version
                self._check_links(version)
                self._check_names(version)

    def _check_names(self, version: Committed) -> None:
        """What the version points at; readers follow it anywhere, so it stays in use. KEY-9, FIL-1, SNP-6"""
        record, number = version.record, version.record.version
        key, use = keys.version_key(number), Use("version", number)
        before = self._found.versions.get(number - 1)
        parent = None if before is None else before.record
        rule = "KEY-9"
        try:
            if parent is not None or number == 0:
                check_folder(record, () if parent is None else named_by(parent))
            rule = "FIL-1"
            check_files(record, parent)
            rule = "SNP-6"
            check_copies(record)
            rule = "SNP-2"
            check_snapshot_names(record)
        except BrokenChainError as error:
            self._findings.add(error, key, use, requirement=rule)

    def _check_links(self, version: Committed) -> None:
        """The version against those of which it says something. CHN-1 to CHN-4, CHN-6"""
        versions, number = self._found.versions, version.record.version
        key, use = keys.version_key(number), Use("version", number)
        before = versions.get(number - 1)
        if before is not None:
            try:
                check_follows(before, version)
            except BrokenChainError as error:
                self._found.unlinked.add(number)
                self._findings.add(error, key, use, requirement=_broken_link(before, version))
        origin = version.record.rollback_of
        if origin is not None and origin.version in versions:
            with self._findings.noting(key, use, requirement="CHN-6"):
                check_rollback(version.record, versions[origin.version])

    def _find_holes(self, there: set[int]) -> None:
        """What is retained is there. VSN-2, RET-1"""
        boundary, kept = self._found.retention.boundary, self._found.retention.kept
        line = sorted(number for number in there if number >= boundary)
        if boundary and not line:
            hidden = f"; {len(there):,} records of versions before it are" if there else ""
            missing = MissingObjectError(
                f"the stream begins with version {boundary}, but neither it nor a later one is there{hidden}"
            )
            self._findings.add(missing, keys.RETENTION, Use("retention", keys.MAX_VERSION), requirement="RET-2")
        for before, after in itertools.pairwise([boundary - 1, *line]):
            if after > before + 1:
                first, last = before + 1, after - 1
                verb = "is" if first == last else "are"
                missing = MissingObjectError(
                    f"{versions_text(first, last)} {verb} missing, but version {after} is there"
                )
                self._findings.add(missing, keys.version_key(first), Use("version", first, last), requirement="VSN-2")
                self._found.holes.append((first, last))
        for number in sorted(kept - there):
            missing = MissingObjectError(f"version {number} is kept, but is not there")
            self._findings.add(missing, keys.version_key(number), Use("version", number), requirement="RET-1")
            self._found.holes.append((number, number))

    def _take_anchor(self, number: int, anchor: AnchorRecord | DeltawireError) -> None:
        found, key = self._found, keys.anchor_key(number)
        if _gone(anchor):
            return
        if number not in found.retention:
            found.leftovers.append(Leftover(key, number, anchor if isinstance(anchor, AnchorRecord) else None))
        elif isinstance(anchor, DeltawireError):
            found.unreadable.add(number)
            self._findings.add(anchor, key, Use("anchor", number))
        elif number not in found.versions and found.doubtful(number):
            found.unchecked.append(anchor)  # that its version is no good was found already
        else:
            try:
                check_ours(anchor, self._stream, key, number)
                if number not in found.versions:
                    raise BrokenChainError(f"the anchor is of version {number}, which is not there")
                check_anchor(anchor, found.versions[number])
            except DeltawireError as error:
                found.unchecked.append(anchor)
                rule = "ANC-2" if error.code == "broken_chain" else None
                self._findings.add(error, key, Use("anchor", number), requirement=rule)
            else:
                found.anchors[number] = anchor
                rule = "KEY-9"
                try:
                    check_beside(anchor, found.versions[number].record)
                    rule = "SNP-2"
                    check_snapshot_names(anchor)
                except BrokenChainError as error:
                    self._findings.add(error, key, Use("anchor", number), requirement=rule)

    def _take_span(self, base: int, target: int, span: SpanRecord | DeltawireError) -> None:
        found, key, use = self._found, keys.span_key(base, target), Use("span", target, base=base)
        if _gone(span):
            return
        if base not in found.retention or target not in found.retention:
            found.leftovers.append(Leftover(key, base, span if isinstance(span, SpanRecord) else None))
        elif isinstance(span, DeltawireError):
            found.unreadable.add(target)
            self._findings.add(span, key, use, requirement="SPN-1" if span.code == "broken_chain" else None)
        elif any(number not in found.versions and found.doubtful(number) for number in (base, target)):
            found.unchecked.append(span)
        else:
            rule = "SPN-4"
            try:
                for number in (base, target):
                    if number not in found.versions:
                        raise BrokenChainError(f"the span needs version {number}, which is not there")
                check_span(span, found.versions[base], found.versions[target])
                rule = "SPN-2"
                check_replaced(span, found.versions)
            except DeltawireError as error:
                found.unchecked.append(span)
                rules = {"broken_chain": rule, "malformed_record": "SPN-3"}
                self._findings.add(error, key, use, requirement=rules.get(error.code))
            else:
                found.spans[base, target] = span
                with self._findings.noting(key, use, requirement="KEY-9"):
                    check_beside(span, found.versions[target].record)

    def _note_members(self) -> None:
        """Members that this version of the protocol has not got, in records that no other record vouches for. VER-4"""
        versions = self._found.versions
        for number, version in versions.items():
            if number + 1 not in versions:
                self._note_members_of(keys.version_key(number), version.data, VersionRecord)
        for key, kind in ((keys.STREAM, StreamRecord), (keys.RETENTION, RetentionRecord)):
            with suppress(ObjectNotFoundError, LimitExceededError):
                data = self._reader.transfer.read_small(
                    key, max_bytes=self._reader.transfer.limits.record_bytes, deadline=self._deadline
                )
                self._note_members_of(key, data, kind)

    def _note_members_of(self, key: str, data: bytes, kind: type[Envelope]) -> None:
        with suppress(DeltawireError):  # which was found already
            members = strict_json.parse(data, what=key, limits=self._reader.transfer.limits)
            later = members.get("protocol_version") != features.PROTOCOL_VERSION
            unknown = sorted(members.keys() - set(kind.__struct_fields__))
            if unknown and not later:
                message = f"{key} has a member {unknown[0][:80]!r}, which nothing in this protocol is called"
                self._findings.notes.append(Note(about="member", key=key, message=message))

    def _find_ways(self) -> None:
        """A snapshot and steps from it must lead to every version; some have one of their own. RET-2"""
        found = self._found
        found.lost = unreached(found.versions, found.ways().reached())
        for first, last in ranges(found.lost):
            lost = PathLostError(f"no anchor, snapshot or chain of deltas leads to {versions_text(first, last)}")
            self._findings.add(lost, keys.version_key(first), Use("way", first, last))
        for number in sorted(found.retention.kept | {found.retention.boundary}):
            if number in found.versions and number not in found.lost and not self._has_snapshot(number):
                why = "is the boundary" if number == found.retention.boundary else "is kept"
                bare = PathLostError(f"version {number} {why}, but has no snapshot of its own")
                self._findings.add(bare, keys.version_key(number), Use("way", number))

    def _has_snapshot(self, number: int) -> bool:
        return number in self._found.anchors or self._found.versions[number].record.snapshot is not None


def read_record(
    transfer: Transfer, key: str, kind: type[R], trust: Trust | None = None, stream: StreamRecord | None = None
) -> R:
    """Read one record, without waiting for the pool, in which this may run. REC-2

    Args:
        transfer: of the stream.
        key: of the record.
        kind: what it should be.
        trust: whose signature it must have; None asks for none.
        stream: lists the keys, if there is ``trust``.

    Raises:
        ObjectNotFoundError: it is not there.
        MalformedRecordError, UnsupportedProtocolError, UnsupportedFeatureError, LimitExceededError: it is no good.
        BadSignatureError: it is not signed as it must be.
    """
    limits = transfer.limits
    data = transfer.store.get(key, max_bytes=limits.record_bytes).data
    record = records.decode(data, kind, what=key, limits=limits)
    if trust is not None and stream is not None:
        trust.check(record, data, stream, what=key)
    return record


def _gone(found: Committed | Envelope | DeltawireError) -> bool:
    """Whether it was listed, and has been removed since."""
    return isinstance(found, ObjectNotFoundError | VersionNotFoundError)


def _rule_of_own(error: DeltawireError, stream: StreamRecord, number: int) -> str | None:
    """What a version record breaks on its own."""
    if error.code != "broken_chain":
        return None
    return "FRK-7" if number == 0 and stream.origin is not None else "VSN-2"


def _broken_link(before: Committed, after: Committed) -> str:
    """Which link between two versions is broken, in the order in which they are checked."""
    old, new = before.record, after.record
    if new.parent is None or new.parent.digest != before.digest:
        return "CHN-1"
    if new.epoch < old.epoch:
        return "CHN-2"
    if new.delta is not None and new.tensors.digest != old.tensors.digest:
        return "CHN-3"
    return "CHN-4"
