"""A point in time by which work must be done, handed down through every wait."""

from __future__ import annotations

import time
from dataclasses import dataclass

from deltawire.errors import DeadlineExceededError


@dataclass(frozen=True, slots=True)
class Deadline:
    """Monotonic time at which to give up; None never does."""

    at: float | None

    @classmethod
    def after(cls, seconds: float | None) -> Deadline:
        """Deadline ``seconds`` from now."""
        return cls(None if seconds is None else time.monotonic() + seconds)

    def left(self) -> float | None:
        """Seconds left, none below zero."""
        return None if self.at is None else max(self.at - time.monotonic(), 0.0)

    def remaining(self) -> float | None:
        """Seconds left.

        Raises:
            DeadlineExceededError: none.
        """
        if self.at is None:
            return None
        left = self.at - time.monotonic()
        if left <= 0:
            raise DeadlineExceededError("the deadline passed before the work was done")
        return left
