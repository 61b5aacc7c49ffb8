"""Storing parts while the next ones are being made."""

from __future__ import annotations

import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress

import pyarrow as pa

from deltawire.deadline import Deadline
from deltawire.errors import DeadlineExceededError, ObjectExistsError
from deltawire.format.records import Part
from deltawire.store.base import Store


class Uploads:
    """Puts parts in the background, a few at a time, so that memory stays bounded."""

    def __init__(self, store: Store, *, workers: int) -> None:
        self._store = store
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="deltawire-upload")
        self._workers = workers
        self._pending: deque[Future[object]] = deque()
        self.waited = 0.0
        """Seconds the caller has waited for the store."""

    def close(self) -> None:
        """Release the threads."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def put_part(self, part: Part, data: pa.Buffer, deadline: Deadline) -> None:
        """Begin to store a part; waits while as many as there are workers are under way."""
        while len(self._pending) >= self._workers:
            self._wait(self._pending.popleft(), deadline)
        self._pending.append(self._pool.submit(self._store.put_stream, part.key, [memoryview(data).cast("B")]))

    def put_once(self, key: str, data: bytes, deadline: Deadline) -> None:
        """Store a content-addressed object; one that is there already holds the same bytes (KEY-3)."""

        def put() -> None:
            with suppress(ObjectExistsError):
                self._store.put(key, data, mode="create")

        self._wait(self._pool.submit(put), deadline)

    def finish(self, deadline: Deadline) -> None:
        """Wait until everything is stored."""
        while self._pending:
            self._wait(self._pending.popleft(), deadline)

    def abandon(self) -> None:
        """Forget what is under way after a failure; what it stores is referenced by nothing."""
        while self._pending:
            self._pending.popleft().cancel()

    def _wait(self, future: Future[object], deadline: Deadline) -> None:
        started = time.perf_counter()
        try:
            future.result(deadline.remaining())
        except FutureTimeoutError:
            raise DeadlineExceededError("the store did not take the parts before the deadline") from None
        finally:
            self.waited += time.perf_counter() - started
