"""Checking a whole stream from what is in its store (SPEC.md section 11.8)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from deltawire.consumer.follower import Follower
from deltawire.consumer.loading import CHUNK, check_room, load_snapshot
from deltawire.deadline import Deadline
from deltawire.errors import (
    BrokenChainError,
    DeltawireError,
    MissingDependencyError,
    MissingObjectError,
    ObjectNotFoundError,
    PathLostError,
    SizeMismatchError,
    StoreDeniedError,
    StreamNotFoundError,
    WrongStreamError,
)
from deltawire.format import keys, records
from deltawire.format.records import AnchorRecord, Descriptor, HeadRecord, Snapshot, VersionRecord, named_by
from deltawire.format.tensors import TensorTable
from deltawire.inspecting.history import Advance, no_progress
from deltawire.inspecting.stored_content import StoredContent
from deltawire.limits import DEFAULT_LIMITS, Limits
from deltawire.reading.leases import read_lease
from deltawire.reading.stream import Committed, StreamReader, check_anchor, check_chain, check_rollback
from deltawire.reading.transfer import Transfer
from deltawire.reading.trust import Trust, as_trust, trust_own_list
from deltawire.store.base import Store
from deltawire.targets.arrays import ArraysTarget

if TYPE_CHECKING:
    from deltawire.ed25519 import PublicKeyLike


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is not as SPEC.md says."""

    code: str
    """A code of SPEC.md section 13."""
    key: str
    """The object in which it shows."""
    message: str


@dataclass(kw_only=True)
class Verified:
    """What was looked at and what was found."""

    url: str
    deep: bool
    """Whether every state was rebuilt and its digest computed."""
    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What is worth knowing, but breaks nothing: a stale hint, objects that no record names."""
    versions: int = 0
    """Version records that could be read."""
    anchors: int = 0
    """Anchor records that could be read."""
    objects: int = 0
    """Parts, shards and files read in full."""
    bytes: int = 0
    """Their size."""
    states: int = 0
    """States rebuilt that had the digest they should have."""

    @property
    def sound(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    def add(self, error: DeltawireError, key: str) -> None:
        """Note an error. A store that fails or refuses says nothing about the stream, so its error passes through."""
        if error.retryable or isinstance(error, StoreDeniedError):
            raise error
        finding = Finding(code=error.code, key=key, message=str(error))
        if finding not in self.findings:
            self.findings.append(finding)


def verify_stream(
    store: Store,
    *,
    deep: bool = False,
    trust: Sequence[PublicKeyLike] | None = None,
    limits: Limits = DEFAULT_LIMITS,
    timeout: float | None = None,
    advance: Advance = no_progress,
) -> Verified:
    """Read every object that the records of a stream name, and hold it to them.

    Args:
        store: of the stream.
        deep: also replay every delta and load every snapshot, and compute the digest of each state. Holds up to two
            copies of the model in memory.
        trust: public keys by which the stream must be signed, as for a ``Follower``; None holds a signed stream to the
            keys that it lists itself.
        limits: what to refuse.
        timeout: seconds until giving up.
        advance: told of the bytes read; called from several threads.

    Raises:
        StreamNotFoundError: there is no stream here.
        StoreError, DeadlineExceededError: the store did not answer; nothing is known.
    """
    trusted = as_trust(trust)
    transfer = Transfer(store, limits=limits)
    try:
        return _Verification(transfer, trusted, Deadline.after(timeout), advance).run(deep=deep)
    finally:
        transfer.close()


def bytes_to_verify(store: Store) -> int:
    """Size of all data objects in the store: about what ``verify_stream`` reads."""
    return sum(info.bytes for info in store.list(keys.DATA))


class _Verification:
    def __init__(self, transfer: Transfer, trust: Trust | None, deadline: Deadline, advance: Advance) -> None:
        self._transfer = transfer
        self._store = transfer.store
        self._limits = transfer.limits
        self._reader = StreamReader(transfer, trust)
        self._deadline = deadline
        self._advance = advance
        self._result = Verified(url=transfer.store.url, deep=False)
        self._versions: dict[int, Committed] = {}
        self._anchors: dict[int, AnchorRecord] = {}
        self._tables: dict[str, TensorTable] = {}
        """Good tables by key."""
        self._lost: set[int] = set()
        """Versions to which no way leads."""
        self._named: set[str] = set()
        """Keys of objects that some record names."""

    def run(self, *, deep: bool) -> Verified:
        self._result.deep = deep
        try:
            stream = self._reader.stream(self._deadline)
            if stream.signing_keys and self._reader.trust is None:
                self._check_own_signatures()
        except StreamNotFoundError:
            raise
        except DeltawireError as error:
            self._result.add(error, keys.STREAM)
            return self._result  # nothing says what belongs to the stream
        self._read_versions()
        self._read_anchors()
        self._check_reachable()
        self._read_tables()
        self._read_data()
        self._check_head()
        self._check_lease()
        self._look_for_orphans()
        if deep:
            self._load_anchors()
            self._replay()
        return self._result

    def _check_own_signatures(self) -> None:
        """Nobody says who may sign, so the stream's own word is taken for it. SIG-11"""
        try:
            trust = trust_own_list()
        except MissingDependencyError as error:
            self._result.notes.append(f"the signatures were not checked: {error}")
            return
        self._result.notes.append(
            "signatures were held to the keys that stream.json lists; that these are the right ones was not checked"
        )
        self._reader = StreamReader(self._transfer, trust)
        self._reader.stream(self._deadline)

    def _read_versions(self) -> None:
        """Every version record, on its own and against the one before. REC-2, CHN-1 to CHN-4, KEY-9"""
        numbers = self._reader.numbers(keys.VERSIONS, self._deadline)
        for number, version in zip(numbers, self._reader.versions(numbers, self._deadline), strict=True):
            key = keys.version_key(number)
            if isinstance(version, DeltawireError):
                self._result.add(version, key)
                continue
            self._versions[number] = version
            with self._noting(key):
                check_chain([self._versions[number - 1], version] if number - 1 in self._versions else [version])
                origin = version.record.rollback_of
                if origin is not None and origin.version in self._versions:
                    check_rollback(version.record, self._versions[origin.version])
                if number == 0:
                    _check_folder(version.record, ())
                elif number - 1 in self._versions:
                    _check_folder(version.record, named_by(self._versions[number - 1].record))
        there = set(numbers)
        for number in numbers[1:]:
            if number - 1 not in there:  # versions have no holes. VSN-2
                missing = MissingObjectError(f"version {number - 1} is missing, but version {number} is there")
                self._result.add(missing, keys.version_key(number - 1))
        self._result.versions = len(self._versions)

    def _read_anchors(self) -> None:
        for number in self._reader.numbers(keys.ANCHORS, self._deadline):
            with self._noting(keys.anchor_key(number)):
                anchor = self._reader.anchor(number, self._deadline)
                if number not in self._versions:
                    raise BrokenChainError(f"the anchor is of version {number}, which is not there or no good")
                check_anchor(anchor, self._versions[number])
                self._anchors[number] = anchor
                tensors = self._versions[number].record.tensors
                _check_folder(anchor, (tensors,))
                if anchor.tensors != tensors:
                    raise BrokenChainError("the anchor has a tensor table of its own")  # KEY-9
        self._result.anchors = len(self._anchors)

    def _check_reachable(self) -> None:
        """A chain of deltas must lead from some snapshot to every version."""
        lost = self._lost
        for number in sorted(self._versions):
            follows = number - 1 in self._versions and number - 1 not in lost
            if not follows and not self._has_snapshot(number):
                lost.add(number)
        for first in sorted(number for number in lost if number - 1 not in lost):
            last = first
            while last + 1 in lost:
                last += 1
            which = f"version {first}" if last == first else f"versions {first} to {last}"
            self._result.add(
                PathLostError(f"no anchor, snapshot or chain of deltas leads to {which}"), keys.version_key(first)
            )

    def _read_tables(self) -> None:
        for version in self._versions.values():
            descriptor = version.record.tensors
            if descriptor.key in self._named:
                continue
            self._named.add(descriptor.key)
            with self._noting(descriptor.key):
                self._tables[descriptor.key] = self._reader.table(version, self._deadline)

    def _read_data(self) -> None:
        """Size and sha256 of every data object, and what the records say about its inside. DSC-3"""
        jobs = {(descriptor.key, descriptor.digest): (descriptor, table) for descriptor, table in self._data()}
        self._named |= {key for key, _ in jobs}
        done = self._transfer.map(self._check_object, jobs.values(), deadline=self._deadline)
        for (descriptor, _), error in zip(jobs.values(), done, strict=True):
            self._result.objects += 1
            self._result.bytes += descriptor.bytes
            if error is not None:
                self._result.add(error, descriptor.key)

    def _data(self) -> Iterator[tuple[Descriptor, TensorTable | None]]:
        """Every data object that a record names, with the table of the tensors in it."""
        for _, version in sorted(self._versions.items()):
            record = version.record
            yield from _untabled(record.files)
            if record.delta is not None:
                yield from _untabled(record.delta.parts)
            if record.snapshot is not None:
                yield from self._of_snapshot(record.snapshot, record.tensors.key)
        for _, anchor in sorted(self._anchors.items()):
            yield from self._of_snapshot(anchor.snapshot, anchor.tensors.key)

    def _of_snapshot(self, snapshot: Snapshot, table_key: str) -> Iterator[tuple[Descriptor, TensorTable | None]]:
        for shard in snapshot.shards:
            yield shard, self._tables.get(table_key)
        yield from _untabled((snapshot.index, *snapshot.files))

    def _check_object(self, job: tuple[Descriptor, TensorTable | None]) -> DeltawireError | None:
        # Runs in the pool, so it must not wait for the pool.
        descriptor, table = job
        key = descriptor.key
        try:
            size = self._store.head(key).bytes
            if size != descriptor.bytes:
                raise SizeMismatchError(f"{key} has {size:,} bytes, not {descriptor.bytes:,}")
            content = StoredContent(descriptor, table, limits=self._limits)
            for start in range(0, size, CHUNK):
                self._deadline.remaining()
                chunk = self._store.get_range(key, start, min(CHUNK, size - start))
                self._advance(len(chunk))
                content.take(chunk)
            content.finish()
        except ObjectNotFoundError:
            return MissingObjectError(f"{key} is named by a record, but is not there")
        except DeltawireError as error:
            return error
        return None

    def _check_head(self) -> None:
        """The hint may be missing, stale or wrong; say so if it is. HED-1"""
        newest = max(self._versions, default=None)
        if newest is None:
            return
        try:
            data = self._transfer.read_small(keys.HEAD, max_bytes=self._limits.record_bytes, deadline=self._deadline)
            head = records.decode(data, HeadRecord, what=keys.HEAD, limits=self._limits)
            if head.stream_id != self._reader.stream(self._deadline).stream_id:
                raise WrongStreamError(f"{keys.HEAD} belongs to stream {head.stream_id}")
        except ObjectNotFoundError:
            return
        except DeltawireError as error:
            if error.retryable:
                raise
            self._result.notes.append(f"the hint {keys.HEAD} is of no use: {error}")
            return
        if head.version < newest:
            self._result.notes.append(f"the hint {keys.HEAD} is stale: version {head.version}, not {newest}")

    def _check_lease(self) -> None:
        """A lease that cannot be read keeps producers out; say so. LSE-2"""
        try:
            read_lease(self._reader, self._deadline)
        except DeltawireError as error:
            if error.retryable:
                raise
            self._result.notes.append(f"the lease keeps every producer out: {error}")

    def _look_for_orphans(self) -> None:
        count = size = 0
        for info in self._store.list(keys.DATA):
            if info.key not in self._named:
                count, size = count + 1, size + info.bytes
        if count:
            what = "object is" if count == 1 else "objects are"
            self._result.notes.append(f"{count:,} {what} named by no record ({size:,} bytes)")

    def _load_anchors(self) -> None:
        for number, anchor in sorted(self._anchors.items()):
            table = self._tables.get(anchor.tensors.key)
            if table is not None:
                with self._noting(keys.anchor_key(number)):
                    self._load_anchor(anchor, table)
                    self._result.states += 1

    def _load_anchor(self, anchor: AnchorRecord, table: TensorTable) -> None:
        target = ArraysTarget()
        check_room(self._transfer, anchor.snapshot, table, table.tensors, self._deadline)
        target.begin_snapshot(table, table.tensors)
        digest = int(anchor.state_digest, 16)
        load_snapshot(
            self._transfer, anchor.snapshot, table, table.tensors, target, self._deadline, state_digest=digest
        )
        target.abort_snapshot()

    def _replay(self) -> None:
        """Rebuild every version from the one before, beginning again at a snapshot where that fails. DIG-6"""
        follower: Follower | None = None
        for number in sorted(self._versions.keys() - self._lost):
            if follower is not None and self._rebuild(follower, number):
                continue
            if follower is not None:
                follower.close()
                follower = None
            if self._has_snapshot(number):
                follower = Follower(self._store, trust=self._reader.trust, limits=self._limits)
                self._rebuild(follower, number)
        if follower is not None:
            follower.close()

    def _has_snapshot(self, number: int) -> bool:
        return self._versions[number].record.snapshot is not None or number in self._anchors

    def _rebuild(self, follower: Follower, number: int) -> bool:
        before = self._result.states
        with self._noting(keys.version_key(number)):
            follower.poll(to=number, timeout=self._deadline.remaining())
            follower.verify()
            self._result.states += 1
        return self._result.states > before

    @contextmanager
    def _noting(self, key: str) -> Iterator[None]:
        """Turn an error of the block into a finding about the object ``key``."""
        try:
            yield
        except DeltawireError as error:
            self._result.add(error, key)


def _check_folder(record: VersionRecord | AnchorRecord, others: Iterable[Descriptor]) -> None:
    """A record names objects in its own data folder, and of others only some. KEY-9. Raises BrokenChainError."""
    own, allowed = keys.data_prefix(record.version, record.commit_id), {other.key for other in others}
    for descriptor in named_by(record):
        if not descriptor.key.startswith(own) and descriptor.key not in allowed:
            raise BrokenChainError(f"{descriptor.key} is another write's, and not for this {record.kind} to name")


def _untabled(descriptors: Iterable[Descriptor]) -> Iterator[tuple[Descriptor, None]]:
    return ((descriptor, None) for descriptor in descriptors)
