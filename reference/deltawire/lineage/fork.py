"""Forking: a new stream that begins with a version of another one (SPEC.md section 11.11)."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec

from deltawire.consumer.pinning import pinned
from deltawire.deadline import Deadline
from deltawire.errors import (
    ConflictError,
    DeltawireError,
    InvalidArgumentError,
    StateMismatchError,
    StreamNotFoundError,
    VersionNotFoundError,
)
from deltawire.format import features, keys, records
from deltawire.format.records import HeadRecord, Origin, Snapshot, StreamRecord, VersionRecord
from deltawire.format.tensors import TensorTable
from deltawire.inspecting.history import Advance, no_progress
from deltawire.limits import DEFAULT_LIMITS, Limits
from deltawire.lineage.copying import can_be_copied, copy_snapshot
from deltawire.lineage.origin import plain_url
from deltawire.lineage.spooled import read_files, read_version, spool_version
from deltawire.producer.base import BaseState
from deltawire.producer.commit import Outcome, check_retained, create_record
from deltawire.producer.comparing import HeldArray
from deltawire.producer.envelope import envelope
from deltawire.producer.hints import write_head
from deltawire.producer.metadata import check_metadata
from deltawire.producer.opening import check_arbitration, undeclared
from deltawire.producer.signing import Signing, as_signing, encode, reader_for
from deltawire.reading.stream import Committed, StreamReader, check_anchor
from deltawire.reading.transfer import Transfer
from deltawire.reading.trust import Trust, as_trust
from deltawire.snapshots.writer import write_files, write_snapshot, write_table
from deltawire.store import open_store
from deltawire.store.base import Store, WriteBatch

if TYPE_CHECKING:
    from deltawire.ed25519 import PrivateKeyLike, PublicKeyLike

T = TypeVar("T")
How = Literal["copied", "streamed", "rebuilt"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Forked:
    """A new stream is there, with its version 0."""

    stream_id: str
    origin: Origin
    record: VersionRecord = field(repr=False)
    """Of version 0."""
    how: How
    """``copied`` by the store itself, ``streamed`` through here, at least in part, or ``rebuilt`` from deltas."""
    data_bytes: int
    """Size of the shards of version 0."""
    copied_bytes: int
    """Bytes that the store copied by itself."""
    written_bytes: int
    """Bytes of data that were sent from here."""


@dataclass(frozen=True, slots=True)
class _Data:
    snapshot: Snapshot
    how: How
    copied: int
    written: int


def fork(  # noqa: PLR0913 - options, given by name
    source: str | PathLike[str] | Store,
    destination: str | PathLike[str] | Store,
    *,
    version: int | None = None,
    metadata: Mapping[str, Any] | None = None,
    single_writer: bool = False,
    trust: Sequence[PublicKeyLike] | None = None,
    signing_key: PrivateKeyLike | None = None,
    co_signers: Sequence[PublicKeyLike] | None = None,
    shard_bytes: int = 4 << 30,
    limits: Limits = DEFAULT_LIMITS,
    timeout: float | None = None,
    advance: Advance = no_progress,
) -> Forked:
    """Make a new stream whose version 0 is a version of ``source``. FRK-1 to FRK-8

    If the version has a snapshot, its files are taken over as they are, copied by the store itself where both streams
    are in one; otherwise the state is rebuilt in a temporary file and written as a new snapshot.

    A fork that was interrupted leaves no stream, or one without versions, which the same fork finishes.

    Args:
        source: URL or store of the stream to fork.
        destination: URL or store of a place without a stream.
        version: which version; None for the newest.
        metadata: anything JSON for version 0; None repeats what the version says.
        single_writer: declare that nobody else ever writes to the new stream.
        trust: public keys by which the source must be signed, as for a ``Follower``.
        signing_key: private key that signs the new stream, as for a ``Publisher``; keys are not taken over. SIG-10
        co_signers: public keys of others who may sign it.
        shard_bytes: about how large a snapshot's files become, if it must be written anew.
        limits: what to refuse.
        timeout: seconds until giving up.
        advance: told of the bytes copied; called from several threads.

    Raises:
        PathError: there is no such stream or version, or nothing leads to it.
        InvalidArgumentError: there is a stream at the destination already.
        ConflictError, FencedError: one came into being meanwhile.
        OutcomeUnknownError: the fork may or may not be complete; the same fork finishes it, or says that it is there.
        IntegrityError, FormatError, StoreError, DeadlineExceededError: there is no new version 0.
    """
    check_metadata(metadata, limits)
    trusted, signing = as_trust(trust), as_signing(signing_key, co_signers)
    stores = [place if isinstance(place, Store) else open_store(place) for place in (source, destination)]
    transfers = [Transfer(store, limits=limits, workers=4) for store in stores]
    try:
        forking = _Forking(
            *transfers, trust=trusted, signing=signing, deadline=Deadline.after(timeout), advance=advance
        )
        return forking.run(version, metadata, single_writer=single_writer, shard_bytes=shard_bytes)
    finally:
        for transfer, store, place in zip(transfers, stores, (source, destination), strict=True):
            transfer.close()
            if store is not place:
                store.close()


class _Forking:
    def __init__(
        self,
        source: Transfer,
        destination: Transfer,
        *,
        trust: Trust | None,
        signing: Signing | None,
        deadline: Deadline,
        advance: Advance,
    ) -> None:
        self._source = StreamReader(source, trust)
        self._signing = signing
        self._destination = StreamReader(destination)
        self._store = destination.store
        self._limits = source.limits
        self._deadline = deadline
        self._advance = advance

    def run(
        self, version: int | None, metadata: Mapping[str, Any] | None, *, single_writer: bool, shard_bytes: int
    ) -> Forked:
        deadline = self._deadline
        number = self._source.latest(deadline) if version is None else version
        committed = read_version(self._source, number, deadline)
        # What it is copied from stays until it is there; one that is rebuilt is pinned by whoever rebuilds it. PIN-3
        with pinned(self._source, number, number, deadline=deadline):
            return self._make(committed, metadata, single_writer=single_writer, shard_bytes=shard_bytes)

    def _make(
        self, committed: Committed, metadata: Mapping[str, Any] | None, *, single_writer: bool, shard_bytes: int
    ) -> Forked:
        deadline, record = self._deadline, committed.record
        inherited = self._source.stream(deadline).writer_features
        features.check_features(inherited, features.WRITER_FEATURES, role="writer")  # VER-3
        own = tuple(name for name in inherited if name != "signed") + (("signed",) if self._signing is not None else ())
        origin = Origin(
            stream_id=record.stream_id,
            version=record.version,
            digest=committed.digest,
            state_digest=record.state_digest,
            url=plain_url(self._source.transfer.store.url),
        )
        if not self._store.guarantees.conditional_create and not single_writer:  # OPN-1
            raise undeclared(self._store)
        begun = self._begun(origin)
        if begun is None and not single_writer:
            self._call(lambda: check_arbitration(self._store))  # OPN-6
        stream = begun or StreamRecord(
            **envelope(str(uuid.uuid4()), "stream", epoch=0, writer_features=own),
            writers="single" if single_writer else "many",
            origin=origin,
            signing_keys=() if self._signing is None else self._signing.keys,
        )
        described = encode(stream, self._signing)
        records.decode(described, StreamRecord, what=keys.STREAM, limits=self._limits)  # LIM-4
        table = self._source.table(committed, deadline)
        head = envelope(
            stream.stream_id,
            "version",
            epoch=0,
            writer_features=stream.writer_features,
            metadata=dict(record.metadata if metadata is None else metadata),
        )
        files = read_files(self._source, committed, deadline)
        prefix = keys.data_prefix(0, head["commit_id"])
        writes = self._store.write_batch()
        data = self._store_data(committed, table, files, writes, prefix=prefix, shard_bytes=shard_bytes)
        tensors = self._call(lambda: write_table(writes, table, key=keys.table_key(0, head["commit_id"])))
        self._call(writes.finish)
        first = VersionRecord(
            **head,
            version=0,
            tensors=tensors,
            state_digest=record.state_digest,
            snapshot=data.snapshot,
            files=data.snapshot.files,
        )
        encoded, key = encode(first, self._signing), keys.version_key(0)
        first = records.decode(encoded, VersionRecord, what=key, limits=self._limits)  # LIM-4
        self._deadline.remaining()  # looked at no more after this: what is begun is finished
        # Only now, when all else is durable: a stream, and at once its version. FRK-5, FRK-6
        if begun is None:
            self._create(keys.STREAM, described)
        self._create(key, encoded)
        check_retained(self._store, stream, 0, limits=self._limits, deadline=self._deadline)
        self._write_head(stream)
        return Forked(
            stream_id=stream.stream_id,
            origin=origin,
            record=first,
            how=data.how,
            data_bytes=sum(shard.bytes for shard in data.snapshot.shards),
            copied_bytes=data.copied,
            written_bytes=data.written,
        )

    def _begun(self, origin: Origin) -> StreamRecord | None:
        """The stream record of the same fork if it was begun and not finished; None if nothing is there. FRK-3"""
        where = self._store.url
        try:
            stream = self._destination.stream(self._deadline)
        except StreamNotFoundError:
            if self._destination.numbers(keys.VERSIONS, self._deadline):
                raise InvalidArgumentError(f"there are versions, but no stream, at {where}; fork elsewhere") from None
            return None
        found = stream.origin
        if found is None or (found.stream_id, found.digest) != (origin.stream_id, origin.digest):
            raise InvalidArgumentError(f"there is a stream at {where} already; fork to another place")
        try:
            self._destination.latest(self._deadline)
        except VersionNotFoundError:
            return reader_for(self._destination.transfer, self._signing, self._deadline).stream(self._deadline)
        raise InvalidArgumentError(f"this very fork is at {where} already")

    def _store_data(
        self,
        committed: Committed,
        table: TensorTable,
        files: dict[str, bytes],
        writes: WriteBatch,
        *,
        prefix: str,
        shard_bytes: int,
    ) -> _Data:
        snapshot = committed.record.snapshot or self._anchored(committed)
        complete = snapshot is not None and snapshot.shards[-1].last_tensor == len(table.tensors) - 1
        if snapshot is not None and complete and can_be_copied(snapshot):
            copied = copy_snapshot(
                self._source.transfer,
                self._store,
                snapshot,
                prefix=prefix,
                deadline=self._deadline,
                advance=self._advance,
            )
            stored = self._call(lambda: write_files(writes, files, prefix=prefix))
            whole = msgspec.structs.replace(copied.snapshot, files=stored)
            return _Data(whole, "streamed" if copied.through else "copied", copied.by_store, copied.through)
        spooled = spool_version(self._source, committed, self._deadline)
        state = BaseState(table, [HeldArray(bits) for bits in spooled.bits])
        if f"{state.digest:016x}" != committed.record.state_digest:
            raise StateMismatchError(f"version {committed.record.version} was not rebuilt as it was")
        written = self._call(
            lambda: write_snapshot(
                writes, table, state.read, state.digests, prefix=prefix, shard_bytes=shard_bytes, files=files
            )
        )
        size = sum(shard.bytes for shard in written.shards)
        self._advance(size)
        return _Data(written, "rebuilt", 0, size)

    def _anchored(self, committed: Committed) -> Snapshot | None:
        """The snapshot of the version's anchor, if it has one that is any good. PLN-4, ANC-2"""
        try:
            anchor = self._source.anchor(committed.record.version, self._deadline)
            check_anchor(anchor, committed)
        except DeltawireError as error:
            if error.retryable:
                raise
            return None
        return anchor.snapshot

    def _create(self, key: str, data: bytes) -> None:
        if create_record(self._store, key, data, deadline=self._deadline) is Outcome.LOST:
            raise ConflictError(
                f"{key} was created at {self._store.url} by another writer meanwhile", hint="fork to another place"
            )

    def _write_head(self, stream: StreamRecord) -> None:
        head = envelope(stream.stream_id, "head", epoch=0, writer_features=stream.writer_features)
        # The fork is complete, so that no failure of the hint may be seen. HED-3
        with suppress(Exception):
            record = HeadRecord(**head, version=0, anchor=0)
            self._call(lambda: write_head(self._store, record, limits=self._limits))

    def _call(self, work: Callable[[], T]) -> T:
        return self._destination.transfer.call(self._deadline, work)
