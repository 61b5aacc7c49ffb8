"""The suite's own access to what the simulator holds: no request, and nothing is noted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from deltawire.errors import (
    LimitExceededError,
    ObjectExistsError,
    ObjectNotFoundError,
    PreconditionFailedError,
    SizeMismatchError,
)
from deltawire.store import Bytes, Guarantees, ObjectInfo, PutMode, Store, StoredObject
from deltawire_conformance.simulator.objects import ConditionFailed, Held, Objects


class SimulatorStore(Store):
    """Objects of the simulator below a prefix.

    Args:
        objects: of the simulator.
        prefix: empty, or ends in ``/``.
    """

    guarantees = Guarantees(conditional_create=True, compare_and_swap=True)

    def __init__(self, objects: Objects, prefix: str) -> None:
        self._objects = objects
        self._prefix = prefix
        self.url = f"simulator:{prefix}"

    def get(self, key: str, *, max_bytes: int) -> StoredObject:
        """See ``Store.get``."""
        held = self._held(key)
        if len(held.data) > max_bytes:
            raise LimitExceededError(f"{key} has {len(held.data)} bytes, more than the limit of {max_bytes}")
        return StoredObject(held.data, held.etag)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """See ``Store.get_range``."""
        held = self._held(key)
        if len(held.data) < start + length:
            raise SizeMismatchError(f"{key} has {len(held.data)} bytes, {start + length} are needed")
        return held.data[start : start + length]

    def head(self, key: str) -> ObjectInfo:
        """See ``Store.head``."""
        held = self._held(key)
        return ObjectInfo(key, len(held.data), held.modified_at)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """See ``Store.list``."""
        cut = len(self._prefix)
        for name, held in self._objects.named(self._prefix + prefix):
            yield ObjectInfo(name[cut:], len(held.data), held.modified_at)

    def put(self, key: str, data: Bytes, *, mode: PutMode) -> str:
        """See ``Store.put``."""
        name, content = self._prefix + key, bytes(data)
        try:
            if mode == "overwrite":
                return self._objects.put(name, content).held.etag
            if mode == "create":
                return self._objects.put(name, content, free=True).held.etag
            return self._objects.put(name, content, etag=mode.token).held.etag
        except ConditionFailed:
            if mode == "create":
                raise ObjectExistsError(f"{key} exists") from None
            raise PreconditionFailedError(f"{key} is gone or not the object expected") from None

    def put_stream(self, key: str, chunks: Iterable[Bytes]) -> int:
        """See ``Store.put_stream``."""
        content = b"".join(map(bytes, chunks))
        self._objects.put(self._prefix + key, content)
        return len(content)

    def delete(self, key: str) -> None:
        """See ``Store.delete``."""
        self._objects.delete(self._prefix + key)

    def _held(self, key: str) -> Held:
        held = self._objects.get(self._prefix + key)
        if held is None:
            raise ObjectNotFoundError(f"{key} does not exist in {self.url}")
        return held
