"""Writing to the store beside the caller's own work, with a deadline on every wait."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, TypeVar

import pyarrow as pa

from deltawire.deadline import Deadline, wait_for
from deltawire.errors import DeadlineExceededError, OutcomeUnknownError
from deltawire.format.records import Part
from deltawire.limits import MIB
from deltawire.store.base import Store

T = TypeVar("T")


class Uploads:
    """Puts parts in the background, a few at a time and bounded in size, so that memory is too."""

    def __init__(self, store: Store, *, workers: int, in_flight_bytes: int = 128 * MIB) -> None:
        self._store = store
        self.writes = store.write_batch()
        """What is stored together until ``finish``."""
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="deltawire-upload")
        self._workers = workers
        self._in_flight_bytes = in_flight_bytes
        self._pending: deque[tuple[Future[object], int]] = deque()
        self._running: set[Future[Any]] = set()
        self.waited = 0.0
        """Seconds the caller has waited for the store."""

    def close(self, timeout: float | None = None) -> None:
        """Wait for requests under way, ``timeout`` seconds at most, and release the threads."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        wait(list(self._running), timeout)

    def put_part(self, part: Part, data: pa.Buffer, deadline: Deadline) -> None:
        """Begin to store a part; waits while too many, or too many bytes of others, are under way."""
        while self._pending and (
            len(self._pending) >= self._workers or self._bytes() + part.bytes > self._in_flight_bytes
        ):
            self._wait(self._pending.popleft()[0], deadline)
        writes, chunks = self.writes, [memoryview(data).cast("B")]
        self._pending.append((self._submit(lambda: writes.put_stream(part.key, chunks)), part.bytes))

    def run(self, work: Callable[[], T], deadline: Deadline) -> T:
        """Do one piece of work on the store, but wait for it no longer than the deadline allows.

        Raises:
            DeadlineExceededError: it was not done in time; it may go on in its thread.
        """
        return self._wait(self._submit(work), deadline)

    def commit(self, work: Callable[[], T], deadline: Deadline) -> T:
        """The same for work that must not be left behind unnoticed.

        Raises:
            DeadlineExceededError: it was not begun in time, and will not be.
            OutcomeUnknownError: it was begun, but not done in time.
        """
        future = self._submit(work)
        try:
            return self._wait(future, deadline)
        except DeadlineExceededError as error:
            if future.cancelled():
                raise
            raise OutcomeUnknownError("the store did not answer to the commit before the deadline") from error

    def finish(self, deadline: Deadline) -> None:
        """Wait until everything is stored that was put or written into ``writes``. CMT-1"""
        while self._pending:
            self._wait(self._pending.popleft()[0], deadline)
        self.run(self.writes.finish, deadline)

    def abandon(self) -> None:
        """Forget what is under way after a failure; what it stores is referenced by nothing."""
        while self._pending:
            self._pending.popleft()[0].cancel()
        self.writes = self._store.write_batch()

    def _bytes(self) -> int:
        return sum(size for future, size in self._pending if not future.done())

    def _submit(self, work: Callable[[], T]) -> Future[T]:
        future = self._pool.submit(work)
        self._running.add(future)
        future.add_done_callback(self._running.discard)
        return future

    def _wait(self, future: Future[T], deadline: Deadline) -> T:
        started = time.perf_counter()
        try:
            if not wait_for(future, deadline) and (future.cancel() or not future.done()):
                raise DeadlineExceededError("the store was not done with a write before the deadline")
            return future.result()
        finally:
            self.waited += time.perf_counter() - started
