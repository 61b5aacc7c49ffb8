"""Which spans a stream should have: a ladder of aligned spans, each twice as long as the one below. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from deltawire.errors import InvalidArgumentError


class Span(NamedTuple):
    """A span by the numbers in its key."""

    base: int
    target: int

    @property
    def versions(self) -> int:
        """How many deltas it replaces."""
        return self.target - self.base


@dataclass(frozen=True, slots=True, kw_only=True)
class Ladder:
    """Spans of 2^k versions from j * 2^k to (j + 1) * 2^k, so that any two lie one in the other or apart."""

    smallest: int = 4
    """Versions of the shortest spans; a power of two. A delta or two are as soon read as planned around."""
    largest: int = 1024
    """Versions of the longest."""

    def __post_init__(self) -> None:
        powers = self.smallest & (self.smallest - 1) == 0 and self.largest & (self.largest - 1) == 0
        if not powers or not 2 <= self.smallest <= self.largest:
            raise InvalidArgumentError(
                f"spans of {self.smallest} to {self.largest} versions: both must be powers of two, and at least 2"
            )

    def spans(self, first: int, last: int) -> Iterator[Span]:
        """Every span that leads from version ``first`` or later to ``last`` or earlier; by target, shorter first.

        No version after the first of them may be a rebase: a span does not lead over one (SPN-2).
        """
        lowest = first - first % self.smallest + (self.smallest if first % self.smallest else 0)
        for target in range(lowest + self.smallest, last + 1, self.smallest):
            length = self.smallest
            while length <= self.largest and target % length == 0 and target - length >= first:
                yield Span(target - length, target)
                length *= 2

    def window(self, span: Span) -> int:
        """Number of the stretch of ``largest`` versions in which a span lies: none reaches from one into the next."""
        return span.base // self.largest


def worthwhile(*, newest: int, made: int, batch: int) -> bool:
    """Whether so many versions have come that a pass over the whole model pays.

    Args:
        newest: the newest version.
        made: the newest version that is a span's target, or has a snapshot.
        batch: how many versions are enough.
    """
    return newest - made >= batch
