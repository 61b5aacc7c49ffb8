"""What a maintainer knows of a stream's records: read once each, as they never change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from deltawire.deadline import Deadline
from deltawire.errors import (
    BrokenChainError,
    DeltawireError,
    MissingObjectError,
    ObjectNotFoundError,
    StoreError,
    WrongStreamError,
)
from deltawire.format import keys, records
from deltawire.format.records import (
    AnchorRecord,
    Descriptor,
    Snapshot,
    SpanRecord,
    StreamRecord,
    VersionRecord,
    named_by,
)
from deltawire.maintaining.retaining import Seen
from deltawire.reading.stream import Committed, StreamReader, check_anchor
from deltawire.reading.transfer import Transfer
from deltawire.store.base import ObjectInfo

R = TypeVar("R", VersionRecord, AnchorRecord, SpanRecord)
K = TypeVar("K")
Folder = tuple[int, str]
"""A data folder: a version's number and the commit id of the record that it belongs to. KEY-4"""
Record = VersionRecord | AnchorRecord | SpanRecord


def folder_of(record: Record) -> Folder:
    """The data folder of what a record introduces."""
    return record.version, record.commit_id


def of_snapshot(snapshot: Snapshot) -> Iterator[Descriptor]:
    """Everything that a snapshot points at."""
    yield from snapshot.shards
    yield snapshot.index
    yield from snapshot.files


@dataclass(frozen=True, slots=True)
class Facts:
    """What is kept in mind of a record."""

    folder: Folder
    created_at: float | None
    """Seconds since the epoch by its writer's clock."""
    bytes: int
    """Of itself and of what it has added to the stream."""
    snapshot: bool
    inherited: tuple[str, ...]
    """Keys of data objects that it names in folders of other records. KEY-9"""


@dataclass(frozen=True, slots=True)
class Listing:
    """Which records there are, with their sizes; spans by base and target."""

    versions: dict[int, int]
    anchors: dict[int, int]
    spans: dict[tuple[int, int], int]


@dataclass
class _Known:
    versions: dict[int, Facts] = field(default_factory=dict)
    anchors: dict[int, Facts] = field(default_factory=dict)
    spans: dict[tuple[int, int], Facts] = field(default_factory=dict)
    bad: dict[str, DeltawireError] = field(default_factory=dict)
    """Why what is under a key is no record that can be used."""


class Survey:
    """Facts about the records of one stream, kept from pass to pass for what is still there."""

    def __init__(self, reader: StreamReader, stream: StreamRecord) -> None:
        self._reader = reader
        self._stream = stream
        self._transfer: Transfer = reader.transfer
        self._known = _Known()
        self._same: dict[tuple[str, ...], tuple[str, ...]] = {}
        """One tuple for all versions that inherit the same objects."""

    def listing(self, deadline: Deadline) -> Listing:
        """Which records there are now.

        Raises:
            LimitExceededError: there are too many.
        """
        return Listing(
            self._numbers(keys.VERSIONS, keys.parse_numbered, deadline),
            self._numbers(keys.ANCHORS, keys.parse_numbered, deadline),
            self._numbers(keys.SPANS, keys.parse_span, deadline),
        )

    def versions(self, listing: Listing, numbers: Iterable[int], deadline: Deadline) -> dict[int, Facts]:
        """Facts about version records; those that cannot be used are left out, and ``bad`` says why.

        Raises:
            StoreError, DeadlineExceededError: the store did not answer.
        """
        wanted = list(numbers)
        known = self._known.versions
        self._known.versions = known = {number: known[number] for number in wanted if number in known}
        sizes = listing.versions
        jobs = [(n, keys.version_key(n), sizes.get(n, 0)) for n in wanted if n not in known]
        self._learn(known, jobs, VersionRecord, deadline)
        return known

    def anchors(self, listing: Listing, numbers: Iterable[int], deadline: Deadline) -> dict[int, Facts]:
        """Facts about anchor records; see ``versions``."""
        wanted = list(numbers)
        known = self._known.anchors
        self._known.anchors = known = {number: known[number] for number in wanted if number in known}
        sizes = listing.anchors
        jobs = [(n, keys.anchor_key(n), sizes.get(n, 0)) for n in wanted if n not in known]
        self._learn(known, jobs, AnchorRecord, deadline)
        return known

    def spans(
        self, listing: Listing, ends: Iterable[tuple[int, int]], deadline: Deadline
    ) -> dict[tuple[int, int], Facts]:
        """Facts about span records by base and target; see ``versions``."""
        wanted = list(ends)
        known = self._known.spans
        self._known.spans = known = {span: known[span] for span in wanted if span in known}
        jobs = [(span, keys.span_key(*span), listing.spans.get(span, 0)) for span in wanted if span not in known]
        self._learn(known, jobs, SpanRecord, deadline)
        return known

    def bad(self, key: str) -> DeltawireError | None:
        """Why a record could not be used when it was last looked at."""
        return self._known.bad.get(key)

    def read(self, key: str, kind: type[R]) -> R | DeltawireError:
        """Read one record; in place of one that is no good or gone comes its error. Runs in the pool.

        Raises:
            StoreError: the store did not answer.
        """
        limits = self._transfer.limits
        try:
            data = self._transfer.store.get(key, max_bytes=limits.record_bytes).data
            record = records.decode(data, kind, what=key, limits=limits)
            self._check(record, key)
        except ObjectNotFoundError:
            return MissingObjectError(f"{key} is not there")
        except StoreError:
            raise
        except DeltawireError as error:
            return error
        return record

    def usable(self, number: int, *, anchored: bool, deadline: Deadline) -> bool:
        """Whether a version has a snapshot all of whose objects are in the store, of the right size. RET-2

        Raises:
            StoreError, DeadlineExceededError: the store did not answer.
        """
        try:
            version = self._reader.version(number, deadline)
        except DeltawireError as error:
            if error.retryable or isinstance(error, StoreError):
                raise
            return False
        found = [version.record.snapshot] if version.record.snapshot is not None else []
        if anchored and (anchor := self._anchor(version, deadline)) is not None:
            found.append(anchor.snapshot)
        return any(
            self._complete([version.record.tensors, *version.record.files, *of_snapshot(snapshot)], deadline)
            for snapshot in found
        )

    def _anchor(self, version: Committed, deadline: Deadline) -> AnchorRecord | None:
        try:
            anchor = self._reader.anchor(version.record.version, deadline)
            check_anchor(anchor, version)
        except DeltawireError as error:
            if error.retryable or isinstance(error, StoreError):
                raise
            return None
        return anchor

    def _complete(self, wanted: Iterable[Descriptor], deadline: Deadline) -> bool:
        store = self._transfer.store

        def there(descriptor: Descriptor) -> bool:
            try:
                return store.head(descriptor.key).bytes == descriptor.bytes
            except ObjectNotFoundError:
                return False

        unique = {descriptor.key: descriptor for descriptor in wanted}
        return all(self._transfer.map(there, unique.values(), deadline=deadline))

    def _check(self, record: Record, key: str) -> None:
        if record.stream_id != self._stream.stream_id:
            raise WrongStreamError(f"{key} belongs to stream {record.stream_id}, not {self._stream.stream_id}")
        found = keys.parse_span(key) if isinstance(record, SpanRecord) else keys.parse_numbered(key)
        if found != ((record.base, record.version) if isinstance(record, SpanRecord) else record.version):
            raise BrokenChainError(f"{key} is the record of version {record.version}")

    def _learn(self, known: dict[K, Facts], jobs: list[tuple[K, str, int]], kind: type[R], deadline: Deadline) -> None:
        found = self._transfer.map(lambda job: self.read(job[1], kind), jobs, deadline=deadline)
        for (name, key, size), record in zip(jobs, found, strict=True):
            if isinstance(record, DeltawireError):
                self._known.bad[key] = record
            else:
                self._known.bad.pop(key, None)
                known[name] = self._facts(record, size)

    def _facts(self, record: Record, size: int) -> Facts:
        own = folder_of(record)
        unique = {descriptor.key: descriptor.bytes for descriptor in named_by(record)}
        added = sum(count for key, count in unique.items() if keys.parse_data(key) == own)
        others = tuple(key for key in unique if key.startswith(keys.DATA) and keys.parse_data(key) != own)
        snapshot = isinstance(record, AnchorRecord) or (
            isinstance(record, VersionRecord) and record.snapshot is not None
        )
        return Facts(own, _time(record.created_at), size + added, snapshot, self._same.setdefault(others, others))

    def _numbers(self, prefix: str, parse: Callable[[str], K | None], deadline: Deadline) -> dict[K, int]:
        def numbered() -> dict[K, int]:
            found: dict[K, int] = {}
            for info in self._transfer.store.list(prefix):
                name = parse(info.key)
                if name is not None:
                    found[name] = info.bytes
                    self._transfer.limits.check("path_records", len(found), f"number of records below {prefix}")
            return found

        return self._transfer.call(deadline, numbered)


def seen(version: Facts, anchor: Facts | None) -> Seen:
    """What a retention policy looks at in a version."""
    return Seen(
        created_at=version.created_at,
        bytes=version.bytes + (0 if anchor is None else anchor.bytes),
        snapshot=version.snapshot or anchor is not None,
    )


def data_objects(transfer: Transfer) -> Iterator[tuple[Folder, list[ObjectInfo]]]:
    """Every data folder with the objects in it, in the order of their keys."""
    folder: Folder | None = None
    found: list[ObjectInfo] = []
    for info in transfer.store.list(keys.DATA):
        place = keys.parse_data(info.key)
        if place is None:
            continue  # KEY-5
        if folder is not None and place != folder:
            yield folder, found
            found = []
        folder = place
        found.append(info)
    if folder is not None:
        yield folder, found


def _time(stamp: str) -> float | None:
    try:
        return datetime.fromisoformat(stamp).timestamp()
    except ValueError:  # such as second 60, which the records allow
        return None
