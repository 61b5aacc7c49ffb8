"""Which versions of a stream can be read, over the steps that are not known to be damaged. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from deltawire.errors import PathLostError
from deltawire.inspecting.findings import Kind, Trouble
from deltawire.reading.planner import Edge, plan

Step = tuple[Kind, int | None, int]
"""Kind, base and target of an edge."""


class Ways:
    """The steps of a stream; those that turn out to be damaged are taken out."""

    def __init__(self, edges: Iterable[Edge]) -> None:
        self._edges: dict[Step, Edge] = {(edge.kind, edge.base, edge.target): edge for edge in edges}

    def __contains__(self, step: Step) -> bool:
        return step in self._edges

    def close(self, step: Step) -> None:
        """The step cannot be taken."""
        self._edges.pop(step, None)

    def close_for(self, troubles: Iterable[Trouble]) -> None:
        """Take out whatever needs an object that is damaged; without a tensor table nothing leads to its versions."""
        barred: list[range] = []
        for trouble in troubles:
            for use in () if trouble.usable else trouble.uses:
                if use.step is not None:
                    self.close(use.step)
                elif use.role == "table":
                    barred.append(range(use.version, use.end + 1))
        if barred:
            self._edges = {
                step: edge for step, edge in self._edges.items() if not any(edge.target in run for run in barred)
            }

    def edge(self, step: Step) -> Edge:
        """The step with its size. Raises KeyError."""
        return self._edges[step]

    def reached(self) -> set[int]:
        """The versions to which some way leads from nothing."""
        found: set[int] = set()
        for edge in sorted(self._edges.values(), key=lambda edge: edge.target):  # steps only lead forward
            if edge.base is None or edge.base in found:
                found.add(edge.target)
        return found

    def last_steps(self) -> dict[int, Edge]:
        """For each version that can be reached the smallest step that leads to it."""
        reached = self.reached()
        found: dict[int, Edge] = {}
        for edge in self._edges.values():
            best = found.get(edge.target)
            if (edge.base is None or edge.base in reached) and (best is None or edge.bytes < best.bytes):
                found[edge.target] = edge
        return found

    def way(self, target: int, *, held: int | None = None) -> list[Edge] | None:
        """The cheapest way from nothing, or from what is held; None if none leads there."""
        try:
            return plan(self._edges.values(), held=held, target=target)
        except PathLostError:
            return None


def unreached(versions: Iterable[int], reached: Collection[int]) -> list[int]:
    """Those of some versions to which no way leads, ascending."""
    return sorted(number for number in versions if number not in reached)
