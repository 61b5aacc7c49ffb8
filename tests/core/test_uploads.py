"""Parts are stored beside the work that makes them, a bounded number of bytes at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from deltawire.deadline import Deadline
from deltawire.format.records import Part
from deltawire.producer.uploads import Uploads
from deltawire.store.base import Bytes
from deltawire.store.memory import MemoryStore

LIMIT, WORKERS = 100, 3


class Watched(MemoryStore):
    """Takes its time, and notes how much is on its way at once."""

    def __init__(self) -> None:
        super().__init__(f"uploads/{id(self)}")
        self._lock = threading.Lock()
        self.now: list[int] = []
        self.most: list[list[int]] = []

    def put_stream(self, key: str, chunks: Iterable[Bytes]) -> int:
        data = b"".join(chunks)
        with self._lock:
            self.now.append(len(data))
            self.most.append(list(self.now))
        time.sleep(0.001)
        written = super().put_stream(key, [data])
        with self._lock:
            self.now.remove(len(data))
        return written


@given(st.lists(st.integers(1, 250), max_size=20))
@settings(max_examples=20)
def test_what_is_in_flight_is_bounded(sizes: list[int]) -> None:
    store = Watched()
    uploads = Uploads(store, workers=WORKERS, in_flight_bytes=LIMIT)
    deadline = Deadline.after(60)
    for number, size in enumerate(sizes):
        part = Part(key=f"p{number}", media_type="", bytes=size, digest="", streams=(), batches=())
        uploads.put_part(part, pa.py_buffer(bytes(size)), deadline)
    uploads.finish(deadline)
    uploads.close()
    assert [store.head(f"p{number}").bytes for number in range(len(sizes))] == sizes
    for together in store.most:
        assert len(together) <= WORKERS
        assert len(together) == 1 or sum(together) <= LIMIT, "one alone may be larger"
