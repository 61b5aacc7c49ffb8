"""Which versions stay: those that are retained, and those that a live pin keeps (SPEC.md section 11.14)."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence

from deltawire.reading.pins import StoredPin
from deltawire.reading.retention import Retention


class Stays:
    """What may not be collected. COL-4, COL-6

    Args:
        retention: what is retained.
        pins: of readers that are not known to be gone.
    """

    def __init__(self, retention: Retention, pins: Iterable[StoredPin] = ()) -> None:
        self.retention = retention
        self._pins = tuple(pins)
        self._starts: list[int] = []
        self._ends: list[float] = []  # of ranges that do not meet, ascending
        for first, last in sorted((pin.first, float("inf") if pin.last is None else pin.last) for pin in self._pins):
            if self._ends and first <= self._ends[-1] + 1:
                self._ends[-1] = max(self._ends[-1], last)
            else:
                self._starts.append(first)
                self._ends.append(last)

    def __contains__(self, version: int) -> bool:
        if version in self.retention:
            return True
        place = bisect.bisect_right(self._starts, version) - 1
        return place >= 0 and version <= self._ends[place]

    def hold_whole(self, span: tuple[int, int]) -> bool:
        """Whether a span stays, by its base and target: both are retained, or one pin's range holds both."""
        base, target = span
        if base in self.retention and target in self.retention:
            return True
        return any(base in pin and target in pin for pin in self._pins)


def count_in(pin: StoredPin, numbers: Sequence[int]) -> int:
    """How many of the numbers, which ascend, lie in a pin's range."""
    end = len(numbers) if pin.last is None else bisect.bisect_right(numbers, pin.last)
    return max(end - bisect.bisect_left(numbers, pin.first), 0)
