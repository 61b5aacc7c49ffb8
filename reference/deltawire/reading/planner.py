"""Ways to a version: the fewest steps by keys alone, the fewest bytes by records (SPEC.md section 11.5).

Pure: it sees numbers, not a store.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Collection, Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Literal, NamedTuple

from deltawire.errors import PathLostError


class Link(NamedTuple):
    """What leads to ``target``, from version ``base`` or from nothing."""

    kind: Literal["anchor", "delta", "snapshot", "span"]
    base: int | None
    """Version it needs; None if it needs nothing."""
    target: int

    def __str__(self) -> str:
        if self.kind == "span":
            return f"the span from version {self.base} to {self.target}"
        return f"the {self.kind} of version {self.target}"


@dataclass(frozen=True, slots=True, order=True)
class Edge:
    """One way to get to ``target``, and what it costs."""

    kind: Literal["anchor", "delta", "snapshot", "span"]
    base: int | None
    target: int
    bytes: int

    @property
    def link(self) -> Link:
        """What it is, without the price."""
        return Link(self.kind, self.base, self.target)


def plan(edges: Iterable[Edge], *, held: int | None, target: int) -> list[Edge]:
    """Edges to take, in order, from ``held`` (or from nothing) to ``target``, with the fewest bytes. PLN-1, PLN-2

    Of equally cheap ways the one with fewer steps is taken. Whoever holds the target already has nothing to do.

    Raises:
        PathLostError: no way leads there.
    """
    if held == target:
        return []
    leaving: dict[int | None, list[Edge]] = {}
    for edge in edges:
        leaving.setdefault(edge.base, []).append(edge)
    # A full snapshot can be taken from any state, so "nothing" is a place that is always reached at no cost.
    best: dict[int | None, tuple[int, int]] = {None: (0, 0)}
    came_by: dict[int | None, Edge] = {}
    queue: list[tuple[int, int, int]] = [(0, 0, -1)]
    if held is not None:
        best[held] = (0, 0)
        queue.append((0, 0, held))
    while queue:
        cost, steps, place = heapq.heappop(queue)
        here = None if place < 0 else place
        if here == target:
            break
        if (cost, steps) > best[here]:
            continue
        for edge in leaving.get(here, ()):
            reached = (cost + edge.bytes, steps + 1)
            if edge.target not in best or reached < best[edge.target]:
                best[edge.target] = reached
                came_by[edge.target] = edge
                heapq.heappush(queue, (*reached, edge.target))
    if target not in came_by:
        raise lost(held, target)
    path: list[Edge] = []
    at: int | None = target
    while at is not None and at != held:
        path.append(came_by[at])
        at = came_by[at].base
    return path[::-1]


def lost(held: int | None, target: int) -> PathLostError:
    """The error that no way leads to the target."""
    start = "nothing" if held is None else f"version {held}"
    return PathLostError(f"no anchor, snapshot or chain of deltas leads from {start} to version {target}")


class Routes:
    """The ways to one version over deltas and spans with the fewest steps, as the keys alone tell.

    A span is no larger than what it replaces (SPN-3), so that few steps are few bytes too.

    Args:
        spans: base and target of each.
        target: where to.
        starts: versions where ways may begin.
        held: the start that is held, whatever became of its record; None if none is.
        boundary: versions from here on may be reached.
        kept: and these.
        gone: but not these, whose records are of no use.
        bad: deltas and spans that are not to be used.
    """

    def __init__(
        self,
        spans: Iterable[tuple[int, int]],
        *,
        target: int,
        starts: Collection[int],
        held: int | None = None,
        boundary: int = 0,
        kept: AbstractSet[int] = frozenset(),
        gone: AbstractSet[int] = frozenset(),
        bad: AbstractSet[Link] = frozenset(),
    ) -> None:
        self._target = target
        self._boundary, self._kept = boundary, kept
        self._gone, self._bad = gone, bad
        lowest = min(starts, default=target)
        leaving: dict[int, list[int]] = {}
        # Between two of these places there is nothing but deltas that may be used.
        places = {target, *starts}
        places.update(itertools.chain.from_iterable((number - 1, number, number + 1) for number in gone))
        places.update(itertools.chain.from_iterable((link.target - 1, link.target) for link in bad))
        for base, end in spans:
            if lowest <= base and end <= target and self._usable(end) and Link("span", base, end) not in bad:
                leaving.setdefault(base, []).append(end)
                places |= {base, end}
        self._best: dict[int, tuple[int, int, Literal["delta", "span"]]] = {target: (0, target, "delta")}
        after = target
        for place in sorted((place for place in places if lowest <= place < target), reverse=True):
            if place == held or self._usable(place):
                ways: list[tuple[int, int, Literal["delta", "span"]]] = [
                    (self._best[end][0] + 1, end, "span") for end in leaving.get(place, ()) if end in self._best
                ]
                if after in self._best and self._chained(place, after):
                    ways.append((self._best[after][0] + after - place, after, "delta"))
                if ways:
                    self._best[place] = min(ways, key=lambda way: (way[0], way[2]))
            after = place

    @property
    def lowest(self) -> int:
        """The oldest version from which a way leads on."""
        return min(self._best)

    def steps(self, start: int) -> int | None:
        """Number of steps from one of the starts; None if no way leads on from there."""
        return self._best[start][0] if start in self._best else None

    def way(self, start: int) -> Iterator[Link]:
        """The deltas and spans from a start that has a way."""
        at = start
        while at != self._target:
            _, end, kind = self._best[at]
            if kind == "span":
                yield Link("span", at, end)
            else:
                yield from (Link("delta", number - 1, number) for number in range(at + 1, end + 1))
            at = end

    def _usable(self, number: int) -> bool:
        return number not in self._gone and (number >= self._boundary or number in self._kept)

    def _chained(self, base: int, end: int) -> bool:
        """Whether deltas lead from one place to the next."""
        if Link("delta", end - 1, end) in self._bad or not self._usable(end):
            return False
        return all(number in self._kept for number in range(base + 1, min(end, self._boundary)))
