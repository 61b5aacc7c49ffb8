"""Reading a stream's records: what is there, what is newest, what follows from what (SPEC.md sections 11.4, 11.5)."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from deltawire.deadline import Deadline
from deltawire.errors import (
    BrokenChainError,
    DeltawireError,
    LimitExceededError,
    ObjectNotFoundError,
    StreamNotFoundError,
    VersionNotFoundError,
    WrongStreamError,
)
from deltawire.format import keys, records
from deltawire.format.records import (
    AnchorRecord,
    Delta,
    Descriptor,
    HeadRecord,
    SpanRecord,
    StreamRecord,
    VersionRecord,
)
from deltawire.format.strict_json import sha256
from deltawire.format.tensors import TensorTable, parse_table
from deltawire.reading.retention import Retention, check_retained, read_retention
from deltawire.reading.transfer import Transfer
from deltawire.reading.trust import Trust

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Committed:
    """A version record and the sha256 of its exact bytes."""

    record: VersionRecord
    digest: str
    data: bytes = field(repr=False)


class StreamReader:
    """Records of one stream, each checked on its own and against its neighbours.

    With ``trust``, records of the stream, of versions, anchors and spans come out of here only if they are signed as
    they must be; every method that reads one then raises BadSignatureError besides what it says. SIG-5, SIG-6
    """

    def __init__(self, transfer: Transfer, trust: Trust | None = None) -> None:
        self.transfer = transfer
        self.trust = trust
        self._recognised: str | None = None
        self._stream: StreamRecord | None = None
        self._tables: OrderedDict[Descriptor, TensorTable] = OrderedDict()
        self._found: tuple[int, bytes] | None = None  # a version's record that was looked for, until it is read

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
            record = records.decode(data, StreamRecord, what=keys.STREAM, limits=limits)
            if self.trust is not None:
                self.trust.check_stream(record, data)
            self._stream = record
        return self._stream

    def recognise(self, held: Committed, deadline: Deadline) -> None:
        """Hold the record of a version that was taken over earlier to the signatures that are demanded now. SIG-6"""
        if self.trust is not None and held.digest != self._recognised:
            what = f"the record of version {held.record.version}, which is held,"
            self.trust.check(held.record, held.data, self.stream(deadline), what=what)
            self._recognised = held.digest

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
        stream = self.stream(deadline)
        if self.trust is not None:
            self.trust.check(record, data, stream, what=key)
        check_ours(record, stream, key, number)
        return record

    def span(self, base: int, target: int, deadline: Deadline) -> SpanRecord:
        """Read one span record. Raises VersionNotFoundError, WrongStreamError, BrokenChainError."""
        stream = self.stream(deadline)
        return self.transfer.call(deadline, lambda: self._load_span(base, target, stream))

    def span_records(
        self, spans: Iterable[tuple[int, int]], deadline: Deadline
    ) -> Iterator[SpanRecord | DeltawireError]:
        """Read several, each by base and target, as ``versions`` does."""
        stream = self.stream(deadline)

        def load(span: tuple[int, int]) -> SpanRecord | DeltawireError:
            try:
                return self._load_span(*span, stream)
            except DeltawireError as error:
                if error.retryable:
                    raise
                return error

        return self.transfer.map(load, spans, deadline=deadline)

    def retention(self, deadline: Deadline) -> Retention:
        """Which versions are part of the stream, as of now. Raises what ``read_retention`` does."""
        return read_retention(self.transfer, self.stream(deadline), deadline)

    def check_retained(self, number: int, deadline: Deadline) -> None:
        """Refuse a version that is no longer part of the stream. RET-3 Raises VersionNotFoundError."""
        check_retained(number, self.retention(deadline))

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

    def latest(self, deadline: Deadline, *, known: int | None = None, kept: bool = False) -> int:
        """Number of the newest version, found by probing forward from what is known. LAT-1 to LAT-5

        Of a version that is newer than the known one, whoever goes there finds out on the way whether it is below the
        boundary.

        Args:
            deadline: of the caller.
            known: a version that is held.
            kept: what follows it cannot have been collected, so that the boundary need not be read.

        Raises:
            StreamNotFoundError: there is no stream here.
            VersionNotFoundError: the stream has no version yet.
        """
        self.stream(deadline)
        start = self._hinted(deadline) if known is None else known
        newest = self._forward(self._greatest(deadline) if start is None else start, deadline)
        if known is not None and (newest > known or kept):
            return newest
        boundary = self.retention(deadline).boundary
        if max(newest, 0) < boundary:  # what followed it was collected, and nothing there proves nothing. LAT-5
            newest = self._forward(max(self._greatest(deadline), boundary), deadline)
        if newest < 0:
            raise VersionNotFoundError("the stream has no version yet")
        return newest

    def _greatest(self, deadline: Deadline) -> int:
        return max(self.numbers(keys.VERSIONS, deadline), default=-1)

    def _forward(self, start: int, deadline: Deadline) -> int:
        """The last version after ``start``, which may be old: steps double, then halve, as versions have no holes.

        The first step is the one that a reader waits for: it brings the record, which is needed next, and the second
        is no longer than that, so that a reader that is one version behind looks twice.
        """
        if not self._finds(start + 1, deadline):
            return start
        newest, step = start + 1, 1
        while self._exists(newest + step, deadline):
            newest += step
            step *= 2
        while step > 1:
            step //= 2
            if self._exists(newest + step, deadline):
                newest += step
        return newest

    def numbers(self, prefix: str, deadline: Deadline) -> list[int]:
        """Version numbers of the records under ``versions/`` or ``anchors/``, ascending; one listing.

        Raises:
            LimitExceededError: there are more than a reader takes.
        """
        return self._listed(prefix, keys.parse_numbered, deadline)

    def spans(self, deadline: Deadline) -> list[tuple[int, int]]:
        """Base and target of every span, by target; one listing. Raises LimitExceededError."""
        return sorted(self._listed(keys.SPANS, keys.parse_span, deadline), key=lambda span: (span[1], span[0]))

    def _listed(self, prefix: str, parse: Callable[[str], T | None], deadline: Deadline) -> list[T]:
        def listing() -> list[T]:
            found: list[T] = []
            for info in self.transfer.store.list(prefix):
                parsed = parse(info.key)
                if parsed is not None:
                    found.append(parsed)
                    self.transfer.limits.check("path_records", len(found), f"number of records under {prefix}")
            return found

        return self.transfer.call(deadline, listing)

    def _load(self, number: int, stream: StreamRecord) -> Committed:
        # Runs in the pool, so it must not wait for the pool.
        key = keys.version_key(number)
        found = self._found
        try:
            if found is not None and found[0] == number:
                data, self._found = found[1], None
            else:
                data = self.transfer.store.get(key, max_bytes=self.transfer.limits.record_bytes).data
        except ObjectNotFoundError:
            raise VersionNotFoundError(f"version {number} is not in the store") from None
        record = records.decode(data, VersionRecord, what=key, limits=self.transfer.limits)
        if self.trust is not None:
            self.trust.check(record, data, stream, what=key)
        check_ours(record, stream, key, number)
        return Committed(record, sha256(data), data)

    def _load_span(self, base: int, target: int, stream: StreamRecord) -> SpanRecord:
        # Runs in the pool, so it must not wait for the pool.
        key = keys.span_key(base, target)
        try:
            data = self.transfer.store.get(key, max_bytes=self.transfer.limits.record_bytes).data
        except ObjectNotFoundError:
            raise VersionNotFoundError(f"there is no span from version {base} to {target}") from None
        record = records.decode(data, SpanRecord, what=key, limits=self.transfer.limits)
        if self.trust is not None:
            self.trust.check(record, data, stream, what=key)
        check_ours(record, stream, key, target)
        if record.base != base:
            raise BrokenChainError(f"{key} is the record of a span from version {record.base}")  # SPN-1
        return record

    def _hinted(self, deadline: Deadline) -> int | None:
        """What ``head.json`` says, if it is there, readable, ours and true. HED-2"""
        try:
            data = self._read(keys.HEAD, deadline)
            head = records.decode(data, HeadRecord, what=keys.HEAD, limits=self.transfer.limits)
        except DeltawireError as error:
            if error.retryable:
                raise
            return None
        if head.stream_id != self.stream(deadline).stream_id or not self._finds(head.version, deadline):
            return None
        return head.version

    def _finds(self, number: int, deadline: Deadline) -> bool:
        """Whether a version's record is there; its bytes are kept for who reads it next."""
        try:
            self._found = number, self._read(keys.version_key(number), deadline)
        except ObjectNotFoundError:
            return False
        except LimitExceededError:
            return True  # that is for whoever reads it
        return True

    def _exists(self, number: int, deadline: Deadline) -> bool:
        try:
            self.transfer.call(deadline, lambda: self.transfer.store.head(keys.version_key(number)))
        except ObjectNotFoundError:
            return False
        return True

    def _read(self, key: str, deadline: Deadline) -> bytes:
        return self.transfer.read_small(key, max_bytes=self.transfer.limits.record_bytes, deadline=deadline)


def check_ours(record: VersionRecord | AnchorRecord | SpanRecord, stream: StreamRecord, key: str, number: int) -> None:
    """A record must be of this stream and of the version its key says. Raises WrongStreamError, BrokenChainError."""
    if record.stream_id != stream.stream_id:
        raise WrongStreamError(f"{key} belongs to stream {record.stream_id}, not {stream.stream_id}")
    if record.version != number:
        raise BrokenChainError(f"{key} is the record of version {record.version}")
    origin = stream.origin if number == 0 else None
    if origin is not None and record.state_digest != origin.state_digest:
        raise BrokenChainError(f"{key} does not hold the state that the stream was forked from")  # FRK-7


def check_chain(chain: list[Committed]) -> None:
    """Each record must follow from the one before. CHN-1 to CHN-4, CHN-6. Raises BrokenChainError."""
    check_rollbacks(chain)
    for before, after in itertools.pairwise(chain):
        check_follows(before, after)


def check_follows(before: Committed, after: Committed) -> None:
    """A record must follow from that of the version before. CHN-1 to CHN-4. Raises BrokenChainError."""
    old, new = before.record, after.record
    what = f"version {new.version}"
    if new.parent is None or new.parent.digest != before.digest:
        raise BrokenChainError(f"{what} was not made from the version {old.version} that is here")
    if new.epoch < old.epoch:
        raise BrokenChainError(f"{what} has epoch {new.epoch}, below its parent's {old.epoch}")
    if new.delta is None:
        return
    if new.tensors.digest != old.tensors.digest:
        raise BrokenChainError(f"{what} is a delta, but its tensor table is not its parent's")
    if not _adds_up(old.state_digest, new.delta, new.state_digest):
        raise BrokenChainError(f"{what}: its state digest does not follow from its parent's and its delta's")


def check_span(span: SpanRecord, before: Committed, after: Committed) -> None:
    """A span must lead from the one version to the other. SPN-4. Raises BrokenChainError."""
    old, new = before.record, after.record
    what = f"the span from version {span.base} to {span.version}"
    if (span.base_digest, span.version_digest) != (before.digest, after.digest):
        raise BrokenChainError(f"{what} was made of other records")
    if new.epoch < old.epoch:
        raise BrokenChainError(f"{what} leads from epoch {old.epoch} to {new.epoch}, which is lower")
    if not span.tensors.digest == old.tensors.digest == new.tensors.digest:
        raise BrokenChainError(f"{what} does not have the tensor table of both versions")
    if span.state_digest != new.state_digest or not _adds_up(old.state_digest, span.delta, new.state_digest):
        raise BrokenChainError(f"{what}: the state digest does not follow from the base's and its delta's")


def _adds_up(before: str, delta: Delta, after: str) -> bool:
    change = int(delta.digest_after, 16) - int(delta.digest_before, 16)
    return (int(before, 16) + change) % (1 << 64) == int(after, 16)


def check_rollbacks(way: Iterable[Committed]) -> None:
    """Each rollback must have the state of the version that it names, if that is on the way. CHN-6

    Raises:
        BrokenChainError: it does not, or names another record.
    """
    on_the_way = {committed.record.version: committed for committed in way}
    for committed in on_the_way.values():
        origin = committed.record.rollback_of
        if origin is not None and origin.version in on_the_way:
            check_rollback(committed.record, on_the_way[origin.version])


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
