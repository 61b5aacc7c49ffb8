"""A simulated process's way to the store: it pauses before and after each call, and calls can go wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Protocol, TypeVar

from deltawire.errors import DeltawireError, StoreUnavailableError
from deltawire.format import keys
from deltawire.store.base import Bytes, ObjectInfo, PutMode, Store, StoredObject
from deltawire.store.memory import MemoryStore
from tests.coordination.simulation import current

T = TypeVar("T")

FAULTS = ("refused", "lost", "late", "fine")
"""A call fails and never arrives, as after a 409; or it takes place and its answer is lost; or it is still on its way
when its sender gives up, and arrives when the test lets it; or nothing happens to it."""
PAGE = 4
"""Keys that one request of a listing brings."""


class Watcher(Protocol):
    """Who sees every write when it takes place."""

    def wrote(self, key: str, data: bytes) -> None: ...
    def deleting(self, key: str) -> None: ...


class Wire(Store):
    """Calls of one process."""

    def __init__(self, inner: MemoryStore, watcher: Watcher) -> None:
        self.inner = inner
        self.watcher = watcher
        self.url, self.guarantees = inner.url, inner.guarantees
        self.faults: list[str] = []
        """What happens to the next calls, in this order."""
        self.late: list[tuple[str, Callable[[], object]]] = []
        """Writes that are still on their way."""
        self.retention: bytes | None = None
        """What it read last of what is retained."""
        """Whether the store tells when an object was written."""

    def arrive(self) -> None:
        """Let the first write that is on its way take place."""
        _, write = self.late.pop(0)
        with suppress(DeltawireError):
            write()

    def get(self, key: str, *, max_bytes: int) -> StoredObject:
        def read() -> StoredObject:
            if key == keys.RETENTION:
                self.retention = None
            stored = self.inner.get(key, max_bytes=max_bytes)
            if key == keys.RETENTION:
                self.retention = stored.data
            return stored

        return self._call("get", key, read)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self._call("get_range", key, lambda: self.inner.get_range(key, start, length))

    def head(self, key: str) -> ObjectInfo:
        return self._call("head", key, lambda: self.inner.head(key))

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        page = self._page(prefix, "")
        while page:
            yield from page
            page = self._page(prefix, page[-1].key) if len(page) == PAGE else []

    def _page(self, prefix: str, after: str) -> Sequence[ObjectInfo]:
        def list_from() -> list[ObjectInfo]:
            return [info for info in self.inner.list(prefix) if info.key > after][:PAGE]

        return self._call("list", prefix, list_from)

    def put(self, key: str, data: Bytes, *, mode: PutMode) -> str:
        content = bytes(data)
        verb = mode if isinstance(mode, str) else "replace"

        def write() -> str:
            token = self.inner.put(key, content, mode=mode)
            self.watcher.wrote(key, content)
            return token

        return self._call(verb, key, write, writes=True)

    def put_stream(self, key: str, chunks: Iterable[Bytes]) -> int:
        content = b"".join(bytes(chunk) for chunk in chunks)

        def write() -> int:
            self.inner.put(key, content, mode="overwrite")
            self.watcher.wrote(key, content)
            return len(content)

        return self._call("put_stream", key, write, writes=True)

    def delete(self, key: str) -> None:
        def write() -> None:
            self.watcher.deleting(key)
            self.inner.delete(key)

        self._call("delete", key, write, writes=True)

    def _call(self, verb: str, key: str, work: Callable[[], T], *, writes: bool = False) -> T:
        task = current()
        task.pause(f"before {verb} {key}")
        fault = self.faults.pop(0) if self.faults else "fine"
        if fault == "late" and writes:
            self.late.append((f"{verb} {key}", work))
        if fault in {"refused", "late"}:
            raise StoreUnavailableError(f"{verb} {key}: {fault}")
        try:
            result = work()
        except DeltawireError:
            task.pause(f"after {verb} {key}")
            raise
        task.pause(f"after {verb} {key}")
        if fault == "lost":
            raise StoreUnavailableError(f"{verb} {key}: lost")
        return result
