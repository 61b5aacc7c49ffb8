"""A store in the memory of one process, for tests and examples."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from deltawire.errors import (
    InvalidArgumentError,
    InvalidKeyError,
    LimitExceededError,
    ObjectExistsError,
    ObjectNotFoundError,
    PreconditionFailedError,
    SizeMismatchError,
)
from deltawire.store.arguments import check_prefix, check_range
from deltawire.store.base import Bytes, Guarantees, ObjectInfo, PutMode, Store, StoredObject, check_key


@dataclass(frozen=True, slots=True)
class _Held:
    data: bytes
    token: str
    modified_at: float


@dataclass(slots=True)
class _Bucket:
    lock: threading.Lock = field(default_factory=threading.Lock)
    objects: dict[str, _Held] = field(default_factory=dict)
    writes: int = 0


_BUCKETS: dict[str, _Bucket] = {}
_BUCKETS_LOCK = threading.Lock()


class MemoryStore(Store):
    """Objects in a dictionary, shared by every ``MemoryStore`` of the same name in this process.

    ``name`` is a bucket name, optionally followed by ``/`` and a prefix; it follows the key grammar. A bucket
    lives as long as the process. All guarantees hold between threads (STO-1 to STO-4); nothing is shared
    between processes.

    Raises:
        InvalidArgumentError: the name breaks the key grammar.
    """

    guarantees = Guarantees(conditional_create=True, compare_and_swap=True)

    def __init__(self, name: str) -> None:
        try:
            check_key(name)
        except InvalidKeyError as error:
            raise InvalidArgumentError(f"memory://{name[:80]} is not a usable name: {error}") from error
        bucket, _, prefix = name.partition("/")
        with _BUCKETS_LOCK:
            self._bucket = _BUCKETS.setdefault(bucket, _Bucket())
        self._prefix = prefix + "/" if prefix else ""
        self.url = f"memory://{name}"

    def get(self, key: str, *, max_bytes: int) -> StoredObject:
        """See ``Store.get``. The token counts writes, so it differs even between equal contents."""
        held = self._held(key)
        if len(held.data) > max_bytes:
            raise LimitExceededError(f"{key} has {len(held.data)} bytes, more than the limit of {max_bytes}")
        return StoredObject(held.data, held.token)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """See ``Store.get_range``."""
        check_range(start, length)
        held = self._held(key)
        if len(held.data) < start + length:
            raise SizeMismatchError(f"{key} has {len(held.data)} bytes, {start + length} are needed")
        return held.data[start : start + length]

    def head(self, key: str) -> ObjectInfo:
        """See ``Store.head``."""
        held = self._held(key)
        return ObjectInfo(key, len(held.data), held.modified_at)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """See ``Store.list``. The listing is of one moment."""
        wanted = self._prefix + check_prefix(prefix)
        cut = len(self._prefix)
        with self._bucket.lock:
            found = [
                ObjectInfo(name[cut:], len(held.data), held.modified_at)
                for name, held in self._bucket.objects.items()
                if name.startswith(wanted)
            ]
        return iter(sorted(found, key=lambda info: info.key))

    def put(self, key: str, data: Bytes, *, mode: PutMode) -> str:
        """See ``Store.put``."""
        name = self._prefix + check_key(key)
        content = bytes(data)  # before the lock: the caller may reuse its buffer afterwards
        with self._bucket.lock:
            held = self._bucket.objects.get(name)
            if mode == "create":
                if held is not None:
                    raise ObjectExistsError(f"{key} exists")
            elif mode != "overwrite" and (held is None or held.token != mode.token):
                raise PreconditionFailedError(f"{key} is {'gone' if held is None else 'not the object expected'}")
            self._bucket.writes += 1
            token = str(self._bucket.writes)
            self._bucket.objects[name] = _Held(content, token, time.time())
        return token

    def put_stream(self, key: str, chunks: Iterable[Bytes]) -> int:
        """See ``Store.put_stream``."""
        check_key(key)
        content = bytearray()
        for chunk in chunks:  # copied one by one: the buffer of a chunk may be used again for the next
            content += chunk
        self.put(key, content, mode="overwrite")
        return len(content)

    def copy_from(self, source: Store, source_key: str, key: str) -> bool:
        """See ``Store.copy_from``. Bytes never change, so both objects share them."""
        if not isinstance(source, MemoryStore):
            return False
        self.put(key, source._held(source_key).data, mode="overwrite")  # noqa: SLF001 - of the same class
        return True

    def delete(self, key: str) -> None:
        """See ``Store.delete``."""
        name = self._prefix + check_key(key)
        with self._bucket.lock:
            self._bucket.objects.pop(name, None)

    def _held(self, key: str) -> _Held:
        name = self._prefix + check_key(key)
        with self._bucket.lock:
            held = self._bucket.objects.get(name)
        if held is None:
            raise ObjectNotFoundError(f"{key} does not exist in {self.url}")
        return held
