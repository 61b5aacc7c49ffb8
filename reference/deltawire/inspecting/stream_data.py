"""Everything that the records of a stream name: tensor tables read, data objects held to their descriptors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from deltawire.consumer.loading import CHUNK
from deltawire.deadline import Deadline
from deltawire.errors import (
    DeltawireError,
    DigestMismatchError,
    MissingObjectError,
    ObjectNotFoundError,
    SizeMismatchError,
)
from deltawire.format.records import AnchorRecord, Descriptor, Part, Shard, Snapshot, SpanRecord
from deltawire.format.strict_json import sha256
from deltawire.format.tensors import TensorTable
from deltawire.inspecting.findings import Findings, Kind, Use, add_use
from deltawire.inspecting.history import Advance
from deltawire.inspecting.stored_content import StoredContent
from deltawire.inspecting.stream_records import Naming, StreamRecords
from deltawire.reading.stream import StreamReader


@dataclass
class Named:
    """An object that records name, and what for."""

    descriptor: Descriptor
    uses: list[Use] = field(default_factory=list)


@dataclass(kw_only=True)
class StreamData:
    """What was read."""

    tables: dict[Descriptor, TensorTable] = field(default_factory=dict)
    """Good tables, as version records describe them."""
    objects: int = 0
    """Parts, shards and files read in full."""
    bytes: int = 0
    """Their size."""


class DataCheck:
    """Reads every object that a good record of a retained version names, each once. VRF-1"""

    def __init__(
        self,
        reader: StreamReader,
        records: StreamRecords,
        findings: Findings,
        deadline: Deadline,
        advance: Advance,
    ) -> None:
        self._reader = reader
        self._transfer = reader.transfer
        self._records = records
        self._findings = findings
        self._deadline = deadline
        self._advance = advance
        self._found = StreamData()

    def run(self) -> StreamData:
        """Read and check."""
        self._read_tables()
        self._read_objects()
        return self._found

    def _read_tables(self) -> None:
        """Every tensor table, once. DSC-3, TAB-1 to TAB-5"""
        users: dict[Descriptor, list[Use]] = {}
        for number, version in sorted(self._records.versions.items()):
            add_use(users.setdefault(version.record.tensors, []), Use("table", number))
        for descriptor, uses in users.items():
            with self._findings.noting(descriptor.key, *uses):
                version = self._records.versions[uses[0].version]
                self._found.tables[descriptor] = self._reader.table(version, self._deadline)

    def _read_objects(self) -> None:
        """Size and sha256 of every data object, and what the records say about its inside. DSC-3"""
        jobs = list(collect_named(self._records).values())
        for named, error in zip(jobs, self._transfer.map(self._check, jobs, deadline=self._deadline), strict=True):
            descriptor = named.descriptor
            self._found.objects += 1
            self._found.bytes += descriptor.bytes
            if error is not None:
                usable = isinstance(descriptor, Part) and self._batches_whole(descriptor)
                self._findings.add(error, descriptor.key, *named.uses, usable=usable)

    def _check(self, named: Named) -> DeltawireError | None:
        # Runs in the pool, so it must not wait for the pool.
        descriptor, store = named.descriptor, self._transfer.store
        key = descriptor.key
        try:
            size = store.head(key).bytes
            if size != descriptor.bytes:
                raise SizeMismatchError(f"{key} has {size:,} bytes, not {descriptor.bytes:,}")
            version = self._records.versions[named.uses[0].version]  # readers of an anchor take its version's table
            table = self._found.tables.get(version.record.tensors) if isinstance(descriptor, Shard) else None
            content = StoredContent(descriptor, table, limits=self._transfer.limits)
            for start in range(0, size, CHUNK):
                self._deadline.remaining()
                chunk = store.get_range(key, start, min(CHUNK, size - start))
                self._advance(len(chunk))
                content.take(chunk)
            content.finish()
        except ObjectNotFoundError:
            return MissingObjectError(f"{key} is named by a record, but is not there")
        except DeltawireError as error:
            return error
        return None

    def _batches_whole(self, part: Part) -> bool:
        """Whether a damaged part has what readers fetch of it: its batches, and not what is around them."""

        def check(place: tuple[int, int, str]) -> None:
            start, size, digest = place
            if sha256(self._transfer.store.get_range(part.key, start, size)) != digest:
                raise DigestMismatchError(f"{part.key} is damaged at {start}")

        places = [(batch.offset, batch.bytes, batch.digest) for batch in part.batches]
        try:
            for _ in self._transfer.map(check, places, deadline=self._deadline):
                pass
        except DeltawireError as error:
            if error.retryable:
                raise
            return False
        return True


def collect_named(records: StreamRecords) -> dict[object, Named]:
    """The data objects that good records name, each once; one that is named in different ways, once for each."""
    found: dict[object, Named] = {}
    for record in _checked(records):
        for descriptor, use in _objects_of(record):
            plain = (descriptor.key, descriptor.bytes, descriptor.digest)
            identity = descriptor if isinstance(descriptor, Part | Shard) else plain
            add_use(found.setdefault(identity, Named(descriptor)).uses, use)
    return found


def _checked(records: StreamRecords) -> Iterator[Naming]:
    yield from (version.record for _, version in sorted(records.versions.items()))
    yield from (anchor for _, anchor in sorted(records.anchors.items()))
    yield from (span for _, span in sorted(records.spans.items()))


def _objects_of(record: Naming) -> Iterator[tuple[Descriptor, Use]]:
    """The data objects that a record names, and what they are for."""
    number = record.version
    if isinstance(record, AnchorRecord):
        yield from _of_snapshot(record.snapshot, "anchor", number)
    elif isinstance(record, SpanRecord):
        yield from ((part, Use("part", number, kind="span", base=record.base)) for part in record.delta.parts)
    else:
        if record.delta is not None:
            for part in record.delta.parts:
                yield part, Use("part", number, kind="delta", base=number - 1)
        if record.snapshot is not None:
            yield from _of_snapshot(record.snapshot, "snapshot", number)
        yield from ((file, Use("file", number)) for file in record.files)


def _of_snapshot(snapshot: Snapshot, kind: Kind, number: int) -> Iterator[tuple[Descriptor, Use]]:
    yield from ((shard, Use("shard", number, kind=kind)) for shard in snapshot.shards)
    yield snapshot.index, Use("index", number)
    yield from ((file, Use("copy", number)) for file in snapshot.files)
