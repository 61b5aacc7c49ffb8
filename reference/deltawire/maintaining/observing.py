"""Which readers are gone, by watching their pins (SPEC.md sections 11.13 and 11.14)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from deltawire.reading.pins import StoredPin

_PATIENCE = 1.1
"""A pin must be seen unchanged for its ttl and a tenth more. PIN-8"""
_LOOKS = 6
"""How often an observer looks at a pin within that time; its reader renews three times within the ttl."""


@dataclass(frozen=True, slots=True)
class _Sighting:
    token: str
    since: float
    """When it was first known that the pin was like this."""
    until: float
    """When it was last asked whether it still is."""
    renewed: bool
    """Whether it was seen to change."""


class PinObserver:
    """Remembers since when each pin has not changed. One maintainer keeps one of these from pass to pass.

    Args:
        clock: seconds by a clock that never goes back. Times in records count for nothing. PIN-8
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: dict[str, _Sighting] = {}

    def look(self, read: Callable[[], list[StoredPin]]) -> list[StoredPin]:
        """Read all pins and note which of them have changed; what ``read`` raises passes through."""
        asked = self._clock()
        pins = read()
        answered = self._clock()
        before, self._seen = self._seen, {}
        for pin in pins:
            seen = before.get(pin.id)
            if seen is None or seen.token != pin.token:
                self._seen[pin.id] = _Sighting(pin.token, answered, answered, renewed=seen is not None)
            else:
                self._seen[pin.id] = _Sighting(pin.token, seen.since, asked, renewed=seen.renewed)
        return pins

    def gone(self, pin: StoredPin) -> bool:
        """Whether the pin's reader has given it up, or may be taken to be gone. PIN-8, PIN-9"""
        return pin.released or self._left(pin) <= 0

    def live(self, pins: Iterable[StoredPin]) -> list[StoredPin]:
        """Pins that keep something: those of readers not known to be gone."""
        return [pin for pin in pins if not self.gone(pin)]

    def next_look(self, pin: StoredPin) -> float | None:
        """Seconds after which to look at a pin again; None if that is settled: its reader is gone, or is alive.

        A pin that cannot be read is not waited for either: that would take a day.
        """
        seen = self._seen.get(pin.id)
        if seen is None or seen.renewed or pin.record is None or self.gone(pin):
            return None
        return max(min(pin.ttl * _PATIENCE / _LOOKS, self._left(pin)), 0.001)

    def _left(self, pin: StoredPin) -> float:
        seen = self._seen.get(pin.id)
        if seen is None or seen.token != pin.token:
            return pin.ttl * _PATIENCE
        return pin.ttl * _PATIENCE - (seen.until - seen.since)
