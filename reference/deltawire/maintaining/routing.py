"""What one pass over a model makes, and over which steps it leads. Pure: it sees numbers, not a store."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from deltawire.errors import PathLostError
from deltawire.maintaining.ladder import Span
from deltawire.reading.planner import Edge, plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A way along the line, from a snapshot, that stops at both ends of each span to be made."""

    start: int
    """The version whose snapshot it begins with."""
    steps: tuple[Span, ...]
    """Deltas, which lead over one version, and spans that are there already; each begins where the last one ended."""
    spans: tuple[Span, ...]
    """What is made on the way; by target, shorter first."""
    anchor: int | None
    """Version of which a snapshot is made, which is where the way ends."""


def route(
    wanted: Sequence[Span], *, anchor: int | None, snapshots: Collection[int], steps: Iterable[Span]
) -> Route | None:
    """The way that begins at the newest snapshot from which all is reached, or, where steps are lost, what can be.

    A span is no larger than what it replaces (SPN-3): the fewest steps are the fewest bytes.

    Args:
        wanted: spans to make, none of which reaches from inside another one out of it.
        anchor: a version to make a snapshot of, not below any target.
        snapshots: versions that have one.
        steps: deltas and spans that can be taken.

    Returns:
        None if nothing of what is wanted can be reached from there.
    """
    edges = [Edge("delta" if step.versions == 1 else "span", step.base, step.target, 1) for step in steps]
    made = list(wanted)
    while True:
        ends = {end for span in made for end in span} | ({anchor} if anchor is not None else set())
        start = max((version for version in snapshots if version <= min(ends, default=-1)), default=None)
        if start is None:
            return None
        taken, reached = _lay(start, sorted(ends), edges)
        count = len(made)
        made = [span for span in made if reached.issuperset(span)]
        if anchor not in reached:
            anchor = None
        if len(made) == count:
            break  # else once more, without stops that nothing needs
    if not made and anchor is None:
        return None
    return Route(
        start=start,
        steps=tuple(taken),
        spans=tuple(sorted(made, key=lambda span: (span.target, span.versions))),
        anchor=anchor,
    )


def _lay(start: int, stops: Sequence[int], edges: Sequence[Edge]) -> tuple[list[Span], set[int]]:
    """Steps from stop to stop, those left out to which no way leads; and the stops that are reached."""
    taken: list[Span] = []
    reached = {start}
    here = start
    edges = [edge for edge in edges if edge.base is not None and start <= edge.base and edge.target <= stops[-1]]
    for stop in stops:
        between = [edge for edge in edges if edge.base is not None and here <= edge.base and edge.target <= stop]
        try:
            leg = plan(between, held=here, target=stop)
        except PathLostError:
            continue
        taken += [Span(edge.base, edge.target) for edge in leg if edge.base is not None]
        reached.add(stop)
        here = stop
    return taken, reached
