"""Limits of requests in a window of time, as the Hub counts them."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping

from tests.hub.emulator.asking import Refused


class Rates:
    """Counts of requests by who sent them.

    Args:
        limits: most requests in a window, by what they are for ("api", "resolvers"); what is not named has no limit.
        seconds: how long a window is. The first begins with the first request.
        clock: tells the time in seconds.
    """

    def __init__(
        self, limits: Mapping[str, int], seconds: float, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._limits = limits
        self._seconds = seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._windows: dict[tuple[str, str], tuple[float, int]] = {}

    def count(self, what: str, who: str) -> Mapping[str, str]:
        """Count a request; the headers that tell what is left. Raises Refused if there was nothing left."""
        limit = self._limits.get(what)
        if limit is None:
            return {}
        with self._lock:
            now = self._clock()
            begun, used = self._windows.get((what, who), (now, 0))
            if now >= begun + self._seconds:
                begun, used = now, 0
            self._windows[what, who] = (begun, used + 1)
        left, wait = max(limit - used - 1, 0), math.ceil(begun + self._seconds - now)
        headers = {
            "RateLimit": f'"{what}";r={left};t={wait}',
            "RateLimit-Policy": f'"fixed window";"{what}";q={limit};w={math.ceil(self._seconds)}',
        }
        if used >= limit:
            raise Refused(429, f"You have reached your '{what}' rate limit", headers=headers)
        return headers
