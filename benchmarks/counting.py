"""A store that counts what one party asks of it."""

from collections import Counter
from collections.abc import Iterator

from deltawire.store.base import Bytes, ObjectInfo, PutMode, StoredObject
from deltawire.store.memory import MemoryStore


class CountingStore(MemoryStore):
    """One party's view of a bucket in memory: its requests by verb and folder, and the bytes that came and went."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.requests: Counter[str] = Counter()
        self.bytes_in = self.bytes_out = 0

    def reset(self) -> None:
        """Count anew."""
        self.requests.clear()
        self.bytes_in = self.bytes_out = 0

    def get(self, key: str, *, max_bytes: int) -> StoredObject:
        self._count("get", key)  # one that finds nothing is a request too
        found = super().get(key, max_bytes=max_bytes)
        self.bytes_in += len(found.data)
        return found

    def get_range(self, key: str, start: int, length: int) -> bytes:
        self._count("get range", key)
        self.bytes_in += length
        return super().get_range(key, start, length)

    def head(self, key: str) -> ObjectInfo:
        self._count("head", key)
        return super().head(key)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        self._count("list", prefix)
        return super().list(prefix)

    def put(self, key: str, data: Bytes, *, mode: PutMode) -> str:
        self._count("put", key)
        self.bytes_out += memoryview(data).nbytes
        return super().put(key, data, mode=mode)

    def delete(self, key: str) -> None:
        self._count("delete", key)
        super().delete(key)

    def _count(self, verb: str, key: str) -> None:
        folder = key.split("/", maxsplit=1)[0]
        self.requests[f"{verb} {folder}"] += 1
