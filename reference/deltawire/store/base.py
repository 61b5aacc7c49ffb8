"""The store protocol: the few verbs a bucket must offer, and what they promise (SPEC.md section 5).

Keys are relative to the stream's prefix. Every verb is safe to call from several threads at once and is bounded in
time by the binding's own timeouts.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from deltawire.errors import InvalidKeyError, ObjectExistsError
from deltawire.format.keys import MAX_KEY_BYTES, SEGMENT

Bytes = bytes | bytearray | memoryview
"""What a put accepts: any contiguous bytes."""


@dataclass(frozen=True, slots=True)
class ReplaceIf:
    """Replace the object only if it is still the one whose version token is ``token``."""

    token: str


PutMode = Literal["create", "overwrite"] | ReplaceIf
"""How a put treats an object that is already there."""


@dataclass(frozen=True, slots=True)
class Guarantees:
    """What a store promises beyond plain reads and writes (SPEC.md section 5)."""

    conditional_create: bool
    """``put(mode="create")`` lets exactly one of any number of racing writers win. STO-3"""
    compare_and_swap: bool
    """``put(mode=ReplaceIf(token))`` never loses an update. STO-4"""


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """An object as a listing or a head shows it."""

    key: str
    bytes: int
    modified_at: float | None = None
    """Seconds since the epoch by the store's clock, where the store tells."""


@dataclass(frozen=True, slots=True)
class StoredObject:
    """A whole small object together with the token of exactly these bytes."""

    data: bytes
    token: str


class Store(ABC):
    """One prefix in a bucket, a folder or a process's memory.

    No reader ever sees a half-written object (STO-1), and a read after a finished write sees it (STO-2).
    """

    url: str
    guarantees: Guarantees
    poll_seconds: float = 0.2
    """How often it may well be asked for what is new, if nobody says."""
    closest_poll_seconds: float = 0.0
    """How soon it may be asked again, though what is asked for may be there any moment."""
    deletes_at_once: int = 1
    """How many keys ``delete_all`` removes in about one request."""
    alternative: str = ""
    """In words, for hints: where the same objects are reached with a guarantee that this binding lacks."""

    @abstractmethod
    def get(self, key: str, *, max_bytes: int) -> StoredObject:
        """Read a whole object and its version token in one answer.

        Raises:
            ObjectNotFoundError: there is none.
            LimitExceededError: it is larger than ``max_bytes``; no more than that was read.
        """

    @abstractmethod
    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Read exactly ``length`` bytes from ``start``.

        Raises:
            ObjectNotFoundError: there is none.
            SizeMismatchError: the object ends before ``start + length``.
        """

    @abstractmethod
    def head(self, key: str) -> ObjectInfo:
        """Size and time of an object, without its bytes. Raises ObjectNotFoundError."""

    @abstractmethod
    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """Every object whose key starts with ``prefix`` (``""`` or ending in ``/``), in byte order of keys.

        Never served from a cache: an object is listed as soon as its put returned (STO-2).
        """

    @abstractmethod
    def put(self, key: str, data: Bytes, *, mode: PutMode) -> str:
        """Write a small object in a single request and return its new version token.

        Raises:
            ObjectExistsError: ``mode="create"`` and the key is taken. The answer to an earlier attempt may have been
                lost, so the caller reads back before it believes that it lost (CMT-5).
            PreconditionFailedError: ``ReplaceIf`` and the object is another or gone; same caveat.
            StoreUnfitError: the binding cannot promise this mode.
        """

    @abstractmethod
    def put_stream(self, key: str, chunks: Iterable[Bytes]) -> int:
        """Write a large object from chunks, visible only when complete; returns its size in bytes.

        Overwrites: its key must be unique to one logical write (KEY-4). If ``chunks`` raises, nothing becomes visible
        and the exception passes through.
        """

    @abstractmethod
    def delete(self, key: str) -> None:
        """Remove an object; one that is not there is no error."""

    def delete_all(self, keys: Sequence[str]) -> None:
        """Remove objects, in any order; a failure may leave some of them."""
        for key in keys:
            self.delete(key)

    def open(self, key: str) -> OpenObject:
        """Look an object up once, to read many ranges of it. Raises ObjectNotFoundError, maybe only when reading."""
        return OpenObject(self, key)

    def open_all(self, keys: Sequence[str]) -> dict[str, OpenObject]:
        """Look several objects up where that is cheaper than to open each; what is not in the answer is still to be.

        An object that is not there is not in the answer either.
        """
        return {}

    def write_batch(self) -> WriteBatch:
        """Begin to write objects that nothing names yet, in as few requests as the binding can. Nothing is sent yet."""
        return WriteBatch(self)

    def copy_from(self, source: Store, source_key: str, key: str) -> bool:
        """Make a large object a copy of one in ``source`` without its bytes passing through here. STO-26

        The copy is an object of its own: what happens to the other later does not show in it. Overwrites, as
        ``put_stream`` does, and is visible only when complete.

        Returns:
            Whether that was done; False if this binding cannot, or not from there, and nothing was written.

        Raises:
            ObjectNotFoundError: there is nothing to copy.
        """
        return False

    def without_cache(self) -> Store:
        """The same place, with every byte that is read fetched anew: what a probe needs. Nothing is to be closed."""
        return self

    def close(self) -> None:  # noqa: B027 - most bindings hold nothing
        """Release connections."""


class OpenObject:
    """An object that was looked up, for reading ranges of it from several threads.

    What is read is the object as it was then, or later, but never parts of two (STO-1), as its key is unique to one
    logical write (KEY-4).
    """

    def __init__(self, store: Store, key: str) -> None:
        self._store = store
        self._key = key

    def get_range(self, start: int, length: int) -> bytes:
        """See ``Store.get_range``."""
        return self._store.get_range(self._key, start, length)


class WriteBatch:
    """Objects that are stored together: all are visible when ``finish`` has returned, each when the binding likes.

    Every key must be unique to one logical write (KEY-4). Safe to call from several threads, but for ``finish``, after
    which more may be written. A batch of which a call has failed, or that is dropped, leaves objects that nothing
    names, or none; it cannot be finished any more.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def put(self, key: str, data: Bytes) -> None:
        """Write a small object. Raises StoreError."""
        with suppress(ObjectExistsError):  # nobody else writes this key: an attempt of our own arrived. KEY-4
            self._store.put(key, data, mode="create")

    def put_stream(self, key: str, chunks: Iterable[Bytes]) -> int:
        """Write a large object; returns its size in bytes. See ``Store.put_stream``."""
        return self._store.put_stream(key, chunks)

    def finish(self) -> None:
        """Make everything durable and visible that was written. Raises StoreError: some of it may not be. CMT-1"""


_SEGMENT = re.compile(SEGMENT)


def check_key(key: str) -> str:
    """Return ``key`` if every supported store can hold it (KEY-1).

    A key is at most 512 bytes: segments of ASCII letters, digits, ``.``, ``_`` and ``-`` joined by ``/``; a segment
    is not empty and neither starts nor ends with a dot.

    Raises:
        InvalidKeyError: it breaks that grammar.
    """
    if len(key) > MAX_KEY_BYTES:
        raise InvalidKeyError(f"a key is at most {MAX_KEY_BYTES} bytes, got {len(key)}")
    for segment in key.split("/"):
        if not _SEGMENT.fullmatch(segment):
            raise InvalidKeyError(f"key segment {segment[:80]!r} in {key[:80]!r} is not allowed")
    return key
