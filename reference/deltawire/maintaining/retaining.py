"""Which versions stay, by an operator's policy (SPEC.md section 11.14). Pure: it sees numbers, not a store."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from deltawire.errors import InvalidArgumentError
from deltawire.reading.retention import Retention


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionPolicy:
    """What an operator wants to keep; None switches a rule off, and without any rule everything stays.

    A version stays if ``keep_last`` or ``keep_for`` wants it. The boundary is the newest version at or before the
    oldest of these that has a snapshot. ``max_bytes`` then raises it further.

    Raises:
        InvalidArgumentError: a number makes no sense, or ``keep_every`` stands alone.
    """

    keep_last: int | None = None
    """The newest so many versions."""
    keep_for: float | None = None
    """Versions made at most so many seconds before the newest one, by the times in their records."""
    keep_every: int | None = None
    """Below the boundary, versions whose number is divisible by this and that have a snapshot."""
    max_bytes: int | None = None
    """From the oldest snapshot on from which everything that is retained has at most so many bytes; from the newest
    snapshot on if that is still too much."""

    def __post_init__(self) -> None:
        if self.keep_last is not None and self.keep_last < 1:
            raise InvalidArgumentError("at least the newest version is kept")
        if self.keep_every is not None and self.keep_every < 1:
            raise InvalidArgumentError("every how many versions one is kept is a number above 0")
        if (self.keep_for is not None and not self.keep_for >= 0) or (self.max_bytes or 0) < 0:
            raise InvalidArgumentError("a policy has no negative numbers")
        if self.keep_every is not None and not self.collects:
            raise InvalidArgumentError(
                "what is kept below the boundary means nothing unless another rule says where the boundary is"
            )

    @property
    def collects(self) -> bool:
        """Whether it can move the boundary."""
        return self.keep_last is not None or self.keep_for is not None or self.max_bytes is not None


EVERYTHING = RetentionPolicy()
"""Keeps everything that is retained already."""


class Range(Protocol):
    """Versions that a reader needs."""

    @property
    def first(self) -> int:
        """The oldest."""

    @property
    def last(self) -> int | None:
        """The newest; None for every later one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What the policy looks at in one version."""

    created_at: float | None
    """Seconds since the epoch by its writer's clock; None if the record names no time that exists."""
    bytes: int
    """Size of its record and anchor, and of all that these have added to the stream."""
    snapshot: bool
    """Whether its record or an anchor names a snapshot; ``usable`` says whether that is whole."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A boundary and what is kept below it, ascending. RET-1"""

    boundary: int
    kept: tuple[int, ...]


def choose(
    policy: RetentionPolicy,
    *,
    versions: Mapping[int, Seen],
    spans: Mapping[tuple[int, int], int],
    retention: Retention,
    newest: int,
    pins: Sequence[Range],
    usable: Callable[[int], bool],
) -> Choice:
    """The boundary that the policy asks for, as far as snapshots and pins allow. COL-2

    Args:
        policy: what the operator wants.
        versions: those that are retained now and whose records are good.
        spans: bytes of each span by base and target.
        retention: what is retained now.
        newest: the newest version.
        pins: of readers that are not known to be gone.
        usable: whether a version has a snapshot whose objects are all there; asked only if one is named.

    Returns:
        What is retained now, if nothing should change.
    """
    now = Choice(retention.boundary, tuple(sorted(retention.kept)))
    if not policy.collects:
        return now
    choosing = _Choosing(policy, versions, spans, retention, newest, pins, usable)
    boundary = choosing.boundary()
    found = Choice(boundary, tuple(choosing.kept_below(boundary)))
    # What is written must begin with a snapshot that is there, even if the boundary stays. RET-2
    return found if found == now or choosing.usable(boundary) else now


class _Choosing:
    def __init__(
        self,
        policy: RetentionPolicy,
        versions: Mapping[int, Seen],
        spans: Mapping[tuple[int, int], int],
        retention: Retention,
        newest: int,
        pins: Sequence[Range],
        usable: Callable[[int], bool],
    ) -> None:
        self._policy = policy
        self._versions = versions
        self._spans = spans
        self._old = retention
        self._newest = newest
        self._pins = pins
        self._usable = usable

    def usable(self, number: int) -> bool:
        seen = self._versions.get(number)
        return seen is not None and seen.snapshot and self._usable(number)

    def boundary(self) -> int:
        target = self._snapshot_at(self._oldest_wanted())
        if self._policy.max_bytes is not None:
            target = self._fitting(target, self._policy.max_bytes)
        return self._snapshot_at(min([target, *self._limits()]))

    def kept_below(self, boundary: int) -> Iterator[int]:
        """Versions that stay below a boundary, ascending; each is retained now. RET-1"""
        for number in sorted(self._old.kept):
            if self._kept(number):
                yield number
        every = self._policy.keep_every
        if every is not None:
            begin = -(-self._old.boundary // every) * every
            yield from (number for number in range(begin, boundary, every) if self._kept(number))

    def _oldest_wanted(self) -> int:
        oldest, policy = [self._newest], self._policy
        if policy.keep_last is not None:
            oldest.append(self._newest - policy.keep_last + 1)
        if policy.keep_for is not None:
            oldest.append(self._oldest_within(policy.keep_for))
        if policy.keep_last is None and policy.keep_for is None:
            oldest.append(self._old.boundary)
        return max(min(oldest), self._old.boundary)

    def _oldest_within(self, seconds: float) -> int:
        newest = self._versions.get(self._newest)
        if newest is None or newest.created_at is None:
            return self._old.boundary
        since = newest.created_at - seconds
        return min(
            (
                number
                for number, seen in self._versions.items()
                if number >= self._old.boundary and seen.created_at is not None and seen.created_at >= since
            ),
            default=self._newest,
        )

    def _snapshot_at(self, wish: int) -> int:
        """The newest version with a snapshot at or before the wish, and not below the boundary."""
        for number in range(min(wish, self._newest), self._old.boundary, -1):
            if self.usable(number):
                return number
        return self._old.boundary

    def _limits(self) -> Iterator[int]:
        """For each pin, the oldest version that is at or above the boundary and that it needs. COL-2"""
        for pin in self._pins:
            lowest = max(pin.first, self._old.boundary)
            if pin.last is None or pin.last >= lowest:
                yield lowest

    def _kept(self, number: int) -> bool:
        if number in self._old.kept and any(
            pin.first <= number and (pin.last is None or number <= pin.last) for pin in self._pins
        ):
            return True
        every = self._policy.keep_every
        return every is not None and number % every == 0 and self.usable(number)

    def _fitting(self, start: int, most: int) -> int:
        """The lowest snapshot from ``start`` on from which everything retained fits; the newest one if none does."""
        staying = {number for number in self._old.kept if self._kept(number)}
        staying |= set(range(self._old.boundary, self._newest + 1))
        touching: dict[int, list[tuple[int, int]]] = defaultdict(list)
        counted: set[tuple[int, int]] = set()
        for span in self._spans:
            if span[0] in staying and span[1] in staying:
                counted.add(span)
                touching[span[0]].append(span)
                touching[span[1]].append(span)
        size = sum(self._versions[number].bytes for number in staying if number in self._versions)
        size += sum(self._spans[span] for span in counted)
        best = start
        for number in range(self._old.boundary, self._newest + 1):
            if number == start or (number > start and self.usable(number)):
                best = number
                if size <= most:
                    return best
            if number in self._versions and not self._kept(number):
                size -= self._versions[number].bytes
                for span in touching[number]:
                    if span in counted:
                        counted.remove(span)
                        size -= self._spans[span]
        return best
