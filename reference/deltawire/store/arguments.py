"""The checks every binding makes on what it is given, before it touches the store."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit

from deltawire.errors import InvalidArgumentError
from deltawire.store.base import check_key


def check_prefix(prefix: str) -> str:
    """Return ``prefix`` if it is empty or a key followed by one ``/``.

    Raises:
        InvalidArgumentError: it does not end in ``/``.
        InvalidKeyError: what stands before the ``/`` breaks the key grammar.
    """
    if prefix:
        if not prefix.endswith("/"):
            raise InvalidArgumentError(f"a listing prefix is empty or ends in '/', got {prefix[:80]!r}")
        check_key(prefix[:-1])
    return prefix


def split_url(url: str) -> SplitResult:
    """The parts of a URL.

    Raises:
        InvalidArgumentError: it has none, such as one with a bracket that is not closed.
    """
    try:
        parts = urlsplit(url)
        _ = parts.port  # looks at it
    except ValueError as error:
        raise InvalidArgumentError(f"that is no URL: {error}") from None
    return parts


def check_range(start: int, length: int) -> None:
    """Accept a range of bytes.

    Raises:
        InvalidArgumentError: ``start`` or ``length`` is negative.
    """
    if start < 0 or length < 0:
        raise InvalidArgumentError(f"a range needs start >= 0 and length >= 0, got {start} and {length}")
