"""Concurrent, checked and bounded reads from a store."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from threading import Lock
from typing import TypeVar

from deltawire.deadline import Deadline, wait_for
from deltawire.errors import (
    DeadlineExceededError,
    DigestMismatchError,
    LimitExceededError,
    MissingObjectError,
    ObjectNotFoundError,
    SizeMismatchError,
)
from deltawire.format.records import Descriptor
from deltawire.format.strict_json import sha256
from deltawire.limits import DEFAULT_LIMITS, MIB, Limits
from deltawire.store.base import OpenObject, Store

T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True, slots=True)
class RangeRequest:
    """Bytes to read from a data object."""

    key: str
    start: int
    bytes: int


class Transfer:
    """A store with a pool of readers, a deadline on every wait and a bound on what is in flight."""

    def __init__(
        self,
        store: Store,
        *,
        limits: Limits = DEFAULT_LIMITS,
        workers: int = 8,
        in_flight_bytes: int = 64 * MIB,
    ) -> None:
        self.store = store
        self.limits = limits
        self._in_flight_bytes = in_flight_bytes
        self._workers = workers
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="deltawire-transfer")

    def close(self) -> None:
        """Release the threads; reads under way end in their own time, and nobody waits for what they bring."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def call(self, deadline: Deadline, function: Callable[[], T]) -> T:
        """Run one store call, but wait for it no longer than the deadline allows.

        Raises:
            DeadlineExceededError: it was not done in time; it may go on in its thread.
        """
        return _wait(self._pool.submit(function), deadline)

    def read_small(self, key: str, *, max_bytes: int, deadline: Deadline) -> bytes:
        """Read a whole object of at most ``max_bytes``. Raises ObjectNotFoundError, LimitExceededError."""
        return self.call(deadline, lambda: self.store.get(key, max_bytes=max_bytes).data)

    def read_object(self, descriptor: Descriptor, *, max_bytes: int, deadline: Deadline) -> bytes:
        """Read what a descriptor points at and check it: size first, then sha256 (DSC-3).

        Raises:
            LimitExceededError: its record says that it has more than ``max_bytes``.
            MissingObjectError: it is not there.
            SizeMismatchError: it is shorter or longer.
            DigestMismatchError: it holds other bytes.
        """
        key = descriptor.key
        if descriptor.bytes > max_bytes:
            raise LimitExceededError(f"{key} has {descriptor.bytes:,} bytes, more than the limit of {max_bytes:,}")
        try:
            data = self.read_small(key, max_bytes=descriptor.bytes, deadline=deadline)
        except ObjectNotFoundError:
            raise MissingObjectError(f"{key} is named by a record, but is not there") from None
        except LimitExceededError:
            raise SizeMismatchError(f"{key} has more than {descriptor.bytes:,} bytes") from None
        if len(data) != descriptor.bytes:
            raise SizeMismatchError(f"{key} has {len(data):,} bytes, not {descriptor.bytes:,}")
        if sha256(data) != descriptor.digest:
            raise DigestMismatchError(f"{key} is not what its record says")
        return data

    def ranges(self, requests: Iterable[RangeRequest], *, deadline: Deadline) -> Iterator[bytes]:
        """Read ranges concurrently and yield them in order.

        Raises:
            MissingObjectError: an object is not there.
            SizeMismatchError: an object is too short.
        """
        requests = list(requests)
        opened = _Opened(self.store, list(dict.fromkeys(request.key for request in requests)))

        def read(request: RangeRequest) -> bytes:
            try:
                return opened.of(request.key).get_range(request.start, request.bytes)
            except ObjectNotFoundError:
                raise MissingObjectError(f"{request.key} is named by a record, but is not there") from None

        return self._windowed(read, requests, lambda request: request.bytes, deadline)

    def map(self, function: Callable[[T], U], items: Iterable[T], *, deadline: Deadline) -> Iterator[U]:
        """Apply ``function`` to small items concurrently and yield the results in order."""
        return self._windowed(function, items, lambda _: 0, deadline)

    def delete(self, keys: Iterable[str], *, deadline: Deadline) -> None:
        """Delete objects concurrently, as many with each request as the store can."""
        remaining = iter(keys)
        several = iter(lambda: list(islice(remaining, self.store.deletes_at_once)), [])
        for _ in self.map(self.store.delete_all, several, deadline=deadline):
            pass

    def _windowed(
        self, function: Callable[[T], U], items: Iterable[T], size: Callable[[T], int], deadline: Deadline
    ) -> Iterator[U]:
        window: deque[tuple[Future[U], int]] = deque()
        in_flight = 0
        try:
            for item in items:
                cost = size(item)
                while window and (in_flight + cost > self._in_flight_bytes or len(window) >= 4 * self._workers):
                    future, done = window.popleft()
                    yield _wait(future, deadline)
                    in_flight -= done
                window.append((self._pool.submit(function, item), cost))
                in_flight += cost
            while window:
                yield _wait(window.popleft()[0], deadline)
        finally:
            for future, _ in window:
                future.cancel()


class _Opened:
    """Objects of one reading, each looked up once however many threads read it, and together where that is cheaper."""

    def __init__(self, store: Store, keys: Sequence[str]) -> None:
        self._store = store
        self._keys = keys
        self._lock = Lock()
        self._together: Future[dict[str, OpenObject]] | None = None
        self._opened: dict[str, Future[OpenObject]] = {}

    def of(self, key: str) -> OpenObject:
        """The object under a key. Raises what ``Store.open`` does."""
        with self._lock:
            first, together = self._together is None, self._together or Future[dict[str, OpenObject]]()
            self._together = together
        opened = _settled(together, first, lambda: self._store.open_all(self._keys)).get(key)
        if opened is not None:
            return opened
        with self._lock:
            first, opening = key not in self._opened, self._opened.setdefault(key, Future())
        return _settled(opening, first, lambda: self._store.open(key))


def _settled(shared: Future[T], first: bool, work: Callable[[], T]) -> T:  # noqa: FBT001
    """What the first of several threads finds; if that is a failure, the others do not try it too."""
    if first:
        try:
            shared.set_result(work())
        except BaseException as error:
            shared.set_exception(error)
            raise
    return shared.result()


def _wait(future: Future[T], deadline: Deadline) -> T:
    deadline.remaining()
    if not wait_for(future, deadline) and (future.cancel() or not future.done()):
        raise DeadlineExceededError("the store did not answer before the deadline")
    return future.result()
