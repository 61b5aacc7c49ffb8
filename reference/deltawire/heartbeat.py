"""Showing a store again and again that somebody is alive, beside the caller's work."""

from __future__ import annotations

import threading
import weakref
from contextlib import suppress
from typing import Protocol

GRACE = 5.0
"""Seconds for which a caller that ends waits until others are told so."""
RENEWALS = 3
"""How often a sign of life is given within its ttl."""


class Renewable(Protocol):
    """What is kept alive: a lease, a pin."""

    @property
    def held(self) -> bool:
        """Whether there still is something to renew."""

    def renew(self) -> None:
        """Give a sign of life."""

    def release(self) -> None:
        """Say that it is over."""


class Heartbeat:
    """Renews something until it is stopped or lost, in a thread of its own.

    The thread ends, too, when nobody refers to this object any more: whoever was forgotten looks like one that is gone.

    Args:
        renewed: what to renew; only this object keeps it alive.
        ttl: seconds without a sign of life after which others may take the caller for gone.
        name: of the thread.
    """

    def __init__(self, renewed: Renewable, *, ttl: float, name: str) -> None:
        self._renewed = renewed
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=_beat, args=(weakref.ref(renewed), ttl / RENEWALS, self._stop), name=name, daemon=True
        )
        # If the system has no more threads, a lease is renewed before each commit only (LSE-10), and a pin lapses.
        with suppress(RuntimeError):
            self._thread.start()

    def stop(self, timeout: float | None) -> None:
        """Release; after ``timeout`` seconds that goes on in its own thread, without the caller."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(timeout)


def _beat(reference: weakref.ref[Renewable], interval: float, stop: threading.Event) -> None:
    while True:
        stopped = stop.wait(interval)
        renewed = reference()
        if renewed is None:
            return
        # A failure of the store is no reason to stop: the next renewal may succeed, and if another has taken over
        # meanwhile, it will tell. A binding's own exceptions must not end the thread either.
        with suppress(Exception):
            if stopped:
                renewed.release()
            else:
                renewed.renew()
        if stopped or not renewed.held:
            return
        del renewed
