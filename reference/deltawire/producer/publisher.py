"""Publishing versions (SPEC.md sections 11.1 to 11.3)."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from deltawire.deadline import Deadline
from deltawire.errors import (
    ConflictError,
    DeadlineExceededError,
    DeltawireError,
    FencedError,
    InvalidArgumentError,
    OutcomeUnknownError,
    SourceChangedError,
    StoreError,
)
from deltawire.format import keys, records
from deltawire.format.records import HeadRecord, Parent, VersionRecord, check_file_name
from deltawire.format.strict_json import sha256
from deltawire.format.tensors import TensorTable, build_table
from deltawire.heartbeat import GRACE
from deltawire.holders import this_process
from deltawire.limits import DEFAULT_LIMITS, Limits
from deltawire.parts.writer import PartOptions
from deltawire.producer.anchoring import Anchoring
from deltawire.producer.anchors import AnchorPolicy
from deltawire.producer.commit import Outcome, check_parent, check_retained, create_record
from deltawire.producer.contents import Contents, store_delta, store_snapshot
from deltawire.producer.encoding import Encoder, EncodingPool
from deltawire.producer.envelope import envelope
from deltawire.producer.hints import write_head
from deltawire.producer.lease import DEFAULT_TTL, LeaseTerms
from deltawire.producer.metadata import check_metadata
from deltawire.producer.opening import Line, open_line
from deltawire.producer.published import Published, PublishTimings
from deltawire.producer.signing import as_signing, encode
from deltawire.producer.source import Source
from deltawire.producer.sources import StateLike, auxiliary_files, open_source
from deltawire.producer.uploads import Uploads
from deltawire.reading.stream import Committed
from deltawire.store.base import Store

if TYPE_CHECKING:
    from deltawire.ed25519 import PrivateKeyLike, PublicKeyLike

_MASK = (1 << 64) - 1


class Publisher:
    """Publishes versions of one model into a stream, and keeps the bits of the last one as the base of the next.

    Opening creates the stream, or takes it over where the producer before left it: it acquires the stream's lease,
    which a thread renews until the publisher is closed, and reads the newest version back as the base. Where another
    producer may be gone, that is observed for as long as its ttl. Holds one copy of the model: of torch tensors on an
    accelerator, on that device.

    Args:
        store: URL or store of the stream.
        anchors: when to write full snapshots besides the first.
        absolute: create the stream for consumers that keep no copy of the bits; costs about a byte a changed element.
        ranked: create the stream for the codec ``ranked``: a third fewer bytes, but not every consumer can read it, and
            applying a version costs a look at every old weight instead of those that change.
        single_writer: declare that nobody else ever writes; needed on stores that cannot arbitrate. There is no lease.
        signing_key: sign records with this Ed25519 private key (the path of a PKCS8 PEM file, its text, or a key
            object of ``cryptography``). A new stream is then signed for good; a signed stream needs one of its keys.
        co_signers: public keys of others who sign this stream (``ed25519:<hex>``, PEM or the path of a PEM file): a new
            stream lists them, such as the key that this one will be replaced by; and a stream that one of them
            created is believed. SIG-9
        take_over: take the stream from whoever holds it, without waiting; whoever that is, is done for good.
        lease_ttl: seconds without a sign of life from this publisher after which others may take it for gone.
        holder: what others are told of who holds the stream; None says the host and the process.
        parts: sizes and compression of parts.
        shard_bytes: about how large a snapshot's files become.
        workers: threads that encode, and as many that upload, or four.
        device_base: hold the copy of tensors that are on an accelerator there too: they are compared there, and little
            but what changed is copied out. It takes as much memory of the device as they do. Otherwise it is held on
            the CPU, and every tensor is copied over at each publish, in bounded chunks.
        limits: what to refuse when reading the stream back.
        timeout: seconds for opening.

    Raises:
        LeaseHeldError: another producer holds the stream.
        StoreUnfitError, InvalidArgumentError, UnsupportedFeatureError: the stream cannot be written as asked.
        BadSignatureError: what is in the stream is not signed by whom it must be.
    """

    def __init__(  # noqa: PLR0913 - options, given by name
        self,
        store: str | PathLike[str] | Store,
        *,
        anchors: AnchorPolicy | None = None,
        absolute: bool = False,
        ranked: bool = False,
        single_writer: bool = False,
        signing_key: PrivateKeyLike | None = None,
        co_signers: Sequence[PublicKeyLike] | None = None,
        take_over: bool = False,
        lease_ttl: float = DEFAULT_TTL,
        holder: str | None = None,
        parts: PartOptions | None = None,
        shard_bytes: int = 4 << 30,
        workers: int = 2,
        device_base: bool = True,
        limits: Limits = DEFAULT_LIMITS,
        timeout: float | None = 600.0,
    ) -> None:
        from deltawire.store import open_store  # noqa: PLC0415 - stores are imported when one is opened

        if absolute and ranked:
            raise InvalidArgumentError("ranks are among old weights, which readers of an absolute stream do not keep")
        signing = as_signing(signing_key, co_signers)
        self._store = store if isinstance(store, Store) else open_store(store)
        self._opened = self._store is not store
        self._parts = parts or PartOptions()
        self._shard_bytes = shard_bytes
        self._device_base = device_base
        self._limits = limits
        self._line: Line = open_line(
            self._store,
            absolute=absolute,
            ranked=ranked,
            single_writer=single_writer,
            signing=signing,
            terms=LeaseTerms(ttl=lease_ttl, take_over=take_over, holder=holder or this_process()),
            limits=limits,
            workers=max(workers, 4),
            deadline=Deadline.after(timeout),
        )
        self._features = self._line.stream.writer_features
        self._encoding = EncodingPool(Encoder.of(self._features), workers=workers)
        self._uploads = Uploads(self._store, workers=max(workers, 4))
        self._anchoring = Anchoring(
            self._store,
            self._line,
            policy=anchors or AnchorPolicy(),
            shard_bytes=shard_bytes,
            limits=limits,
        )
        self._stopped: DeltawireError | None = None
        self._publishing = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self, *, timeout: float | None = 600.0) -> None:
        """Release the lease, let an anchor that is being written finish, and release the threads."""
        deadline = Deadline.after(timeout)
        self._stopped = self._stopped or InvalidArgumentError("the publisher is closed")
        self._release(timeout)
        self._anchoring.wait(deadline.left())
        self._uploads.close(deadline.left())
        self._encoding.close()
        if self._opened:
            self._store.close()

    @property
    def version(self) -> int | None:
        """The last version committed; None before version 0."""
        return None if self._line.parent is None else self._line.parent.record.version

    @property
    def stream_id(self) -> str:
        """Identity of the stream."""
        return self._line.stream.stream_id

    @property
    def anchor_version(self) -> int | None:
        """The newest version that is known to have a snapshot."""
        return self._line.anchor

    @property
    def anchor_error(self) -> Exception | None:
        """Why the last anchor could not be written, if it could not; the line of versions goes on without."""
        return self._anchoring.error

    @property
    def epoch(self) -> int:
        """The epoch that stands in the records of this publisher."""
        if self._line.heartbeat is not None:
            return self._line.heartbeat.lease.epoch
        return 0 if self._line.parent is None else self._line.parent.record.epoch  # REC-6

    def wait_for_anchor(self, *, timeout: float | None = None) -> bool:
        """Wait for an anchor that is being written; whether none is any more."""
        return self._anchoring.wait(timeout)

    def publish(
        self,
        state: StateLike,
        *,
        metadata: Mapping[str, Any] | None = None,
        files: Mapping[str, bytes] | None = None,
        dtypes: Mapping[str, str] | None = None,
        timeout: float | None = 600.0,
    ) -> Published:
        """Commit a state as the next version. It is durable, with everything it needs, when this returns.

        Args:
            state: torch tensors, NumPy arrays, a torch module or a safetensors directory. It must not change meanwhile.
            metadata: anything JSON, such as the training step.
            files: auxiliary files by name; None keeps those of the version before (or a directory's own).
            dtypes: registry dtypes of NumPy arrays that hold bit patterns, by tensor name.
            timeout: seconds until giving up.

        Raises:
            ConflictError, FencedError: another writer has the line; this publisher is done for good.
            OutcomeUnknownError: it may or may not be committed; open the stream again to see.
            SourceChangedError: the state changed meanwhile, and a mix of old and new may be committed; open the
                stream again to go on.
            InvalidStateError, StoreError, DeadlineExceededError: nothing was committed; try again.
        """
        if not self._publishing.acquire(blocking=False):
            raise InvalidArgumentError("this publisher is publishing already, in another thread")
        try:
            if self._stopped is not None:
                raise type(self._stopped)(str(self._stopped))
            deadline = Deadline.after(timeout)
            self._check_lease()
            source = open_source(state, dtypes=dtypes or {}, limits=self._limits, device_base=self._device_base)
            source.settle()
            table = self._table_of(source)
            kept = self._files_for(state, files)
            check_metadata(metadata, self._limits)
            return self._publish(source, table, kept, metadata, deadline)
        except (ConflictError, FencedError, OutcomeUnknownError, SourceChangedError) as error:
            self._stopped = type(error)(str(error))  # not the error itself: its traceback holds the state
            raise
        finally:
            try:
                self._uploads.abandon()
                if self._stopped is not None:  # for good, so that another may follow at once. LSE-11
                    self._release(GRACE)
            finally:
                self._publishing.release()

    def _check_lease(self) -> None:
        if self._line.heartbeat is not None:
            try:
                self._line.heartbeat.lease.check()
            except FencedError as error:
                self._stopped = FencedError(str(error))
                raise

    def _confirm_lease(self, deadline: Deadline) -> None:
        """Before a commit: a writer that may be taken to be gone, such as one that was asleep, asks first. LSE-10"""
        if self._line.heartbeat is not None:
            lease = self._line.heartbeat.lease
            if lease.stale:
                self._uploads.run(lease.renew, deadline)
            lease.check()

    def _release(self, timeout: float | None) -> None:
        if self._line.heartbeat is not None:
            self._line.heartbeat.stop(timeout)

    def _table_of(self, source: Source) -> TensorTable:
        """The base's own table if the state still fits it, else a new one, which makes a rebase (VSN-5)."""
        base = self._line.base
        if base is not None:
            entries = base.table.entries
            same = source.entries == entries or set(source.entries) == set(entries)
            if same and base.table.aliases == source.aliases:
                return base.table
        return build_table(source.entries, aliases=source.aliases, limits=self._limits)

    def _files_for(self, state: StateLike, files: Mapping[str, bytes] | None) -> dict[str, bytes]:
        if files is None:
            is_directory = isinstance(state, (str, PathLike)) and Path(state).is_dir()
            files = auxiliary_files(Path(state)) if is_directory else self._line.files
        if not isinstance(files, Mapping):
            raise InvalidArgumentError(f"files maps names to bytes; it is a {type(files).__name__}")
        for name, data in files.items():
            try:
                check_file_name(name)
            except DeltawireError as error:
                raise InvalidArgumentError(str(error)) from None
            if not isinstance(data, bytes):
                raise InvalidArgumentError(f"file {name!r} is given as {type(data).__name__}, not as bytes")
        return dict(files)

    def _publish(
        self,
        source: Source,
        table: TensorTable,
        files: dict[str, bytes],
        metadata: Mapping[str, Any] | None,
        deadline: Deadline,
    ) -> Published:
        started = time.perf_counter()
        parent = self._line.parent
        version = 0 if parent is None else parent.record.version + 1
        head = envelope(
            self.stream_id,
            "version",
            epoch=self.epoch,
            writer_features=self._features,
            metadata=dict(metadata or {}),
        )
        contents = self._store_contents(source, table, files, head["commit_id"], deadline)
        record = VersionRecord(
            **head,
            version=version,
            parent=None if parent is None else Parent(version=parent.record.version, digest=parent.digest),
            tensors=contents.tensors,
            state_digest=f"{contents.state_digest:016x}",
            delta=contents.delta,
            snapshot=contents.snapshot,
            files=contents.files,
            rollback_of=source.rollback_of,
        )
        committing = time.perf_counter()
        committed = self._commit(record, deadline)
        advancing = time.perf_counter()
        contents.advance(source)
        advanced = time.perf_counter()
        self._end(committed, contents, files, deadline)
        return Published(
            version=version,
            record=committed.record,
            state_digest=record.state_digest,
            changed_elements=contents.changed_elements,
            changed_tensors=contents.changed_tensors,
            elements=table.elements,
            data_bytes=contents.data_bytes,
            record_bytes=len(committed.data),
            state_bytes=table.state_bytes,
            timings=PublishTimings(
                encode_seconds=contents.encode_seconds,
                upload_seconds=contents.upload_seconds,
                commit_seconds=advancing - committing,
                advance_seconds=advanced - advancing,
                total_seconds=time.perf_counter() - started,
            ),
        )

    def _store_contents(
        self, source: Source, table: TensorTable, files: dict[str, bytes], commit_id: str, deadline: Deadline
    ) -> Contents:
        self._uploads.waited = 0.0
        base, parent = self._line.base, self._line.parent
        if base is not None and parent is not None and table is base.table:
            return store_delta(
                base,
                source,
                parent=parent.record,
                commit_id=commit_id,
                uploads=self._uploads,
                encoding=self._encoding,
                options=self._parts,
                files=files,
                deadline=deadline,
            )
        if not self._anchoring.wait(deadline.remaining()):  # an anchor of the old base is still reading it
            raise DeadlineExceededError("an anchor was still being written at the deadline")
        self._line.base = base = None  # from here on there is one copy of the model again, and it is the new one
        return store_snapshot(
            table,
            source,
            version=0 if parent is None else parent.record.version + 1,
            commit_id=commit_id,
            uploads=self._uploads,
            shard_bytes=self._shard_bytes,
            files=files,
            deadline=deadline,
        )

    def _commit(self, record: VersionRecord, deadline: Deadline) -> Committed:
        """Create the version record, and say what happened if that is not what happened. CMT-3, CMT-8"""
        data = encode(record, self._line.signing)
        key = keys.version_key(record.version)
        record = records.decode(
            data, VersionRecord, what=key, limits=self._limits
        )  # no reader takes what fails here. LIM-4
        deadline.remaining()
        self._confirm_lease(deadline)
        parent = self._line.parent
        if parent is not None and not self._store.guarantees.conditional_create:
            parent_key = keys.version_key(parent.record.version)
            self._uploads.run(lambda: check_parent(self._store, parent_key, parent.data), deadline)
        # Until the line stands at the new version, whatever interrupts us leaves that unfinished. CMT-9
        self._stopped = OutcomeUnknownError(f"the commit of version {record.version} was interrupted")
        try:
            outcome = self._uploads.commit(lambda: self._create(record.version, data, deadline), deadline)
        except (StoreError, DeadlineExceededError):
            self._stopped = None  # nothing was committed
            raise
        if outcome is Outcome.LOST:
            raise self._overtaken(record, key, deadline)
        return Committed(record, sha256(data), data)

    def _create(self, version: int, data: bytes, deadline: Deadline) -> Outcome:
        outcome = create_record(self._store, keys.version_key(version), data, deadline=deadline)
        # Whoever's it is: below the boundary what is there tells nothing of what was there. CMT-11
        check_retained(self._store, self._line.stream, version, limits=self._limits, deadline=deadline)
        return outcome

    def _overtaken(self, record: VersionRecord, key: str, deadline: Deadline) -> ConflictError | FencedError:
        limit = self._limits.record_bytes
        try:
            stored = self._uploads.run(lambda: self._store.get(key, max_bytes=limit).data, deadline)
            other = records.decode(stored, VersionRecord, what=key, limits=self._limits)
        except DeltawireError as error:
            return ConflictError(f"version {record.version} was committed by another writer ({error})")
        who = f"{other.producer.name!r} {other.producer.version!r} at {other.created_at}"
        if other.epoch > record.epoch:
            return FencedError(f"version {record.version} was committed in epoch {other.epoch} by {who}")  # CMT-8
        if other.epoch < record.epoch:  # the holder before us was in the middle of it. LSE-12
            return ConflictError(
                f"version {record.version} was committed in the earlier epoch {other.epoch} by {who}",
                hint="the last version of the producer before this one arrived late; open the stream again to go on",
            )
        return ConflictError(f"version {record.version} was committed by another writer: {who}")

    def _end(self, committed: Committed, contents: Contents, files: dict[str, bytes], deadline: Deadline) -> None:
        """Stand at the new version; then what may fail without harm: an anchor in the background, and the hint."""
        line = self._line
        line.parent, line.base, line.files = committed, contents.base, files
        if contents.snapshot is None:
            line.delta_bytes += contents.data_bytes
        else:
            line.anchor, line.anchor_bytes = committed.record.version, line.delta_bytes
        self._stopped = None
        self._anchoring.consider(committed)
        head = self._head(committed)
        # The version is committed, so that no failure of the hint may be seen. HED-3
        with suppress(Exception):
            self._uploads.run(lambda: write_head(self._store, head, limits=self._limits), deadline)

    def _head(self, committed: Committed) -> HeadRecord:
        record = committed.record
        head = envelope(self.stream_id, "head", epoch=record.epoch, writer_features=self._features)
        return HeadRecord(**head, version=record.version, anchor=self._line.anchor)
