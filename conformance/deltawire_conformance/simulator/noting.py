"""What was asked of the simulator, in order."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Verb = Literal["get", "head", "list", "put", "copy", "begin", "part", "complete", "abort", "uploads", "delete", "other"]
"""What a request is, whatever it looks like; ``begin`` to ``uploads`` are of multi-part uploads."""


@dataclass(kw_only=True)
class Noted:
    """A request, and what became of it."""

    verb: Verb
    method: str
    key: str
    """Relative to the stream's prefix; of a listing, the prefix that was listed."""
    headers: Mapping[str, str]
    """By name in lower case."""
    body: bytes = field(repr=False)
    at: int
    """When it came in."""
    status: int | None = None
    """Of the answer; None if it was lost."""
    wrote_at: int | None = None
    """When it changed the store; None if it did not."""
    before: bytes | None = field(default=None, repr=False)
    """What was there before it wrote."""
    after: bytes | None = field(default=None, repr=False)
    """What it wrote."""

    @property
    def took_place(self) -> bool:
        """Whether it changed the store, whatever was answered."""
        return self.wrote_at is not None

    @property
    def confirmed(self) -> bool:
        """Whether whoever sent it knows that it was done."""
        return self.status is not None and self.status < 300

    def __str__(self) -> str:
        """Say it in a line."""
        conditions = [f"{name}: {self.headers[name]}" for name in ("if-none-match", "if-match") if name in self.headers]
        said = f" ({', '.join(conditions)})" if conditions else ""
        return f"{self.method} {self.key or '/'}{said} answered with {self.status or 'nothing'}"


class Log:
    """The requests of one case, safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._noted: list[Noted] = []
        self._shown = 0

    def add(self, noted: Noted) -> None:
        """Note a request as it comes in."""
        with self._lock:
            self._noted.append(noted)

    def since_last(self) -> list[Noted]:
        """Those since this was last asked."""
        with self._lock:
            found = self._noted[self._shown :]
            self._shown = len(self._noted)
            return found
