"""What the checks of a probe share: a scratch prefix, and a way to say what is broken."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

from deltawire.errors import StoreError
from deltawire.format import keys
from deltawire.format.keys import MAX_KEY_BYTES
from deltawire.store.base import Store

T = TypeVar("T")
_BARRIER_SECONDS = 60.0


class BrokenPromiseError(Exception):
    """A check saw the store break the promise in the message."""


@dataclass(frozen=True, slots=True)
class Scratch:
    """A prefix of its own in the store, and every key that was used in it."""

    store: Store
    prefix: str = field(default_factory=lambda: f"{keys.PROBES}{uuid.uuid4().hex}/")
    _used: set[str] = field(default_factory=set)

    def key(self, name: str) -> str:
        """Return the key of a scratch object and remember to delete it."""
        key = self.prefix + name
        self._used.add(key)
        return key

    def longest_key(self) -> str:
        """Return a key of the greatest length allowed, in segments that a file system can hold."""
        room = MAX_KEY_BYTES - len(self.prefix)
        segments, rest = divmod(room, 101)
        return self.key("/".join([*["k" * 100] * segments, "k" * rest] if rest else ["k" * 100] * segments))

    def clean_up(self) -> None:
        """Delete everything; what a broken store will not delete stays."""
        keys = set(self._used)
        with suppress(StoreError):
            keys.update(info.key for info in self.store.list(self.prefix))
        for key in sorted(keys):
            with suppress(StoreError):
                self.store.delete(key)


def promise(held: bool, broken: str) -> None:  # noqa: FBT001 - reads like an assertion
    """Raise BrokenPromiseError with ``broken`` unless ``held``."""
    if not held:
        raise BrokenPromiseError(broken)


def at_once(count: int, action: Callable[[int], T]) -> list[T]:
    """Call ``action`` with 0 to ``count - 1`` in as many threads, released together; return all results."""
    start = threading.Barrier(count)

    def released(number: int) -> T:
        start.wait(_BARRIER_SECONDS)
        return action(number)

    with ThreadPoolExecutor(count, thread_name_prefix="deltawire-probe") as threads:
        return list(threads.map(released, range(count)))
