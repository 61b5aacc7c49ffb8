"""A point in time by which work must be done, handed down through every wait."""

from __future__ import annotations

import time
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Any

from deltawire.errors import DeadlineExceededError

_WAKE_SECONDS = 1.0
"""A signal that arrives as a thread begins to wait for a lock is seen when it has waited."""


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


def wait_for(future: Future[Any], deadline: Deadline) -> bool:
    """Wait until a future is done; whether it was by the deadline. An interrupt is noticed within a second."""
    while not future.done():
        left = deadline.left()
        if left == 0.0:
            return False
        wait([future], _WAKE_SECONDS if left is None else min(left, _WAKE_SECONDS))
    return True
