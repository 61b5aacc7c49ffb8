"""Taking a snapshot over from one stream into another, by the store itself where it can (SPEC.md section 11.11)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from deltawire.deadline import Deadline
from deltawire.errors import DigestMismatchError, MissingObjectError, ObjectNotFoundError, SizeMismatchError
from deltawire.format.keys import SHARD_INDEX, shard_name
from deltawire.format.records import Descriptor, Snapshot
from deltawire.inspecting.history import Advance
from deltawire.limits import MIB
from deltawire.reading.transfer import Transfer
from deltawire.snapshots.writer import Stored, hash_through
from deltawire.store.base import Bytes, Store

CHUNK = 8 * MIB


@dataclass(frozen=True, slots=True)
class CopiedSnapshot:
    """A snapshot under its new keys, and how its bytes came there."""

    snapshot: Snapshot
    by_store: int
    """Bytes that the store copied by itself."""
    through: int
    """Bytes that were read and written again."""


def can_be_copied(snapshot: Snapshot) -> bool:
    """Whether its shards have the names that shards have, so that its index holds for copies. SNP-2"""
    count = len(snapshot.shards)
    names = [_name(shard) for shard in snapshot.shards]
    return _name(snapshot.index) == SHARD_INDEX and names == [shard_name(index + 1, count) for index in range(count)]


def copy_snapshot(
    source: Transfer, destination: Store, snapshot: Snapshot, *, prefix: str, deadline: Deadline, advance: Advance
) -> CopiedSnapshot:
    """Copy the shards and the index of a snapshot under ``prefix``, without auxiliary files. FRK-4

    What the store copies is held to its size; its sha256 is not computed, as its bytes do not come here. What cannot be
    copied is streamed through, one object at a time, and held to its sha256 as well.

    Raises:
        MissingObjectError, SizeMismatchError, DigestMismatchError: an object is not what its record says.
    """
    everything: list[Descriptor] = [*snapshot.shards, snapshot.index]

    def copy(descriptor: Descriptor) -> bool:
        # Runs in the pool, so it must not wait for the pool.
        key = prefix + _name(descriptor)
        try:
            done = destination.copy_from(source.store, descriptor.key, key)
        except ObjectNotFoundError:
            raise _missing(descriptor) from None
        if done:
            found = destination.head(key).bytes
            if found != descriptor.bytes:
                raise SizeMismatchError(f"{descriptor.key} has {found:,} bytes, not {descriptor.bytes:,}")
            advance(found)
        return done

    by_store = through = 0
    for descriptor, done in zip(everything, list(source.map(copy, everything, deadline=deadline)), strict=True):
        if done:
            by_store += descriptor.bytes
            continue
        _stream(source, destination, descriptor, prefix + _name(descriptor), deadline, advance)
        through += descriptor.bytes
    moved = Snapshot(
        shards=tuple(msgspec.structs.replace(shard, key=prefix + _name(shard)) for shard in snapshot.shards),
        index=msgspec.structs.replace(snapshot.index, key=prefix + _name(snapshot.index)),
    )
    return CopiedSnapshot(moved, by_store, through)


def _stream(
    source: Transfer, destination: Store, descriptor: Descriptor, key: str, deadline: Deadline, advance: Advance
) -> None:
    found: list[Stored] = []

    def read() -> Iterator[Bytes]:
        for start in range(0, descriptor.bytes, CHUNK):
            deadline.remaining()
            chunk = source.store.get_range(descriptor.key, start, min(CHUNK, descriptor.bytes - start))
            advance(len(chunk))
            yield chunk

    def checked() -> Iterator[Bytes]:
        yield from hash_through(read(), found.append)
        if found[0].digest != descriptor.digest:  # raised in time: nothing becomes visible
            raise DigestMismatchError(f"{descriptor.key} is not what its record says")

    def work() -> None:
        try:
            size = source.store.head(descriptor.key).bytes
        except ObjectNotFoundError:
            raise _missing(descriptor) from None
        if size != descriptor.bytes:
            raise SizeMismatchError(f"{descriptor.key} has {size:,} bytes, not {descriptor.bytes:,}")
        destination.put_stream(key, checked())

    source.call(deadline, work)


def _missing(descriptor: Descriptor) -> MissingObjectError:
    return MissingObjectError(f"{descriptor.key} is named by a record, but is not there")


def _name(descriptor: Descriptor) -> str:
    return descriptor.key.rpartition("/")[2]
