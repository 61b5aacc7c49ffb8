"""When to write an anchor, and writing one in the background (SPEC.md section 11.3)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class AnchorPolicy:
    """An anchor is due when either rule says so; None switches a rule off."""

    every: int | None = 50
    """Versions from one anchor to the next."""
    outweigh: float | None = 1.0
    """Anchor when the deltas since the last one have this many times the bytes of the state: replaying them would
    cost a late joiner more than a fresh snapshot."""

    def due(self, *, versions: int, delta_bytes: int, state_bytes: int) -> bool:
        """Whether an anchor should be written now.

        Args:
            versions: since the last anchor or snapshot.
            delta_bytes: of the deltas since then.
            state_bytes: of a whole state.
        """
        if versions == 0:
            return False
        by_count = self.every is not None and versions >= self.every
        by_bytes = self.outweigh is not None and delta_bytes >= self.outweigh * state_bytes
        return by_count or by_bytes


NEVER = AnchorPolicy(every=None, outweigh=None)


class BackgroundTask:
    """At most one piece of work beside the caller's."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self.error: Exception | None = None
        """What stopped the last piece of work, if anything did."""

    @property
    def busy(self) -> bool:
        """Whether work is going on."""
        return self._thread is not None and self._thread.is_alive()

    def start(self, work: Callable[[], None]) -> bool:
        """Begin a piece of work; the one before must have ended. Whether there was a thread for it."""
        self.error = None

        def run() -> None:
            try:
                work()
            except Exception as error:  # noqa: BLE001 - shown by the publisher; an anchor never stops the line
                self.error = error

        self._thread = threading.Thread(target=run, name="deltawire-anchor", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:  # the system has no more threads
            self._thread, self.error = None, error
            return False
        return True

    def wait(self, timeout: float | None) -> bool:
        """Wait for the work to end; whether it did."""
        if self._thread is not None:
            self._thread.join(timeout)
        return not self.busy
