"""Reading a stream's records: what is there, what is newest, which way leads to it (SPEC.md sections 11.4, 11.5)."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from deltawire.deadline import Deadline
from deltawire.errors import (
    BrokenChainError,
    DeltawireError,
    LimitExceededError,
    ObjectNotFoundError,
    PathLostError,
    StreamNotFoundError,
    VersionNotFoundError,
    WrongStreamError,
)
from deltawire.format import keys, records
from deltawire.format.records import AnchorRecord, Descriptor, HeadRecord, StreamRecord, VersionRecord
from deltawire.format.strict_json import sha256
from deltawire.format.tensors import TensorTable, parse_table
from deltawire.reading.planner import Edge, plan
from deltawire.reading.transfer import Transfer

_ANCHOR_DETOUR = 4
"""A reader this many versions behind asks whether an anchor is cheaper than replaying."""


@dataclass(frozen=True, slots=True)
class Committed:
    """A version record and the sha256 of its exact bytes."""

    record: VersionRecord
    digest: str
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Step:
    """One checked step of a path: apply ``version``'s delta, or load the snapshot of it."""

    edge: Edge
    version: Committed
    anchor: AnchorRecord | None = None


class StreamReader:
    """Records of one stream, each checked on its own and against its neighbours."""

    def __init__(self, transfer: Transfer) -> None:
        self.transfer = transfer
        self._stream: StreamRecord | None = None
        self._tables: OrderedDict[Descriptor, TensorTable] = OrderedDict()

    def stream(self, deadline: Deadline) -> StreamRecord:
        """The stream's own record, read once.

        Raises:
            StreamNotFoundError: there is no stream here.
        """
        if self._stream is None:
            try:
                data = self._read(keys.STREAM, deadline)
            except ObjectNotFoundError:
                url = self.transfer.store.url
                raise StreamNotFoundError(f"there is no stream at {url}") from None
            limits = self.transfer.limits
            self._stream = records.decode(data, StreamRecord, what=keys.STREAM, limits=limits)
        return self._stream

    def version(self, number: int, deadline: Deadline) -> Committed:
        """Read one version record.

        Raises:
            VersionNotFoundError: there is none.
            WrongStreamError: it belongs to another stream.
        """
        stream = self.stream(deadline)
        return self.transfer.call(deadline, lambda: self._load(number, stream))

    def versions(self, numbers: Iterable[int], deadline: Deadline) -> Iterator[Committed | DeltawireError]:
        """Read many version records concurrently, in the order asked; in place of one that is no good comes its error.

        Raises:
            StoreError, DeadlineExceededError: the store did not answer.
        """
        stream = self.stream(deadline)

        def load(number: int) -> Committed | DeltawireError:
            try:
                return self._load(number, stream)
            except DeltawireError as error:
                if error.retryable:
                    raise
                return error

        return self.transfer.map(load, numbers, deadline=deadline)

    def anchor(self, number: int, deadline: Deadline) -> AnchorRecord:
        """Read one anchor record. Raises VersionNotFoundError, WrongStreamError."""
        key = keys.anchor_key(number)
        try:
            data = self._read(key, deadline)
        except ObjectNotFoundError:
            raise VersionNotFoundError(f"there is no anchor of version {number}") from None
        record = records.decode(data, AnchorRecord, what=key, limits=self.transfer.limits)
        check_ours(record, self.stream(deadline), key, number)
        return record

    def table(self, version: Committed, deadline: Deadline) -> TensorTable:
        """The tensor table of a version; the last few are kept."""
        descriptor = version.record.tensors
        if descriptor not in self._tables:
            limits = self.transfer.limits
            data = self.transfer.read_object(descriptor, max_bytes=limits.table_bytes, deadline=deadline)
            self._tables[descriptor] = parse_table(data, limits=limits)
            while len(self._tables) > 2:
                self._tables.popitem(last=False)
        return self._tables[descriptor]

    def latest(self, deadline: Deadline, *, known: int | None = None) -> int:
        """Number of the newest version, found by probing forward from what is known. LAT-1 to LAT-4

        Raises:
            StreamNotFoundError: there is no stream here.
            VersionNotFoundError: the stream has no version yet.
        """
        self.stream(deadline)
        if known is not None:
            newest = self._forward(known, deadline)
            if newest > known or self._exists(known, deadline):
                return newest
            # What is known was collected, so what followed it may be gone too: nothing there proves nothing. LAT-4
        start = self._hinted(deadline)
        if start is None:
            start = max(self.numbers(keys.VERSIONS, deadline), default=-1)
        newest = self._forward(start if known is None else max(start, known), deadline)
        if newest < 0:
            raise VersionNotFoundError("the stream has no version yet")
        return newest

    def _forward(self, start: int, deadline: Deadline) -> int:
        """The last version after ``start``, which may be old: steps double, then halve, as versions have no holes."""
        newest, step = start, 1
        while self._exists(newest + step, deadline):
            newest += step
            step *= 2
        while step > 1:
            step //= 2
            if self._exists(newest + step, deadline):
                newest += step
        return newest

    def numbers(self, prefix: str, deadline: Deadline) -> list[int]:
        """Version numbers of the records under ``versions/`` or ``anchors/``, ascending; one listing."""

        def listing() -> list[int]:
            found = (keys.parse_numbered(info.key) for info in self.transfer.store.list(prefix))
            return sorted(number for number in found if number is not None)

        return self.transfer.call(deadline, listing)

    def path(self, target: int, held: Committed | None, deadline: Deadline, *, anew: bool = False) -> list[Step]:
        """The cheapest checked path from what is held to ``target``, never over an older version. PLN-1, PLN-3, CHN-1

        Args:
            target: where to.
            held: from where; None if nothing is held.
            deadline: when to give up.
            anew: begin with a snapshot in any case.

        Raises:
            PathLostError: nothing leads there any more.
            VersionNotFoundError: the target does not exist.
            BrokenChainError: the records do not follow from each other, or not from what is held.
        """
        if held is not None and held.record.version == target:
            return []
        floor = 0
        if held is not None and held.record.version < target:
            floor = held.record.version + 1
            if not anew:
                # What leads on from here may have been collected: then begin again from a snapshot. PLN-3
                with suppress(PathLostError):
                    return self._path_from(held, held.record.version, target, deadline)
        return self._path_from(None, floor, target, deadline)

    def _path_from(self, held: Committed | None, floor: int, target: int, deadline: Deadline) -> list[Step]:
        anchor = None
        if held is None or target - floor > _ANCHOR_DETOUR:
            anchor = self._newest_anchor(floor, target, deadline)
        if held is None and anchor is not None:
            floor = anchor.version
        chain = self._walk(floor, target, held, deadline)
        check_chain(chain)
        versions = {committed.record.version: committed for committed in chain}
        edges = [_own_edge(committed) for committed in chain if committed is not held]
        if anchor is not None and anchor.version in versions:
            check_anchor(anchor, versions[anchor.version])
            cost = sum(shard.bytes for shard in anchor.snapshot.shards)
            edges.append(Edge("anchor", None, anchor.version, cost))
        start = floor if held is not None and chain[0] is held else None
        return [
            Step(edge, versions[edge.target], anchor if edge.kind == "anchor" else None)
            for edge in plan(edges, held=start, target=target)
        ]

    def _newest_anchor(self, floor: int, target: int, deadline: Deadline) -> AnchorRecord | None:
        """The newest readable anchor at or after the floor, up to the target."""
        for number in reversed(self.numbers(keys.ANCHORS, deadline)):
            if number < floor:
                break
            if number > target:
                continue
            try:
                return self.anchor(number, deadline)
            except DeltawireError as error:
                if error.retryable:
                    raise
                # Damaged or just collected: an older one may do. PLN-4
        return None

    def _walk(self, floor: int, target: int, held: Committed | None, deadline: Deadline) -> list[Committed]:
        """Version records from the floor, or the last snapshot after it, to the target, ascending."""
        stream = self.stream(deadline)
        backwards = range(target, floor if held is not None else floor - 1, -1)
        if len(backwards) > self.transfer.limits.path_records:
            raise LimitExceededError(f"{len(backwards):,} records lead to version {target}")
        found: list[Committed] = []
        try:
            for committed in self.transfer.map(lambda n: self._load(n, stream), backwards, deadline=deadline):
                found.append(committed)
                if committed.record.snapshot is not None:
                    return found[::-1]
        except VersionNotFoundError as error:
            if not found:
                raise
            raise PathLostError(f"{error}, and the way to version {target} leads over it") from None
        return ([held] if held is not None else []) + found[::-1]

    def _load(self, number: int, stream: StreamRecord) -> Committed:
        # Runs in the pool, so it must not wait for the pool.
        key = keys.version_key(number)
        try:
            data = self.transfer.store.get(key, max_bytes=self.transfer.limits.record_bytes).data
        except ObjectNotFoundError:
            raise VersionNotFoundError(f"version {number} is not in the store") from None
        record = records.decode(data, VersionRecord, what=key, limits=self.transfer.limits)
        check_ours(record, stream, key, number)
        return Committed(record, sha256(data), data)

    def _hinted(self, deadline: Deadline) -> int | None:
        """What ``head.json`` says, if it is there, readable, ours and true. HED-2"""
        try:
            data = self._read(keys.HEAD, deadline)
            head = records.decode(data, HeadRecord, what=keys.HEAD, limits=self.transfer.limits)
        except DeltawireError as error:
            if error.retryable:
                raise
            return None
        if head.stream_id != self.stream(deadline).stream_id or not self._exists(head.version, deadline):
            return None
        return head.version

    def _exists(self, number: int, deadline: Deadline) -> bool:
        try:
            self.transfer.call(deadline, lambda: self.transfer.store.head(keys.version_key(number)))
        except ObjectNotFoundError:
            return False
        return True

    def _read(self, key: str, deadline: Deadline) -> bytes:
        return self.transfer.read_small(key, max_bytes=self.transfer.limits.record_bytes, deadline=deadline)


def check_ours(record: VersionRecord | AnchorRecord, stream: StreamRecord, key: str, number: int) -> None:
    """A record must be of this stream and of the version its key says. Raises WrongStreamError, BrokenChainError."""
    if record.stream_id != stream.stream_id:
        raise WrongStreamError(f"{key} belongs to stream {record.stream_id}, not {stream.stream_id}")
    if record.version != number:
        raise BrokenChainError(f"{key} is the record of version {record.version}")
    origin = stream.origin if number == 0 else None
    if origin is not None and record.state_digest != origin.state_digest:
        raise BrokenChainError(f"{key} does not hold the state that the stream was forked from")  # FRK-7


def _own_edge(committed: Committed) -> Edge:
    record = committed.record
    if record.snapshot is not None:
        return Edge("snapshot", None, record.version, sum(shard.bytes for shard in record.snapshot.shards))
    assert record.delta is not None  # noqa: S101 - records.decode checked it (VSN-4)
    return Edge("delta", record.version - 1, record.version, sum(part.bytes for part in record.delta.parts))


def check_chain(chain: list[Committed]) -> None:
    """Each record must follow from the one before. CHN-1 to CHN-4, CHN-6. Raises BrokenChainError."""
    on_the_way = {committed.record.version: committed for committed in chain}
    for committed in chain:
        origin = committed.record.rollback_of
        if origin is not None and origin.version in on_the_way:
            check_rollback(committed.record, on_the_way[origin.version])
    for before, after in itertools.pairwise(chain):
        old, new = before.record, after.record
        what = f"version {new.version}"
        if new.parent is None or new.parent.digest != before.digest:
            raise BrokenChainError(f"{what} was not made from the version {old.version} that is here")
        if new.epoch < old.epoch:
            raise BrokenChainError(f"{what} has epoch {new.epoch}, below its parent's {old.epoch}")
        if new.delta is None:
            continue
        if new.tensors.digest != old.tensors.digest:
            raise BrokenChainError(f"{what} is a delta, but its tensor table is not its parent's")
        change = int(new.delta.digest_after, 16) - int(new.delta.digest_before, 16)
        if (int(old.state_digest, 16) + change) % (1 << 64) != int(new.state_digest, 16):
            raise BrokenChainError(f"{what}: its state digest does not follow from its parent's and its delta's")


def check_rollback(record: VersionRecord, earlier: Committed) -> None:
    """A rollback must have the state of the very version that it names. CHN-6. Raises BrokenChainError."""
    assert record.rollback_of is not None  # noqa: S101 - the caller found the version by it
    what = f"version {record.version} is a rollback of version {earlier.record.version}"
    if record.rollback_of.digest != earlier.digest:
        raise BrokenChainError(f"{what}, but not of the one that is here")
    if record.state_digest != earlier.record.state_digest:
        raise BrokenChainError(f"{what}, but does not have its state")


def check_anchor(anchor: AnchorRecord, version: Committed) -> None:
    """An anchor must be of this very version record. ANC-2. Raises BrokenChainError."""
    record = version.record
    if anchor.version_digest != version.digest:
        raise BrokenChainError(f"the anchor of version {record.version} was made of another record")
    if anchor.state_digest != record.state_digest or anchor.tensors.digest != record.tensors.digest:
        raise BrokenChainError(f"the anchor of version {record.version} holds another state")
