"""Buckets: names, each with the hash of a file."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

_JOURNAL = 4096
"""Most writes that a listing can lag behind."""
_UNFIT = re.compile(r"^/|/$|//|\.\./|^\./|\.\.$|[\\\0]|^$")
"""As the documentation of the S3 gateway says."""


class InvalidKey(Exception):  # noqa: N818 - an answer, not an error
    """No name for a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A file in a bucket."""

    digest: str
    size: int
    modified_at: float
    """As the client said, in seconds since the epoch."""
    uploaded_at: float
    content_type: str | None = None

    @property
    def etag(self) -> str:
        """Its ETag, on either face."""
        return f'"{self.digest}"'


@dataclass(frozen=True, slots=True)
class _Written:
    at: float
    before: Mapping[str, Entry | None]


@dataclass(kw_only=True)
class Bucket:
    """A bucket; whoever uses it holds the lock of ``State``."""

    name: str
    private: bool
    created_at: float = field(default_factory=time.time)
    updated_at: float = field(default_factory=time.time)
    entries: dict[str, Entry] = field(default_factory=dict)
    _journal: deque[_Written] = field(default_factory=lambda: deque(maxlen=_JOURNAL))

    def write(self, changes: Mapping[str, Entry | None]) -> None:
        """Put and remove files, all at once.

        Args:
            changes: by path; None removes.
        """
        before = {path: self.entries.get(path) for path in changes}
        for path, entry in changes.items():
            if entry is None:
                self.entries.pop(path, None)
            else:
                self.entries[path] = entry
        self.updated_at = time.time()
        self._journal.append(_Written(self.updated_at, before))

    def lagging(self, *, seconds: float, writes: int) -> dict[str, Entry]:
        """What was there some time, or some writes, ago: whichever is longer."""
        entries: dict[str, Entry | None] = dict(self.entries)
        since = time.time() - seconds
        for age, written in enumerate(reversed(self._journal)):
            if age >= writes and written.at <= since:
                break
            entries.update(written.before)
        return {path: entry for path, entry in entries.items() if entry is not None}


def check_key(path: str) -> str:
    """The path, if it can be a file's name. Raises InvalidKey."""
    if _UNFIT.search(path):
        raise InvalidKey(path)
    return path


def below(entries: Mapping[str, Entry], prefix: str, *, directories_from: int | None) -> Iterable[tuple[str, Entry]]:
    """Files whose path begins with a prefix, in order; those further down as directories, whose path ends in ``/``.

    Args:
        entries: of a bucket.
        prefix: any text.
        directories_from: a slash from this character on ends the name of a directory; None for files only.
    """
    found: dict[str, Entry] = {}
    for path, entry in entries.items():
        if not path.startswith(prefix):
            continue
        slash = -1 if directories_from is None else path.find("/", directories_from)
        found.setdefault(path if slash < 0 else path[: slash + 1], entry)
    return sorted(found.items(), key=lambda item: item[0])
