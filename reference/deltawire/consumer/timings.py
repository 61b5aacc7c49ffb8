"""How long an update took, by phase (SPEC.md section 12)."""

from __future__ import annotations

import time
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowTimings:
    """Seconds spent in each phase of an update, under the names of SPEC.md section 12."""

    resolve_seconds: float = 0.0
    """Finding the newest version, reading and checking records, planning."""
    fetch_seconds: float = 0.0
    """Waiting for parts and shards."""
    decode_seconds: float = 0.0
    """Decompressing, decoding and verifying."""
    apply_seconds: float = 0.0
    """Writing into the target: the only time during which it must not be used."""


@dataclass
class Clock:
    """Adds up the seconds of each phase."""

    seconds: dict[str, float] = field(default_factory=dict)

    def add(self, phase: str, started: float) -> float:
        """Count the time from ``started`` until now, which is returned, to a phase."""
        now = time.perf_counter()
        self.seconds[phase] = self.seconds.get(phase, 0.0) + now - started
        return now

    def timings(self) -> FollowTimings:
        """What was counted so far."""
        return FollowTimings(**{f"{phase}_seconds": value for phase, value in self.seconds.items()})
