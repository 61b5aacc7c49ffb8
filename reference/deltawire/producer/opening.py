"""Opening a stream for writing: create it, or take up where the store says it stands (SPEC.md section 11.1)."""

from __future__ import annotations

import time
import uuid
from contextlib import suppress
from dataclasses import dataclass, field

from deltawire.consumer.follower import Follower
from deltawire.deadline import Deadline
from deltawire.errors import (
    InvalidArgumentError,
    ObjectExistsError,
    StoreError,
    StoreUnfitError,
    StreamNotFoundError,
    VersionNotFoundError,
)
from deltawire.format import features, keys, records
from deltawire.format.records import StreamRecord
from deltawire.heartbeat import GRACE
from deltawire.limits import Limits
from deltawire.producer.base import BaseState
from deltawire.producer.commit import create_record
from deltawire.producer.comparing import HeldArray
from deltawire.producer.envelope import envelope
from deltawire.producer.heartbeat import LeaseHeartbeat
from deltawire.producer.lease import LeaseTerms, WriterLease
from deltawire.producer.signing import Signing, encode, reader_for
from deltawire.reading.stream import Committed, StreamReader
from deltawire.reading.transfer import Transfer
from deltawire.store.base import Store
from deltawire.targets.arrays import ArraysTarget


@dataclass
class Line:
    """Where a stream stands, as its producer knows it."""

    stream: StreamRecord
    parent: Committed | None = None
    """The last version committed; None before version 0."""
    base: BaseState | None = None
    """Its bits."""
    files: dict[str, bytes] = field(default_factory=dict)
    """Its auxiliary files."""
    anchor: int | None = None
    """Newest version known to have a snapshot."""
    delta_bytes: int = 0
    """Size of all deltas written or replayed here."""
    anchor_bytes: int = 0
    """``delta_bytes`` when the anchor's version was committed."""
    heartbeat: LeaseHeartbeat | None = None
    """What keeps the lease; None for a single writer, or where the store cannot swap (STO-4)."""
    signing: Signing | None = None
    """How its records are signed, if they are."""


def open_line(
    store: Store,
    *,
    absolute: bool,
    ranked: bool,
    single_writer: bool,
    signing: Signing | None,
    terms: LeaseTerms,
    limits: Limits,
    workers: int,
    deadline: Deadline,
) -> Line:
    """Create the stream if there is none, take its lease, and read its newest version into a base. OPN-1 to OPN-7

    Raises:
        LeaseHeldError: another producer holds the stream.
        StoreUnfitError: the store cannot arbitrate between writers, and no single writer was declared.
        InvalidArgumentError: the stream was created otherwise than asked for, or its records need another signature.
        BadSignatureError: it is signed, but something in it is not by whom it must be.
        UnsupportedFeatureError: it needs a writer feature that is not implemented here.
        VersionNotFoundError: it is a fork that was not finished.
    """
    if not store.guarantees.conditional_create and not single_writer:
        raise undeclared(store)
    transfer = Transfer(store, limits=limits, workers=workers)
    try:
        reader = StreamReader(transfer)
        stream: StreamRecord | None
        try:
            stream = reader.stream(deadline)
        except StreamNotFoundError:
            stream = _created_meanwhile(reader, deadline)
        if stream is None:
            if not single_writer:
                transfer.call(deadline, lambda: check_arbitration(store))
            # Whoever loses this race reads the winner's record and goes on with it. OPN-2
            data = _stream_record(
                absolute=absolute, ranked=ranked, single_writer=single_writer, signing=signing, limits=limits
            )
            transfer.call(deadline, lambda: create_record(store, keys.STREAM, data, deadline=deadline))
            stream = reader.stream(deadline)
        _check_stream(stream, store, absolute=absolute, ranked=ranked)
        reader = reader_for(transfer, signing, deadline)
        stream = reader.stream(deadline)
        if stream.origin is not None:
            _check_fork(reader, deadline)
        if stream.writers == "single" or not store.guarantees.compare_and_swap:
            return _read_line(store, reader, signing, terms, limits=limits, workers=workers, deadline=deadline)
        lease = WriterLease(store, stream, terms, limits=limits)
        _acquire(transfer, lease, deadline)
        heartbeat = LeaseHeartbeat(lease)
        try:
            # Only now: whatever the holder before committed until it was fenced is in the line. OPN-7
            line = _read_line(store, reader, signing, terms, limits=limits, workers=workers, deadline=deadline)
            if line.parent is not None:
                newest = line.parent.record.epoch
                transfer.call(deadline, lambda: lease.rise_above(newest))
        except BaseException:
            heartbeat.stop(GRACE)
            raise
        line.heartbeat = heartbeat
        return line
    finally:
        transfer.close()


def _created_meanwhile(reader: StreamReader, deadline: Deadline) -> StreamRecord | None:
    """The stream of the versions that are there, where none was found before; None if there are none.

    Raises:
        StreamNotFoundError: there are versions, but their ``stream.json`` is lost. OPN-2
    """
    if not reader.numbers(keys.VERSIONS, deadline):
        return None
    try:
        return reader.stream(deadline)
    except StreamNotFoundError as error:
        raise StreamNotFoundError(
            f"{error}, but there are versions of one", hint="put its stream.json back, or publish elsewhere"
        ) from None


def _acquire(transfer: Transfer, lease: WriterLease, deadline: Deadline) -> None:
    # The waiting is done here and not in the pool, where Ctrl-C could not end it. LSE-6
    while (wait := transfer.call(deadline, lease.attempt)) is not None:
        left = deadline.left()
        if left is not None and left < wait:
            raise transfer.call(deadline, lease.unsettled)
        time.sleep(wait)


def undeclared(store: Store) -> StoreUnfitError:
    """The error where a store cannot arbitrate between writers, and no single writer was declared. OPN-1"""
    other = f"; {store.alternative}" if store.alternative else ""
    return StoreUnfitError(
        f"{store.url} cannot arbitrate between writers",
        hint=f"if nobody else ever writes to this stream, say so with --single-writer (single_writer=True){other}",
    )


def check_arbitration(store: Store) -> None:
    """Try once what every commit rests on: some servers take a conditional create and ignore the condition. OPN-6

    Raises:
        StoreUnfitError: a second create replaced the first.
    """
    key = f"{keys.PROBES}{uuid.uuid4()}"
    store.put(key, b"first", mode="create")
    try:
        store.put(key, b"second", mode="create")
    except ObjectExistsError:
        return
    finally:
        with suppress(StoreError):
            store.delete(key)
    raise StoreUnfitError(f"{store.url} takes conditional creates, but ignores the condition")


def _stream_record(
    *, absolute: bool, ranked: bool, single_writer: bool, signing: Signing | None, limits: Limits
) -> bytes:
    wanted = {"absolute": absolute, "ranked": ranked, "signed": signing is not None}
    names = tuple(name for name, asked in wanted.items() if asked)
    record = StreamRecord(
        **envelope(str(uuid.uuid4()), "stream", epoch=0, writer_features=names),
        writers="single" if single_writer else "many",
        signing_keys=() if signing is None else signing.keys,
    )
    data = encode(record, signing)
    records.decode(data, StreamRecord, what=keys.STREAM, limits=limits)  # LIM-4
    return data


def _check_stream(stream: StreamRecord, store: Store, *, absolute: bool, ranked: bool) -> None:
    features.check_features(stream.writer_features, features.WRITER_FEATURES, role="writer")  # VER-3
    if stream.writers == "many" and not store.guarantees.conditional_create:  # STR-3
        message = "the stream allows many writers, but this store cannot arbitrate between them"
        raise StoreUnfitError(message, hint=store.alternative or None)
    if absolute and "absolute" not in stream.writer_features:
        raise InvalidArgumentError("the stream was not created as absolute")
    if ranked and "ranked" not in stream.writer_features:
        raise InvalidArgumentError("the stream was not created for the codec ranked")


def _check_fork(reader: StreamReader, deadline: Deadline) -> None:
    """The first version of a fork is the fork's to write. FRK-8"""
    try:
        reader.latest(deadline)
    except VersionNotFoundError:
        raise VersionNotFoundError(
            "the stream is a fork whose version 0 is not there yet", hint="fork again: that finishes it"
        ) from None


def _read_line(
    store: Store,
    reader: StreamReader,
    signing: Signing | None,
    terms: LeaseTerms,
    *,
    limits: Limits,
    workers: int,
    deadline: Deadline,
) -> Line:
    stream = reader.stream(deadline)
    try:
        reader.latest(deadline)
    except VersionNotFoundError:
        return Line(stream, signing=signing)
    target = ArraysTarget()
    with Follower(
        store,
        target,
        trust=reader.trust,
        limits=limits,
        workers=workers,
        pin_ttl=terms.ttl,  # a producer that dies here is gone as soon as its lease is
        holder=terms.holder,
    ) as follower:
        update = follower.poll(timeout=deadline.remaining())
    held = target.held
    assert update is not None  # noqa: S101 - there is a version, and the target held none
    assert held is not None  # noqa: S101 - poll succeeded
    base = BaseState(held.table, [HeldArray(target.bits(tensor).flat) for tensor in held.table.tensors])
    files = {
        file.name: reader.transfer.read_object(file, max_bytes=limits.file_bytes, deadline=deadline)
        for file in held.committed.record.files
    }
    return Line(
        stream=stream,
        signing=signing,
        parent=held.committed,
        base=base,
        files=files,
        anchor=update.snapshot,
        delta_bytes=update.delta_bytes,
    )
