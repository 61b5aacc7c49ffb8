"""One reader's pin: what must not be collected under it (SPEC.md sections 8.11 and 11.13).

A pin protects, and nothing rests on it: a reader that cannot write one reads the same stream, and may find that
something on its way has been collected.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass

from deltawire.errors import DeadlineExceededError, StoreError
from deltawire.format import keys, records
from deltawire.format.records import PinRecord, StreamRecord
from deltawire.holders import check_terms, milliseconds
from deltawire.producer.envelope import envelope, now
from deltawire.reading.retention import Retention
from deltawire.store.base import Store

DEFAULT_TTL = 60.0
"""Seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PinTerms:
    """How a reader pins.

    Raises:
        InvalidArgumentError: the ttl is not between a millisecond and a day, or the holder's name is empty or too long.
    """

    ttl: float = DEFAULT_TTL
    """Seconds without a sign of life after which others may take the reader for gone."""
    holder: str
    """What others are told of who it is."""

    def __post_init__(self) -> None:
        check_terms("pin", ttl=self.ttl, holder=self.holder)


@dataclass(frozen=True, slots=True)
class _Written:
    """A write of the pin that took place."""

    first: int
    last: int | None
    sent: float


class ReaderPin:
    """The pin of one reader. Calls may come from several threads; only ``renew`` and ``release`` wait for the store.

    Args:
        store: where the stream is.
        stream: the stream's own record.
        terms: how to pin.
        clock: seconds by a clock that never goes back.
    """

    def __init__(
        self, store: Store, stream: StreamRecord, terms: PinTerms, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.terms = terms
        self.id = str(uuid.uuid4())
        self.error: Exception | None = None
        """Why the last write of it failed, if it did."""
        self.lapses = 0
        """How often it was given up because the reader may have been taken for gone. PIN-6"""
        self._store = store
        self._stream = stream
        self._clock = clock
        self._lock = threading.Lock()
        self._wanted: tuple[int, int | None] | None = None
        self._written: _Written | None = None
        self._acquired_at = ""
        self._begun = False  # something may be there under this id
        self._confirmed = ""  # the id for which PIN-4 held
        self._boundary = 0  # as it was then
        self._over = False

    @property
    def held(self) -> bool:
        """Whether it is still to be renewed: it was not released, and the store did not refuse it for good."""
        return not self._over

    @property
    def stale(self) -> bool:
        """Whether others may think us gone, or were never told of us: a ttl has passed since the last write. PIN-6"""
        written = self._written
        return written is None or self._clock() - written.sent >= self.terms.ttl

    @property
    def covers(self) -> bool:
        """Whether what is wanted is pinned in the store, as far as is known here."""
        return not self.stale and self._within()

    @property
    def confirmed(self) -> bool:
        """Whether the pin may be relied on. PIN-4, PIN-6"""
        return self._confirmed == self.id and not self.stale

    def keeps_from(self, version: int) -> bool:
        """Whether nothing from ``version`` on can be collected, whatever the boundary is by now. LAT-5, COL-4"""
        written = self._written
        if written is None or written.last is not None or not self.confirmed:
            return False
        return version >= written.first and version >= self._boundary

    def want(self, first: int, last: int | None = None) -> None:
        """Say which versions are needed from now on; None for every later one. Nothing is written yet."""
        self._wanted = first, last

    def hold(self, version: int) -> None:
        """The reader has come to hold ``version``: nothing before it is needed any more. Written when renewed."""
        wanted = self._wanted
        if wanted is not None and version > wanted[0]:
            first, last = version, wanted[1]
            self._wanted = first if last is None else min(first, last), last

    def confirm(self, read: Callable[[], Retention], *, holding: int | None = None) -> Retention:
        """Read what is retained, now that the pin is written; from then on it may be relied on if it helps. PIN-4

        Args:
            read: reads ``retention.json``; what it raises passes through.
            holding: the version that the reader holds.

        Returns:
            What was read.
        """
        pin_id, wanted, before = self.id, self._wanted, self.covers
        retention = read()
        if wanted is not None and before and self.covers:  # what is written meanwhile, others may not have seen
            first = wanted[0]
            if first in retention or (holding == first and first + 1 in retention):
                self._boundary = retention.boundary
                self._confirmed = pin_id  # if there is another by now, that one is not confirmed. PIN-6
        return retention

    def keep(self) -> None:
        """Write the pin, unless what is wanted is pinned already. PIN-3"""
        if not self.covers:
            self.renew()

    def renew(self) -> None:
        """Write the pin, under a new id if it may have been taken for dead. A failure is kept in ``error``. PIN-5"""
        with self._lock:
            if self._over or self._wanted is None:
                return
            if self._written is not None and self._confirmed == self.id and not self._within():
                self._begin_anew()  # what is confirmed may only shrink. PIN-5
            try:
                if not self._write():
                    self.lapses += 1
                    self._begin_anew()
                    if not self._write():
                        self._begin_anew()
                        self.error = DeadlineExceededError(
                            f"the store took longer than the pin's ttl, {self.terms.ttl:g} s"
                        )
            except Exception as error:  # noqa: BLE001 - whatever a binding does, it never stops a reader. PIN-7
                self.error = error
                # A refusal is for good: a reader that may not write need not try for ever.
                self._over = isinstance(error, StoreError) and not error.retryable

    def release(self) -> None:
        """Remove the pin, or mark it released if it may not be removed; a failure is kept in ``error``. PIN-7"""
        with self._lock:
            if self._over:
                return
            self._over = True
            if self._begun:
                try:
                    self._remove()
                except Exception as error:  # noqa: BLE001 - it expires by itself
                    self.error = error

    def _remove(self) -> None:
        try:
            self._store.delete(keys.pin_key(self.id))
        except StoreError:
            self._put(released=True)

    def _within(self) -> bool:
        """Whether what is wanted lies in the range that is written."""
        written, wanted = self._written, self._wanted
        if written is None or wanted is None or wanted[0] < written.first:
            return False
        return written.last is None or (wanted[1] is not None and wanted[1] <= written.last)

    def _begin_anew(self) -> None:
        self.id, self._written, self._acquired_at, self._begun = str(uuid.uuid4()), None, "", False

    def _write(self) -> bool:
        """Write what is wanted; whether nobody can have taken us for gone by the time of the answer. PIN-6"""
        sent = self._clock()
        first, last = self._put(released=False)
        before = sent if self._written is None else self._written.sent
        if self._clock() - before >= self.terms.ttl:
            return False
        self._written = _Written(first, last, sent)
        self.error = None
        return True

    def _put(self, *, released: bool) -> tuple[int, int | None]:
        wanted = self._wanted
        assert wanted is not None  # noqa: S101 - callers look
        first, last = wanted
        self._begun = True
        self._acquired_at = self._acquired_at or now()
        record = PinRecord(
            **envelope(self._stream.stream_id, "pin", epoch=0, writer_features=self._stream.writer_features),
            holder=self.terms.holder,
            acquired_at=self._acquired_at,
            ttl_ms=milliseconds(self.terms.ttl),
            released=released,
            first=first,
            last=last,
        )
        self._store.put(keys.pin_key(self.id), records.encode(record), mode="overwrite")
        return first, last
