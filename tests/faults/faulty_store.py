"""A store that fails on purpose at chosen calls and keeps a log of every one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

from deltawire.errors import ObjectExistsError, StoreDeniedError, StoreUnavailableError
from deltawire.store.base import Bytes, ObjectInfo, PutMode, Store, StoredObject

T = TypeVar("T")


class Fault(StrEnum):
    """What goes wrong with one call."""

    UNAVAILABLE = "unavailable"
    """A retryable failure before anything happened, such as a 503."""
    DENIED = "denied"
    """A refusal before anything happened, such as a 403."""
    ANSWER_LOST = "answer_lost"
    """It takes effect, and then the connection breaks."""
    EXISTS = "exists"
    """A create takes effect, its answer is lost, and the client's own second attempt finds the key taken."""
    CUT = "cut"
    """A stream breaks off half-way: nothing becomes visible."""
    STALE = "stale"
    """A listing does not show the last object yet."""
    BUG = "bug"
    """An exception that no binding should let through."""
    HANG = "hang"
    """No answer until ``release``; then it takes effect."""


READS = {Fault.UNAVAILABLE, Fault.DENIED}
APPLICABLE = {
    "get": READS,
    "get_range": READS,
    "head": READS,
    "list": READS | {Fault.STALE},
    "create": READS | {Fault.ANSWER_LOST, Fault.EXISTS},
    "put": READS | {Fault.ANSWER_LOST},
    "put_stream": READS | {Fault.ANSWER_LOST, Fault.CUT},
    "delete": READS | {Fault.ANSWER_LOST},
}
"""The faults that an ordinary store may show, by verb."""


class BindingBugError(Exception):
    """Not one of Deltawire's errors."""


@dataclass(slots=True)
class Call:
    """One request."""

    index: int
    verb: str
    key: str
    fault: Fault | None = None
    took_effect: bool = False
    """A write of it is in the store."""

    def __str__(self) -> str:  # shown when an assertion fails
        return f"call {self.index}: {self.verb} {self.key} with {self.fault}"


@dataclass
class FaultyStore(Store):
    """Passes every call on to ``inner``, except for the faults planned by call number.

    ``before`` is called ahead of each request, in the thread that makes it.
    """

    inner: Store
    faults: Mapping[int, Fault] = field(default_factory=dict)
    before: Callable[[Call], None] = lambda call: None

    def __post_init__(self) -> None:
        self.url = self.inner.url
        self.guarantees = self.inner.guarantees
        self.log: list[Call] = []
        self.effects: list[Call] = []
        """Writes in the order in which they took effect."""
        self._lock = threading.Lock()
        self._released = threading.Event()

    def release(self) -> None:
        """Let every call go on that hangs, or is going to."""
        self._released.set()

    def get(self, key: str, *, max_bytes: int) -> StoredObject:
        return self._read("get", key, lambda: self.inner.get(key, max_bytes=max_bytes))

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self._read("get_range", key, lambda: self.inner.get_range(key, start, length))

    def head(self, key: str) -> ObjectInfo:
        return self._read("head", key, lambda: self.inner.head(key))

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        call = self._begin("list", prefix)
        found = [*self.inner.list(prefix)]
        return iter(found[:-1] if call.fault is Fault.STALE else found)

    def put(self, key: str, data: Bytes, *, mode: PutMode) -> str:
        verb = "create" if mode == "create" else "put"
        call = self._begin(verb, key)
        return self._write(call, lambda: self.inner.put(key, data, mode=mode))

    def put_stream(self, key: str, chunks: Iterable[Bytes]) -> int:
        call = self._begin("put_stream", key)
        if call.fault is Fault.CUT:
            next(iter(chunks))
            raise StoreUnavailableError(f"{call}: cut off")
        return self._write(call, lambda: self.inner.put_stream(key, chunks))

    def delete(self, key: str) -> None:
        call = self._begin("delete", key)
        self._write(call, lambda: self.inner.delete(key))

    def _read(self, verb: str, key: str, read: Callable[[], T]) -> T:
        self._begin(verb, key)
        return read()

    def _begin(self, verb: str, key: str) -> Call:
        with self._lock:
            index = len(self.log)
            fault = self.faults.get(index)
            if fault is not None and fault not in APPLICABLE[verb] | {Fault.BUG, Fault.HANG}:
                fault = None
            call = Call(index, verb, key, fault)
            self.log.append(call)
        self.before(call)
        if call.fault is Fault.HANG:
            assert self._released.wait(60), "nobody released the call"
        if call.fault is Fault.UNAVAILABLE:
            raise StoreUnavailableError(f"{call}: try again")
        if call.fault is Fault.DENIED:
            raise StoreDeniedError(f"{call}: refused")
        if call.fault is Fault.BUG:
            raise BindingBugError(str(call))
        return call

    def _write(self, call: Call, write: Callable[[], T]) -> T:
        result = write()
        call.took_effect = True
        with self._lock:
            self.effects.append(call)
        if call.fault is Fault.ANSWER_LOST:
            raise StoreUnavailableError(f"{call}: the answer was lost")
        if call.fault is Fault.EXISTS:
            raise ObjectExistsError(f"{call}: it exists")
        return result
