"""The writer lease: who may take a stream for its own, and in which epoch (SPEC.md sections 8.10 and 11.9).

The lease keeps two producers from working on one stream without noticing each other; that is liveness. Nothing is
safe because of it: that rests on conditional create and on epochs, which never fall along the line.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from deltawire.errors import (
    DeltawireError,
    FencedError,
    LeaseHeldError,
    LimitExceededError,
    ObjectExistsError,
    ObjectNotFoundError,
    PreconditionFailedError,
    StoreError,
    StoreUnavailableError,
)
from deltawire.format import keys, strict_json
from deltawire.format.records import LeaseRecord, StreamRecord
from deltawire.holders import check_terms, milliseconds
from deltawire.limits import Limits
from deltawire.producer.envelope import envelope, now
from deltawire.reading.leases import decode_lease
from deltawire.store.base import PutMode, ReplaceIf, Store

DEFAULT_TTL = 30.0
"""Seconds."""
_PAUSES = (0.1, 0.3, 1.0, 3.0)
"""Seconds between attempts at one write of the lease while it is being acquired."""
_LOOKS = 6
"""How often an observer looks at a lease within its ttl; a holder renews three times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTerms:
    """On what terms a producer wants the lease.

    Raises:
        InvalidArgumentError: the ttl is not between a millisecond and a day, or the holder's name is empty or too long.
    """

    ttl: float = DEFAULT_TTL
    """Seconds without a sign of life after which others may take the lease over."""
    take_over: bool = False
    """Take the lease from whoever holds it, without waiting."""
    holder: str
    """What others are told of who holds it."""

    def __post_init__(self) -> None:
        check_terms("lease", ttl=self.ttl, holder=self.holder)


@dataclass(frozen=True, slots=True)
class _Stored:
    """The lease as it was read."""

    record: LeaseRecord
    members: dict[str, Any] = field(repr=False)
    """All of it, with members that we do not know."""
    token: str


class WriterLease:
    """The lease of one stream, as one producer sees it. Calls may come from several threads.

    Args:
        store: where the stream is; it must offer compare-and-swap (STO-4).
        stream: the stream's own record.
        terms: on what terms to hold the lease.
        limits: what to refuse when reading the lease.
        clock: seconds by a clock that never goes back.
        sleep: waits so many seconds; only between attempts at one write.
    """

    def __init__(
        self,
        store: Store,
        stream: StreamRecord,
        terms: LeaseTerms,
        *,
        limits: Limits,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.terms = terms
        self.epoch = 0
        """Number of our acquisition, while the lease is held."""
        self._store = store
        self._stream = stream
        self._limits = limits
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.RLock()
        self._seen: tuple[str, float] | None = None  # another's token, and when it was first read
        self._ours: _Stored | None = None  # as we last wrote it
        self._sent: set[str] = set()  # commit ids of all writes that may have arrived
        self._acquired_at = ""
        self._renewed = 0.0
        self._fenced: str | None = None

    @property
    def held(self) -> bool:
        """Whether the lease is ours, as far as is known here."""
        return self._ours is not None and self._fenced is None

    @property
    def stale(self) -> bool:
        """Whether others may think us gone: a ttl has passed since the last write of the lease that arrived. LSE-10"""
        return self._clock() - self._renewed >= self.terms.ttl

    def check(self) -> None:
        """Raises FencedError if the lease is another's by now; from then on always. LSE-9"""
        if self._fenced is not None:
            raise FencedError(self._fenced)

    def attempt(self) -> float | None:
        """Look at the lease once, and take it if it may be taken. LSE-4 to LSE-6

        Returns:
            None if it is ours now, else after how many seconds to look again.

        Raises:
            LeaseHeldError: its holder is alive.
            MalformedRecordError, WrongStreamError, UnsupportedFeatureError: what is there is no lease of this stream.
            StoreError: the store failed or refused.
        """
        with self._lock:
            looked = self._clock()
            found = self._read()
            if found is None:
                return None if self._claim(None) else 0.0
            if found.record.released or self.terms.take_over or found.record.commit_id in self._sent:
                return None if self._claim(found) else 0.0
            if self._seen is None:
                self._seen = found.token, self._clock()
            token, since = self._seen
            if token != found.token:
                self._seen = None
                raise _live(found.record, "is alive: it has just renewed its lease")
            ttl = found.record.ttl_ms / 1000
            unchanged = looked - since
            if unchanged >= ttl:  # by our own clock; whatever the record says of time is its holder's business. LSE-6
                return None if self._claim(found) else 0.0
            return max(min(ttl / _LOOKS, ttl - unchanged), 0.001)

    def rise_above(self, epoch: int) -> None:
        """Go on in an epoch above one that was found in the line, as if acquired again. LSE-7

        Raises:
            FencedError: the lease is another's by now.
            StoreError: the store failed or refused.
        """
        with self._lock:
            if self.epoch <= epoch:
                self.epoch = _next(epoch)
                self._write_or_stop(_PAUSES)

    def renew(self) -> None:
        """Show that we are alive. LSE-8, LSE-9

        Raises:
            FencedError: the lease is another's by now; this writer is done for good.
            StoreError: whether it was renewed is not known; try again.
        """
        with self._lock:
            self.check()
            self._write_or_stop(())

    def release(self) -> None:
        """Give the lease up by marking it released; it stays where it is. LSE-11

        Raises:
            StoreError: whether it was released is not known; others wait for a ttl then.
        """
        with self._lock:
            if self.held:
                self._write(self._ours, released=True, pauses=_PAUSES[:1])
                self._fenced = "this writer gave up its lease"

    def unsettled(self) -> LeaseHeldError:
        """The error of an observer whose time runs out before it has seen whether the holder is alive. LSE-6"""
        found = self._read()
        if found is None:
            return LeaseHeldError("the lease was removed while it was observed")
        return _live(found.record, f"may be gone, but to see that takes {found.record.ttl_ms / 1000:g} s")

    def _claim(self, found: _Stored | None) -> bool:
        """Acquire, by create or compare-and-swap; whether it was us who won. The epoch rises each time. LSE-5"""
        self.epoch = 0 if found is None else _next(found.record.epoch)
        self._acquired_at = now()
        self._seen = None
        return self._write(found, pauses=_PAUSES)

    def _write_or_stop(self, pauses: tuple[float, ...]) -> None:
        if not self._write(self._ours, pauses=pauses):
            self._fenced = self._why_fenced()
            raise FencedError(self._fenced)

    def _why_fenced(self) -> str:
        try:
            found = self._read()
        except DeltawireError as error:
            return f"the lease of this writer is gone: {error}"
        if found is None:
            return "the lease of this writer was removed"
        other = found.record
        return f"{other.holder!r} took over in epoch {other.epoch}, at {other.acquired_at} by its clock"

    def _write(self, before: _Stored | None, *, pauses: tuple[float, ...], released: bool = False) -> bool:
        """Write the lease in place of what was there, whatever happens to the answers; whether it is ours. LSE-3

        Raises:
            StoreError: it refused the write, or it is not known whether it arrived.
        """
        sent = self._clock()
        record = LeaseRecord(
            **envelope(self._stream.stream_id, "lease", epoch=self.epoch, writer_features=self._stream.writer_features),
            holder=self.terms.holder,
            acquired_at=self._acquired_at,
            ttl_ms=milliseconds(self.terms.ttl),
            released=released,
        )
        members = msgspec.to_builtins(record)
        self._sent.add(record.commit_id)
        failure: StoreError = StoreUnavailableError(f"{keys.LEASE} was not written, and nobody else wrote it")
        for pause in (*pauses, None):
            # Members that we do not know stay. VER-5
            stays = {} if before is None else strict_json.unknown(before.members, LeaseRecord)
            merged = strict_json.merge(stays, members)
            mode: PutMode = "create" if before is None else ReplaceIf(before.token)
            try:
                token = self._store.put(keys.LEASE, msgspec.json.encode(merged), mode=mode)
            except (ObjectExistsError, PreconditionFailedError):
                pass  # an earlier attempt of ours may have arrived
            except StoreError as error:
                if not error.retryable:
                    raise
                failure = error
            else:
                self._settle(_Stored(record, merged, token), sent)
                return True
            try:
                found = self._read()
            except StoreError as error:
                failure = error
            except DeltawireError:  # another wrote what cannot be read. LSE-2, LSE-9
                return False
            else:
                if found is not None and found.record.commit_id == record.commit_id:
                    self._settle(found, sent)
                    return True
                if found is not None and found.record.commit_id in self._sent:
                    before = found  # an earlier write of ours arrived after all: this one comes on top of it
                elif (found and found.token) != (before and before.token):
                    return False
            if pause is not None:
                self._sleep(pause)
        raise failure

    def _settle(self, stored: _Stored, sent: float) -> None:
        self._ours, self._renewed, self._sent = stored, sent, {stored.record.commit_id}

    def _read(self) -> _Stored | None:
        try:
            stored = self._store.get(keys.LEASE, max_bytes=self._limits.record_bytes)
        except ObjectNotFoundError:
            return None
        record = decode_lease(stored.data, self._stream, limits=self._limits)
        members = strict_json.parse(stored.data, what=keys.LEASE, limits=self._limits)
        return _Stored(record, members, stored.token)


def _next(epoch: int) -> int:
    if epoch >= keys.MAX_VERSION:
        raise LimitExceededError(f"the epoch of the writer cannot rise above {epoch:,}")
    return epoch + 1


def _live(other: LeaseRecord, what: str) -> LeaseHeldError:
    return LeaseHeldError(
        f"{other.holder!r} {what}; it holds the stream in epoch {other.epoch} since {other.acquired_at} by its clock"
    )
