"""Stores and sources that tell how far a command has come."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from deltawire.format.dtypes import Bits, dtype_of, storage_shape
from deltawire.inspecting.history import Advance, no_progress
from deltawire.producer.source import Source
from deltawire.store.base import Bytes, ObjectInfo, OpenObject, PutMode, Store, StoredObject, WriteBatch


def source_bytes(source: Source) -> int:
    """Size of all tensors of a source."""
    total = 0
    for _, name, shape in source.entries:
        dtype = dtype_of(name)
        total += math.prod(storage_shape(dtype, shape)) * dtype.width
    return total


class MeteredSource(Source):
    """A source that tells how many bytes of its tensors were asked for, each tensor once."""

    def __init__(self, source: Source, advance: Advance) -> None:
        self._source = source
        self._advance = advance
        self._seen: set[str] = set()
        self.entries, self.aliases = source.entries, source.aliases

    def bits(self, name: str) -> Bits:
        bits = self._source.bits(name)
        if name not in self._seen:
            self._seen.add(name)
            self._advance(bits.nbytes)
        return bits


class MeteredStore(Store):
    """A store that tells ``advance``, which may be changed at any time, how many bytes of data objects were read."""

    def __init__(self, store: Store, advance: Advance = no_progress) -> None:
        self._store = store
        self.advance = advance
        self.url = store.url
        self.guarantees = store.guarantees
        self.poll_seconds = store.poll_seconds
        self.closest_poll_seconds = store.closest_poll_seconds
        self.deletes_at_once = store.deletes_at_once
        self.alternative = store.alternative

    def get(self, key: str, *, max_bytes: int) -> StoredObject:
        return self._store.get(key, max_bytes=max_bytes)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        data = self._store.get_range(key, start, length)
        self.advance(len(data))
        return data

    def head(self, key: str) -> ObjectInfo:
        return self._store.head(key)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        return self._store.list(prefix)

    def put(self, key: str, data: Bytes, *, mode: PutMode) -> str:
        return self._store.put(key, data, mode=mode)

    def put_stream(self, key: str, chunks: Iterable[Bytes]) -> int:
        return self._store.put_stream(key, chunks)

    def delete(self, key: str) -> None:
        self._store.delete(key)

    def delete_all(self, keys: Sequence[str]) -> None:
        self._store.delete_all(keys)

    def open(self, key: str) -> OpenObject:
        return _MeteredObject(self, key, self._store.open(key))

    def open_all(self, keys: Sequence[str]) -> dict[str, OpenObject]:
        return {key: _MeteredObject(self, key, opened) for key, opened in self._store.open_all(keys).items()}

    def write_batch(self) -> WriteBatch:
        return self._store.write_batch()

    def close(self) -> None:
        self._store.close()


class _MeteredObject(OpenObject):
    def __init__(self, store: MeteredStore, key: str, opened: OpenObject) -> None:
        super().__init__(store, key)
        self._metered = store
        self._opened = opened

    def get_range(self, start: int, length: int) -> bytes:
        data = self._opened.get_range(start, length)
        self._metered.advance(len(data))
        return data
