"""Who holds something for a while: a lease, a pin."""

from __future__ import annotations

import os
import socket

from deltawire.errors import InvalidArgumentError
from deltawire.format.records import MAX_TTL_MS


def this_process() -> str:
    """A name for this process that its people will know."""
    return f"{socket.gethostname() or 'unnamed'} pid {os.getpid()}"[:200]


def check_terms(what: str, *, ttl: float, holder: str) -> None:
    """Hold the terms of a lease or a pin to what records can say. Raises InvalidArgumentError."""
    if not 0.001 <= ttl <= MAX_TTL_MS / 1000:
        raise InvalidArgumentError(f"a {what}'s ttl is 0.001 to {MAX_TTL_MS // 1000:,} s, not {ttl}")
    if not 1 <= len(holder) <= 200:
        raise InvalidArgumentError(f"the name of a {what}'s holder has 1 to 200 characters")


def milliseconds(ttl: float) -> int:
    """A ttl as records hold it."""
    return max(round(ttl * 1000), 1)
