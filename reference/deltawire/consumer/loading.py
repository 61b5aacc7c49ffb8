"""Loading a snapshot into a target, streaming (SPEC.md section 11.6)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from deltawire.deadline import Deadline
from deltawire.errors import (
    DigestMismatchError,
    MalformedShardError,
    MissingObjectError,
    ObjectNotFoundError,
    SizeMismatchError,
    StateMismatchError,
)
from deltawire.format.records import Shard, Snapshot
from deltawire.format.strict_json import sha256
from deltawire.format.tensors import Tensor, TensorTable
from deltawire.kernels.digest import digest_range
from deltawire.limits import MIB
from deltawire.reading.transfer import RangeRequest, Transfer
from deltawire.snapshots.header import Entry, Header, check_against_table, header_length, parse_header
from deltawire.targets.base import Target

CHUNK = 8 * MIB
_MASK = (1 << 64) - 1


@dataclass
class Loaded:
    """What has been written so far."""

    digest: int = 0
    """State digest of the tensors written."""
    bytes: int = 0
    """Bytes fetched for them."""


def check_room(
    transfer: Transfer, snapshot: Snapshot, table: TensorTable, selected: Sequence[Tensor], deadline: Deadline
) -> None:
    """Refuse a state of which the store does not hold as many bytes, before anyone makes room for it. LIM-1, DSC-3

    Raises:
        MissingObjectError: a shard that is needed is not there.
        SizeMismatchError: it does not have the size that its record says.
        MalformedShardError: its tensors do not fit in it.
    """
    wanted = {tensor.ordinal for tensor in selected}
    needed = []
    for shard in snapshot.shards:
        run = table.tensors[shard.first_tensor : shard.last_tensor + 1]
        if any(tensor.ordinal in wanted for tensor in run):
            needed.append((shard, sum(tensor.bytes for tensor in run)))

    def size(shard: Shard) -> int:
        try:
            return transfer.store.head(shard.key).bytes
        except ObjectNotFoundError:
            raise MissingObjectError(f"{shard.key} is named by a record, but is not there") from None

    sizes = transfer.map(size, [shard for shard, _ in needed], deadline=deadline)
    for (shard, data), found in zip(needed, sizes, strict=True):
        if found != shard.bytes:
            raise SizeMismatchError(f"{shard.key} has {found:,} bytes, not {shard.bytes:,}")
        if data > found:
            raise MalformedShardError(f"tensors of {data:,} bytes do not fit in {shard.key} of {found:,}")


def load_snapshot(
    transfer: Transfer,
    snapshot: Snapshot,
    table: TensorTable,
    selected: Sequence[Tensor],
    target: Target,
    deadline: Deadline,
    *,
    state_digest: int,
    whole_shards: bool = False,
) -> Loaded:
    """Write the selected tensors of a snapshot into a target that has begun one.

    Whole shards are checked by sha256; of shards that are read in part, the header is, and through it the digest of
    each tensor (SNP-5), which is no proof against forgery: ``whole_shards`` reads no shard in part. SIG-7

    Raises:
        IntegrityError: anything is not what the record says. The target must then drop what was written.
    """
    wanted = {tensor.ordinal for tensor in selected}
    loaded = Loaded()
    for shard in snapshot.shards:
        if shard.last_tensor >= len(table.tensors):
            raise StateMismatchError(f"{shard.key} holds tensors that are not in the table")
        tensors = table.tensors[shard.first_tensor : shard.last_tensor + 1]
        chosen = [tensor for tensor in tensors if tensor.ordinal in wanted]
        if chosen:
            _load_shard(transfer, shard, tensors, chosen, target, deadline, loaded, whole=whole_shards)
    if snapshot.shards[-1].last_tensor != len(table.tensors) - 1:
        raise StateMismatchError("the snapshot does not hold all tensors of the table")  # SNP-3
    if len(wanted) == len(table.tensors) and loaded.digest != state_digest:
        raise StateMismatchError(
            f"the snapshot has digest {loaded.digest:016x}, its record {state_digest:016x}"
        )  # SNP-5
    return loaded


def _load_shard(
    transfer: Transfer,
    shard: Shard,
    tensors: Sequence[Tensor],
    chosen: Sequence[Tensor],
    target: Target,
    deadline: Deadline,
    loaded: Loaded,
    *,
    whole: bool,
) -> None:
    header = _read_header(transfer, shard, deadline)
    digests = check_against_table(header.parsed, tensors, what=shard.key)
    by_name = {tensor.name: tensor for tensor in chosen}
    whole = whole or len(chosen) == len(tensors)
    hasher = hashlib.sha256(header.data)
    loaded.bytes += len(header.data)
    entries = header.parsed.entries
    runs = list(_runs(entry for entry in entries if whole or entry.name in by_name))
    requests = (RangeRequest(shard.key, header.parsed.data_start + run.begin, run.bytes) for run in runs)
    found = dict.fromkeys(by_name, 0)
    for run, chunk in zip(runs, transfer.ranges(requests, deadline=deadline), strict=True):
        loaded.bytes += len(chunk)
        if whole:
            hasher.update(chunk)
        for entry, start, size in run.pieces:
            if entry.name not in by_name:
                continue
            tensor = by_name[entry.name]
            bits = np.frombuffer(chunk, np.uint8, size, start - run.begin).view(tensor.dtype.storage)
            first = (start - entry.begin) // tensor.dtype.width
            target.bits(tensor).scatter(slice(first, first + bits.size), bits)
            found[entry.name] += int(digest_range(bits, np.uint64(tensor.seed), np.uint64(first)))
    if whole and "sha256:" + hasher.hexdigest() != shard.digest:  # before the bits are believed. DSC-3
        raise DigestMismatchError(f"{shard.key} is not what its record says")
    for tensor in chosen:
        if found[tensor.name] & _MASK != digests[tensor.name]:
            raise StateMismatchError(f"{tensor.name[:80]!r} in {shard.key} is not what its digest says")
        loaded.digest = (loaded.digest + digests[tensor.name]) & _MASK


@dataclass(frozen=True)
class _StoredHeader:
    data: bytes
    parsed: Header


def _read_header(transfer: Transfer, shard: Shard, deadline: Deadline) -> _StoredHeader:
    request = RangeRequest(shard.key, 0, shard.header_bytes)
    [data] = transfer.ranges([request], deadline=deadline)
    if sha256(data) != shard.header_digest:
        raise DigestMismatchError(f"the header of {shard.key} is not what its record says")
    if header_length(data, limits=transfer.limits) != shard.header_bytes:
        raise SizeMismatchError(f"the header of {shard.key} does not have {shard.header_bytes:,} bytes")
    return _StoredHeader(data, parse_header(data, shard.bytes, limits=transfer.limits))


@dataclass
class _Run:
    """Bytes that lie end to end and are read at once."""

    begin: int
    bytes: int = 0
    pieces: list[tuple[Entry, int, int]] = field(default_factory=list)
    """Entry, first byte and size of what of it lies in the run."""


def _runs(entries: Iterable[Entry]) -> Iterator[_Run]:
    """Cut entries into runs of at most ``CHUNK``: many small tensors are one request, a large one is several."""
    run = _Run(0)
    for entry in entries:
        for start in range(entry.begin, entry.end, CHUNK):
            size = min(CHUNK, entry.end - start)
            if run.begin + run.bytes != start or run.bytes + size > CHUNK:
                if run.pieces:
                    yield run
                run = _Run(start)
            run.pieces.append((entry, start, size))
            run.bytes += size
    if run.pieces:
        yield run
