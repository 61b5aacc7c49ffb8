"""Pinning beside a reader's work: what it needs, for as long as it is open (SPEC.md section 11.13)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from deltawire.consumer.pin import PinTerms, ReaderPin
from deltawire.deadline import Deadline
from deltawire.errors import DeadlineExceededError, VersionNotFoundError
from deltawire.heartbeat import GRACE, Heartbeat
from deltawire.holders import this_process
from deltawire.reading.retention import Retention, read_retention
from deltawire.reading.stream import StreamReader

_LOOKS = 1 / 12
"""Part of the ttl after which a reader looks at the boundary all the same."""
_LONGEST_LOOK = 30.0
"""Seconds, however long the ttl."""


class Pinning:
    """Keeps what a reader needs from being collected, as far as its store lets it. Never stops the reader. PIN-7

    Nothing is written before something is needed. From then on a thread renews the pin until it is closed, or nobody
    refers to this object any more.

    Args:
        reader: of the stream.
        terms: how to pin; None for not at all.
    """

    def __init__(self, reader: StreamReader, terms: PinTerms | None) -> None:
        self._reader = reader
        self._terms = terms
        self._pin: ReaderPin | None = None
        self._heartbeat: Heartbeat | None = None
        self._looked = -math.inf

    @property
    def error(self) -> Exception | None:
        """Why nothing is pinned, or why the pin was not renewed; None if all is well or nothing was needed yet."""
        return None if self._pin is None else self._pin.error

    @property
    def pin(self) -> ReaderPin | None:
        """The pin; None before something is needed."""
        return self._pin

    def need(self, first: int, last: int | None = None, *, deadline: Deadline) -> None:
        """Pin ``first`` to ``last``, or to whatever comes; costs nothing if that is pinned already. PIN-3

        Called before the way is planned with the version held, or else before the first step with the version whose
        snapshot the way begins with. ``confirm`` comes next.

        Raises:
            DeadlineExceededError: the caller's time ran out.
            StoreError, PathError, FormatError: the stream's own record could not be read.
        """
        if self._terms is None:
            return
        if self._pin is None:
            self._pin = ReaderPin(self._reader.transfer.store, self._reader.stream(deadline), self._terms)
        pin = self._pin
        pin.want(first, last)
        if not pin.held or pin.covers or pin.error is not None:  # after a failure the heartbeat tries again
            return
        left = deadline.remaining()
        try:
            # A write that takes longer than that protects nothing.
            wait = self._terms.ttl if left is None else min(self._terms.ttl, left)
            self._reader.transfer.call(Deadline.after(wait), pin.keep)
        except DeadlineExceededError as error:
            pin.error = error
            deadline.remaining()
        if self._heartbeat is None and pin.held:
            self._heartbeat = Heartbeat(pin, ttl=self._terms.ttl, name="deltawire-pin")

    def confirm(self, read: Callable[[], Retention], *, holding: int | None = None) -> Retention:
        """Read what is retained, after ``need`` and before the first step. PIN-4, RET-3

        Args:
            read: reads ``retention.json``.
            holding: the version held.
        """
        if self._pin is None:
            return read()
        self._looked = time.monotonic()
        return self._pin.confirm(read, holding=holding)

    def spares_boundary(self, next_version: int) -> bool:
        """Whether a reader that does not find ``next_version`` need not look at the boundary. LAT-5

        If not, it looks, and need not again for a small part of the ttl, or half a minute, as long as the pin is good:
        should somebody collect what is pinned all the same, the reader notices soon.
        """
        if self._pin is None or not self._pin.keeps_from(next_version):
            return False
        now = time.monotonic()
        if now - self._looked < min(self._pin.terms.ttl * _LOOKS, _LONGEST_LOOK):
            return True
        self._looked = now
        return False

    def hold(self, version: int) -> None:
        """The reader has come to hold ``version``; what lies before it is free when the pin is renewed."""
        if self._pin is not None:
            self._pin.hold(version)

    def close(self, timeout: float | None = GRACE) -> None:
        """Release the pin; after ``timeout`` seconds that goes on without the caller. PIN-7"""
        if self._heartbeat is not None:
            self._heartbeat.stop(timeout)
            self._heartbeat = None


@contextmanager
def pinned(
    reader: StreamReader,
    first: int,
    last: int | None = None,
    *,
    deadline: Deadline,
    terms: PinTerms | None = None,
) -> Iterator[Pinning]:
    """Keep ``first`` to ``last`` from being collected for the duration of a block, as far as the store lets us.

    Args:
        reader: of the stream.
        first: oldest version that the block reads.
        last: newest one; None for every later one.
        deadline: of the caller.
        terms: how to pin; None for the defaults.

    Raises:
        VersionNotFoundError: ``first`` is not retained any more. RET-3
        FormatError, WrongStreamError, StoreError, DeadlineExceededError: what is retained could not be read. RET-4
    """
    pinning = Pinning(reader, terms or PinTerms(holder=this_process()))
    try:
        pinning.need(first, last, deadline=deadline)
        retention = pinning.confirm(lambda: read_retention(reader.transfer, reader.stream(deadline), deadline))
        if first not in retention:
            raise VersionNotFoundError(f"version {first} is not retained any more")
        yield pinning
    finally:
        pinning.close()
