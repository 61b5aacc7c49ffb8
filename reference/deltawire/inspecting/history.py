"""Looking into a stream: its history, and what one version changed."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from deltawire.deadline import Deadline
from deltawire.errors import DeltawireError, MissingObjectError, VersionNotFoundError
from deltawire.format import keys
from deltawire.format.records import AnchorRecord, Delta, VersionRecord
from deltawire.format.tensors import TensorTable
from deltawire.inspecting.tensor_changes import Tally, TensorChange, change_of, largest_first
from deltawire.parts.reader import read_batch
from deltawire.reading.stream import Committed, StreamReader
from deltawire.reading.transfer import RangeRequest

Advance = Callable[[int], None]
"""Called with the number of bytes that were dealt with since the last call."""


def no_progress(count: int, /) -> None:
    """Report nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    """One version of a history. Where ``error`` is set, what depends on the damaged object is None."""

    version: int
    record: VersionRecord | None = None
    record_bytes: int = 0
    anchored: bool = False
    """Whether an anchor record of this version is there."""
    elements: int | None = None
    """Stored elements of the whole state."""
    state_bytes: int | None = None
    """Size of the whole state."""
    error: DeltawireError | None = None

    @property
    def kind(self) -> str | None:
        """``delta`` or ``snapshot``."""
        return None if self.record is None else "snapshot" if self.record.delta is None else "delta"

    @property
    def changed_elements(self) -> int | None:
        """Elements whose bits differ from the parent's; all of them in a snapshot."""
        if self.record is None or self.record.delta is None:
            return self.elements
        return self.record.delta.changed_elements

    @property
    def data_bytes(self) -> int | None:
        """Size of the parts or shards."""
        return None if self.record is None else data_bytes(self.record)

    @property
    def changed_fraction(self) -> float | None:
        """Changed elements over all elements."""
        return self.changed_elements / self.elements if self.elements and self.changed_elements is not None else None

    @property
    def bytes_per_changed(self) -> float | None:
        """Stored bytes for each changed element, the record's own included; None if nothing changed."""
        if self.data_bytes is None or not self.changed_elements:
            return None
        return (self.data_bytes + self.record_bytes) / self.changed_elements

    @property
    def times_smaller(self) -> float | None:
        """Bytes of the whole state over bytes of this version, its record included."""
        if self.data_bytes is None or self.state_bytes is None:
            return None
        return self.state_bytes / (self.data_bytes + self.record_bytes)


def data_bytes(record: VersionRecord | AnchorRecord) -> int:
    """Size of a record's parts or shards."""
    if isinstance(record, VersionRecord) and record.delta is not None:
        return sum(part.bytes for part in record.delta.parts)
    assert record.snapshot is not None  # noqa: S101 - records.decode checked it (VSN-4)
    return sum(shard.bytes for shard in record.snapshot.shards)


def history(reader: StreamReader, *, limit: int | None, deadline: Deadline) -> Iterator[LogEntry]:
    """Versions, newest first; a damaged one is shown with its error instead of hiding those before it.

    Raises:
        StreamNotFoundError: there is no stream here.
        StoreError, DeadlineExceededError: the store did not answer.
    """
    reader.stream(deadline)
    try:
        newest = reader.latest(deadline)
    except VersionNotFoundError:
        return  # a stream without versions has an empty history
    anchors = set(reader.numbers(keys.ANCHORS, deadline))
    retention = reader.retention(deadline)
    line = itertools.chain(range(newest, retention.boundary - 1, -1), sorted(retention.kept, reverse=True))
    for_numbers, for_records = itertools.tee(itertools.islice(line, limit))
    for number, found in zip(for_numbers, reader.versions(for_records, deadline), strict=True):
        if isinstance(found, VersionNotFoundError):
            older = [n for n in reader.numbers(keys.VERSIONS, deadline) if n < number and n in retention]
            if not older:
                return  # what came before was removed
            missing = MissingObjectError(f"version {number} is missing, but version {older[-1]} is there")
            yield LogEntry(version=number, anchored=number in anchors, error=missing)
        elif isinstance(found, DeltawireError):
            yield LogEntry(version=number, anchored=number in anchors, error=found)
        else:
            yield _entry(reader, found, anchored=number in anchors, deadline=deadline)


def _entry(reader: StreamReader, committed: Committed, *, anchored: bool, deadline: Deadline) -> LogEntry:
    table, problem = None, None
    try:
        table = reader.table(committed, deadline)
    except DeltawireError as error:
        if error.retryable:
            raise
        problem = error
    return LogEntry(
        version=committed.record.version,
        record=committed.record,
        record_bytes=len(committed.data),
        anchored=anchored,
        elements=None if table is None else table.elements,
        state_bytes=None if table is None else table.state_bytes,
        error=problem,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionDetail:
    """A version and what it changed, tensor by tensor."""

    entry: LogEntry
    committed: Committed
    table: TensorTable
    changes: tuple[TensorChange, ...]
    """Largest first. A snapshot changes every tensor."""

    @property
    def record(self) -> VersionRecord:
        """The version's record."""
        return self.committed.record


def describe(
    reader: StreamReader, number: int | None, *, deadline: Deadline, advance: Advance = no_progress
) -> VersionDetail:
    """Read a version's record and all of its delta; None is the newest version.

    Raises:
        VersionNotFoundError: there is no such version.
        IntegrityError, FormatError: something it names is not what it should be.
    """
    wanted = reader.latest(deadline) if number is None else number
    committed = reader.version(wanted, deadline)
    reader.check_retained(wanted, deadline)
    table = reader.table(committed, deadline)
    anchored = wanted in reader.numbers(keys.ANCHORS, deadline)
    delta = committed.record.delta
    if delta is None:
        changes = largest_first(
            [change_of(tensor, tensor.elements, data_bytes=tensor.bytes) for tensor in table.tensors]
        )
    else:
        changes = _read_delta(reader, delta, table, deadline, advance)
    return VersionDetail(
        entry=_entry(reader, committed, anchored=anchored, deadline=deadline),
        committed=committed,
        table=table,
        changes=changes,
    )


def _read_delta(
    reader: StreamReader, delta: Delta, table: TensorTable, deadline: Deadline, advance: Advance
) -> tuple[TensorChange, ...]:
    tally = Tally(table)
    batches = [(part, batch) for part in delta.parts for batch in part.batches]
    requests = (RangeRequest(part.key, batch.offset, batch.bytes) for part, batch in batches)
    for (part, batch), data in zip(batches, reader.transfer.ranges(requests, deadline=deadline), strict=True):
        tally.add_batch(read_batch(data, part, batch, table, limits=reader.transfer.limits), batch.bytes)
        advance(batch.bytes)
    return tally.changes()
