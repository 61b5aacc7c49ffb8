"""What was asked of the emulator, in order."""

from __future__ import annotations

import threading
from collections import Counter, deque
from dataclasses import dataclass

from tests.hub.emulator.asking import Kind

_KEPT = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Noted:
    """A request, and how it was answered."""

    kind: Kind
    method: str
    path: str
    status: int
    """0 if the answer was lost."""
    received: int
    """Bytes of the request's body."""
    sent: int
    """Bytes of the answer's body."""


class Log:
    """The last hundred thousand requests, safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._noted: deque[Noted] = deque(maxlen=_KEPT)

    def add(self, noted: Noted) -> None:
        """Note a request, when it was answered."""
        with self._lock:
            self._noted.append(noted)

    def all(self) -> list[Noted]:
        """All since the last ``clear``."""
        with self._lock:
            return list(self._noted)

    def counts(self) -> Counter[str]:
        """How many there were of each kind."""
        return Counter(noted.kind for noted in self.all())

    def clear(self) -> None:
        """Begin anew."""
        with self._lock:
            self._noted.clear()
