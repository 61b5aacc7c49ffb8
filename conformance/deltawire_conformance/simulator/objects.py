"""What the simulator holds: objects, unfinished uploads, and one clock that orders everything."""

from __future__ import annotations

import hashlib
import itertools
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Held:
    """An object."""

    data: bytes = field(repr=False)
    etag: str
    modified_at: float


@dataclass(frozen=True, slots=True)
class Written:
    """What a write did."""

    held: Held
    before: bytes | None = field(repr=False)
    """What was there."""
    at: int
    """When, by the clock."""


class ConditionFailed(Exception):  # noqa: N818 - an answer, not an error
    """The object is not as the request demands."""


class NoUpload(Exception):  # noqa: N818 - an answer, not an error
    """There is no such upload, or it lacks a part."""


@dataclass(slots=True)
class _Upload:
    name: str
    parts: dict[int, bytes] = field(default_factory=dict)


class Objects:
    """A bucket in memory. Every operation is atomic, and seen by all that begin later."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._held: dict[str, Held] = {}
        self._uploads: dict[str, _Upload] = {}
        self._clock = itertools.count(1)

    def tick(self) -> int:
        """The time, which no two things share."""
        with self._lock:
            return next(self._clock)

    def get(self, name: str) -> Held | None:
        """An object, None if there is none."""
        with self._lock:
            return self._held.get(name)

    def put(self, name: str, data: bytes, *, free: bool = False, etag: str | None = None) -> Written:
        """Write an object.

        Args:
            name: of the object.
            data: its bytes.
            free: only if there is none.
            etag: only if it is this one.

        Raises:
            ConditionFailed: it is not so; nothing was written.
        """
        with self._lock:
            found = self._held.get(name)
            if (free and found is not None) or (etag is not None and (found is None or found.etag != etag)):
                raise ConditionFailed(name)
            held = Held(data, etag_of(data), time.time())
            self._held[name] = held
            return Written(held, None if found is None else found.data, next(self._clock))

    def delete(self, name: str) -> int:
        """Remove an object, if it is there; when that was."""
        with self._lock:
            self._held.pop(name, None)
            return next(self._clock)

    def named(self, prefix: str) -> list[tuple[str, Held]]:
        """All objects below a prefix, in byte order."""
        with self._lock:
            return sorted((name, held) for name, held in self._held.items() if name.startswith(prefix))

    # Multi-part uploads

    def begin_upload(self, name: str) -> str:
        """Begin an upload; its id."""
        with self._lock:
            upload = f"upload-{next(self._clock)}"
            self._uploads[upload] = _Upload(name)
            return upload

    def put_part(self, upload: str, number: int, data: bytes) -> str:
        """Keep a part; its etag. Raises NoUpload."""
        with self._lock:
            self._upload(upload).parts[number] = data
            return etag_of(data)

    def complete_upload(self, upload: str, numbers: Iterable[int]) -> Written:
        """Make an object of the parts. Raises NoUpload."""
        with self._lock:
            found = self._upload(upload)
            try:
                data = b"".join(found.parts[number] for number in numbers)
            except KeyError:
                raise NoUpload(upload) from None
            del self._uploads[upload]
            return self.put(found.name, data)

    def abort_upload(self, upload: str) -> None:
        """Forget an upload. Raises NoUpload."""
        with self._lock:
            self._upload(upload)
            del self._uploads[upload]

    def uploads(self, prefix: str) -> list[tuple[str, str]]:
        """Names and ids of the uploads that are not finished."""
        with self._lock:
            return sorted((found.name, id_) for id_, found in self._uploads.items() if found.name.startswith(prefix))

    def _upload(self, upload: str) -> _Upload:
        if upload not in self._uploads:
            raise NoUpload(upload)
        return self._uploads[upload]


def etag_of(data: bytes) -> str:
    """The etag of an object; as with S3, equal bytes have equal ones."""
    return f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"'
