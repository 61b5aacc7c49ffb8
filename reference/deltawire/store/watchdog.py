"""Ending, from another thread, what a library would wait for without end (SPEC.md STO-9)."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import monotonic

_IDLE_SECONDS = 5.0
"""How long the thread stays when there is nothing to watch, as it is likely to be needed again."""


class Watchdog:
    """One thread that watches whatever is under way, for several threads; there is none while nothing is."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._serial = itertools.count()
        self._watched: dict[int, tuple[float, Callable[[], object]]] = {}
        self._thread: threading.Thread | None = None
        self._next = 0.0
        """When the thread looks again."""

    @contextmanager
    def limit(self, seconds: float, give_up: Callable[[], object]) -> Iterator[None]:
        """Call ``give_up`` in another thread, once, if what is done takes longer."""
        end, key = monotonic() + seconds, next(self._serial)
        with self._changed:
            if self._thread is None:
                thread = threading.Thread(target=self._watch, name="deltawire-watchdog", daemon=True)
                thread.start()  # a system without threads to spare refuses it; it waits for the lock first
                self._thread = thread
            self._watched[key] = (end, give_up)
            if end < self._next:
                self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                self._watched.pop(key, None)

    def _watch(self) -> None:
        while True:
            with self._changed:
                now = monotonic()
                due = [key for key, (end, _) in self._watched.items() if end <= now]
                late = [self._watched.pop(key)[1] for key in due]
                if not late:
                    idle = not self._watched
                    self._next = min([now + _IDLE_SECONDS, *(end for end, _ in self._watched.values())])
                    self._changed.wait(self._next - now)
                    if idle and not self._watched:
                        self._thread = None
                        return
            for give_up in late:
                with suppress(Exception):  # it has ended meanwhile; and others are watched, whatever it is
                    give_up()
