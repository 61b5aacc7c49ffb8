"""Renewing a lease beside the caller's work."""

from __future__ import annotations

import threading
import weakref
from contextlib import suppress

from deltawire.producer.lease import WriterLease

GRACE = 5.0
"""Seconds for which a producer that fails waits until its lease is released."""
_RENEWALS = 3
"""How often a holder renews within its ttl."""


class Heartbeat:
    """Renews a lease that is held until it is stopped or lost, in a thread of its own. LSE-8

    The thread ends, too, when nobody refers to this object any more: a producer that was forgotten looks like one
    that is gone, and others may follow it after a ttl.
    """

    def __init__(self, lease: WriterLease) -> None:
        self.lease = lease
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=_beat,
            args=(weakref.ref(lease), lease.terms.ttl / _RENEWALS, self._stop),
            name="deltawire-lease",
            daemon=True,
        )
        # If the system has no more threads the lease is renewed before each commit only. LSE-10
        with suppress(RuntimeError):
            self._thread.start()

    def stop(self, timeout: float | None) -> None:
        """Release the lease; after ``timeout`` seconds that goes on in its own thread, without the caller. LSE-11"""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(timeout)


def _beat(reference: weakref.ref[WriterLease], interval: float, stop: threading.Event) -> None:
    while True:
        stopped = stop.wait(interval)
        lease = reference()
        if lease is None:
            return
        # A failure of the store is no reason to stop: the next renewal may succeed, and if another has taken over
        # meanwhile, it will tell. A binding's own exceptions must not end the thread either.
        with suppress(Exception):
            if stopped:
                lease.release()
            else:
                lease.renew()
        if stopped or not lease.held:
            return
        del lease
