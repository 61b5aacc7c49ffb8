"""Small contents that passed by, by their hash: what a name refers to need not be fetched if it is known already."""

from __future__ import annotations

import threading
from collections import OrderedDict
from hashlib import sha256

from deltawire.store.forks import BeginsAnew

LARGEST = 1 << 20
"""Larger contents are not kept."""
TOGETHER = 4 << 20
"""Bytes of all that is kept."""
_ONCE = 1024
"""Of how many contents it is known what they were when they were read first."""


class RecentContents(BeginsAnew):
    """The contents used last, by a hash that is made of them, so that none can be out of date. For several threads."""

    def __init__(self, *, largest: int = LARGEST, together: int = TOGETHER) -> None:
        self._largest = largest
        self._together = together
        super().__init__()

    def begin_anew(self) -> None:
        """Keep nothing, not even the lock, which another thread may have held when this process was forked."""
        self._lock = threading.Lock()
        self._held: OrderedDict[str, bytes] = OrderedDict()
        self._bytes = 0
        self._once: OrderedDict[str, bytes] = OrderedDict()

    def get(self, content_hash: str) -> bytes | None:
        """The content with this hash, if it is kept."""
        with self._lock:
            if content_hash in self._held:
                self._held.move_to_end(content_hash)
            return self._held.get(content_hash)

    def keep(self, content_hash: str, content: bytes) -> None:
        """Keep a content if it is small; whatever was not used for longest goes in its place."""
        if len(content) > self._largest:
            return
        with self._lock:
            self._bytes += len(content) - len(self._held.pop(content_hash, b""))
            self._held[content_hash] = content
            while self._bytes > self._together:
                self._bytes -= len(self._held.popitem(last=False)[1])

    def keep_read(self, content_hash: str, content: bytes) -> None:
        """Keep a content that was read, if it was the same when it was read before: nobody holds it to its hash.

        What came wrong once would stay wrong for as long as it is kept.
        """
        if len(content) > self._largest:
            return
        digest = sha256(content).digest()
        with self._lock:
            before = self._once.pop(content_hash, None)
            if before != digest:
                self._once[content_hash] = digest
                while len(self._once) > _ONCE:
                    self._once.popitem(last=False)
        if before == digest:
            self.keep(content_hash, content)
