"""The cheapest way to a version, by bytes (SPEC.md section 11.5). Pure: it sees numbers, not a store."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from deltawire.errors import PathLostError


@dataclass(frozen=True, slots=True, order=True)
class Edge:
    """One way to get to ``target``: from nothing, or from version ``base``."""

    kind: Literal["anchor", "delta", "snapshot", "span"]
    base: int | None
    """Version it needs; None if it needs nothing."""
    target: int
    bytes: int


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
        start = "nothing" if held is None else f"version {held}"
        raise PathLostError(f"no anchor, snapshot or chain of deltas leads from {start} to version {target}")
    path: list[Edge] = []
    at: int | None = target
    while at is not None and at != held:
        path.append(came_by[at])
        at = came_by[at].base
    return path[::-1]
