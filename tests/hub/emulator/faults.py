"""What goes wrong, as a test says."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from tests.hub.emulator.asking import Asked

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Fault:
    """A request that goes wrong. Without ``status``, ``drop`` and ``cut`` it is only slow."""

    match: str
    """A regular expression, looked for in ``METHOD path``."""
    times: int = 1
    """How many requests that match."""
    after: int = 0
    """How many requests that match go well first."""
    status: int | None = None
    """What is answered."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Of that answer."""
    do_it: bool = False
    """Whether the request is done, and only its answer replaced or lost."""
    drop: bool = False
    """Whether the connection is closed without an answer."""
    cut: bool = False
    """Whether the connection is closed after half of the answer's body."""
    delay: float = 0.0
    """Seconds that it waits first."""


@dataclass(frozen=True, kw_only=True)
class BatchFault:
    """Operations of a batch that fail, while the others are done."""

    paths: str = ""
    """A regular expression, looked for in the path."""
    every: int = 1
    """Only one of so many that match: the n-th, the 2n-th..."""
    times: int = 1
    """How many operations fail."""
    error: str = "Internal error"
    """What is said of them."""


@dataclass(frozen=True, kw_only=True)
class Stale:
    """Answers that show a bucket as it was, until ``calm``."""

    match: str = r"^GET /api/buckets/[^/]+/[^/]+/tree"
    """A regular expression, looked for in ``METHOD path``: of listings, ``paths-info`` or lists of the gateway."""
    seconds: float = 0.0
    writes: int = 0
    """Of a batch, all operations are one write."""


@dataclass(frozen=True, kw_only=True)
class _Before:
    match: str
    action: Callable[[Asked], object]
    times: int


@dataclass
class _Armed(Generic[T]):
    fault: T
    seen: int = 0
    done: int = 0


class Faults:
    """All that is to go wrong, safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.calm()

    def calm(self) -> None:
        """Nothing goes wrong any more."""
        with self._lock:
            self._faults: list[_Armed[Fault]] = []
            self._batch: list[_Armed[BatchFault]] = []
            self._stale: list[Stale] = []
            self._before: list[_Armed[_Before]] = []

    def add(self, fault: Fault | BatchFault | Stale) -> None:
        """Something more goes wrong."""
        with self._lock:
            if isinstance(fault, Fault):
                self._faults.append(_Armed(fault))
            elif isinstance(fault, BatchFault):
                self._batch.append(_Armed(fault))
            else:
                self._stale.append(fault)

    def before(self, match: str, action: Callable[[Asked], object], *, times: int) -> None:
        """Something is to happen before a request is looked at."""
        with self._lock:
            self._before.append(_Armed(_Before(match=match, action=action, times=times)))

    def of(self, asked: Asked) -> Fault | None:
        """What happens to a request. One fault at most, the one set first; the others do not see it."""
        with self._lock:
            for armed in self._faults:
                fault = armed.fault
                if armed.done < fault.times and re.search(fault.match, asked.line):
                    armed.seen += 1
                    if armed.seen > fault.after:
                        armed.done += 1
                        return fault
        return None

    def of_operation(self, path: str) -> str | None:
        """Why an operation of a batch fails."""
        with self._lock:
            for armed in self._batch:
                fault = armed.fault
                if armed.done < fault.times and re.search(fault.paths, path):
                    armed.seen += 1
                    if armed.seen % fault.every == 0:
                        armed.done += 1
                        return fault.error
        return None

    def staleness(self, asked: Asked) -> Stale | None:
        """How old what a request shows is."""
        with self._lock:
            return next((stale for stale in self._stale if re.search(stale.match, asked.line)), None)

    def actions(self, asked: Asked) -> list[Callable[[Asked], object]]:
        """What happens before a request."""
        found = []
        with self._lock:
            for armed in self._before:
                if armed.done < armed.fault.times and re.search(armed.fault.match, asked.line):
                    armed.done += 1
                    found.append(armed.fault.action)
        return found
