"""What a fork says of where it comes from, and whether that is true (SPEC.md section 11.11)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from deltawire.deadline import Deadline
from deltawire.errors import BrokenChainError, InvalidArgumentError, WrongStreamError
from deltawire.format.records import Origin
from deltawire.limits import DEFAULT_LIMITS, Limits
from deltawire.reading.stream import StreamReader
from deltawire.reading.transfer import Transfer
from deltawire.reading.trust import as_trust
from deltawire.store.base import Store

if TYPE_CHECKING:
    from deltawire.ed25519 import PublicKeyLike

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/?#@\s]*(/[^?#\s]*)?")


def plain_url(url: str) -> str:
    """A store's URL without user, query and fragment, which may hold secrets; empty if nothing fit is left. FRK-2"""
    parts = urlsplit(url)
    plain = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    return plain if _PLAIN.fullmatch(plain) and len(plain) <= 2000 else ""


def check_origin(
    fork: Store,
    source: Store,
    *,
    trust: Sequence[PublicKeyLike] | None = None,
    limits: Limits = DEFAULT_LIMITS,
    timeout: float | None = None,
) -> Origin:
    """Hold a fork's origin, and its version 0, to the stream that it names. FRK-9

    Args:
        fork: the fork.
        source: where it should come from.
        trust: public keys by which the source must be signed, as for a ``Follower``.
        limits: what to refuse.
        timeout: seconds until giving up.

    Returns:
        The origin, which is true.

    Raises:
        InvalidArgumentError: the stream is not a fork.
        WrongStreamError: it was forked from another stream.
        BrokenChainError: the source's version is another, or version 0 of the fork is not that version.
        BadSignatureError: the source is not signed by a trusted key.
        VersionNotFoundError: either version is no longer there.
    """
    deadline = Deadline.after(timeout)
    trusted = as_trust(trust)
    transfers = [Transfer(store, limits=limits) for store in (fork, source)]
    try:
        here, there = StreamReader(transfers[0]), StreamReader(transfers[1], trusted)
        origin = here.stream(deadline).origin
        if origin is None:
            raise InvalidArgumentError(f"the stream at {fork.url} is not a fork")
        if there.stream(deadline).stream_id != origin.stream_id:
            raise WrongStreamError(f"the fork comes from stream {origin.stream_id}, which is not at {source.url}")
        version = there.version(origin.version, deadline)
        first = here.version(0, deadline)
        if version.digest != origin.digest:
            raise BrokenChainError(f"version {origin.version} is not the one that was forked")
        mine, theirs = first.record, version.record
        if not mine.state_digest == theirs.state_digest == origin.state_digest:
            raise BrokenChainError(f"version 0 does not have the state of version {origin.version} of its origin")
        files = [{(file.name, file.digest) for file in record.files} for record in (mine, theirs)]
        if mine.tensors.digest != theirs.tensors.digest or files[0] != files[1]:
            raise BrokenChainError(f"version 0 has other tensors or files than version {origin.version} of its origin")
        return origin
    finally:
        for transfer in transfers:
            transfer.close()
