"""From a URL to a store."""

from __future__ import annotations

import os
import re
from urllib.parse import unquote

from deltawire.errors import InvalidArgumentError
from deltawire.store.arguments import split_url
from deltawire.store.base import Store

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_KNOWN = "a path, file://, memory://, s3://, hf://buckets/ or any scheme that fsspec knows"


def open_store(url: str | os.PathLike[str]) -> Store:
    """Open the store that a path or URL names; nothing is read or written yet.

    A path or ``file://`` is a ``LocalStore``, ``memory://NAME`` a ``MemoryStore``, ``s3://BUCKET/PREFIX`` an
    ``S3Store``, ``hf://buckets/NAMESPACE/NAME/PREFIX`` a ``HubStore``, anything else that fsspec knows an
    ``FsspecStore``. The last two can only carry one declared writer.

    Raises:
        InvalidArgumentError: the URL is empty, malformed, chained (``::``) or of an unknown scheme.
        MissingDependencyError: the package for this scheme is not installed.
    """
    text = os.fspath(url)
    scheme = _SCHEME.match(text)
    if isinstance(url, os.PathLike) or (scheme is None and "::" not in text):
        return _local(text)
    if scheme is None or "::" in text:
        # a cache in front of a store would break read-after-write (STO-2)
        raise InvalidArgumentError(f"chained URLs are not supported, got {text[:80]!r}; use {_KNOWN}")
    match scheme[1].lower():
        case "file":
            return _local(_path_of(text))
        case "memory":
            from deltawire.store.memory import MemoryStore  # noqa: PLC0415 - only what is used is loaded

            return MemoryStore(text[scheme.end() :].strip("/"))
        case "s3" | "s3a":
            from deltawire.store.s3 import S3Store  # noqa: PLC0415

            return S3Store(text)
        case "hf":
            from deltawire.store.hub import HubStore  # noqa: PLC0415

            return HubStore(text)
        case _:
            from deltawire.store.generic import FsspecStore  # noqa: PLC0415

            return FsspecStore(text)


def _local(path: str) -> Store:
    from deltawire.store.local import LocalStore  # noqa: PLC0415

    if not path:
        raise InvalidArgumentError(f"an empty path is no store; use {_KNOWN}")
    return LocalStore(path)


def _path_of(url: str) -> str:
    parts = split_url(url)
    if parts.netloc not in {"", "localhost"} or parts.query or parts.fragment:
        raise InvalidArgumentError(f"a file URL is file:///PATH, got {url[:80]!r}")
    return unquote(parts.path)
