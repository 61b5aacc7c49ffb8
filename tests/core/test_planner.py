"""The planner against trying every path."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from deltawire.errors import PathLostError
from deltawire.reading.planner import Edge, plan

NEWEST = 5
versions = st.integers(0, NEWEST)
costs = st.sampled_from([0, 1, 1, 2, 3, 10, 2**50])


def deltas(base: int, further: int, cost: int) -> Edge:
    return Edge("delta", base, base + further, cost)


edges = st.lists(
    st.one_of(
        st.builds(deltas, versions, st.integers(1, 3), costs),
        st.builds(lambda target, cost: Edge("anchor", None, target, cost), versions, costs),
        st.builds(lambda target, cost: Edge("snapshot", None, target, cost), versions, costs),
    ),
    max_size=9,
)


def cheapest(every: list[Edge], held: int | None, target: int) -> tuple[int, int] | None:
    """Bytes and steps of the best path, by trying all of them; None if there is none."""
    found: list[tuple[int, int]] = [(0, 0)] if held == target else []

    def go(at: int | None, seen: frozenset[int | None], cost: int, steps: int) -> None:
        for edge in every:
            if edge.base in (at, None) and edge.target not in seen:
                reached = (cost + edge.bytes, steps + 1)
                if edge.target == target:
                    found.append(reached)
                else:
                    go(edge.target, seen | {edge.target}, *reached)

    go(held, frozenset({held}), 0, 0)
    return min(found, default=None)


@given(edges, st.one_of(st.none(), versions), versions)
@example([], 3, 3)
@example([Edge("anchor", None, 2, 0)], 2, 2)
@example([deltas(0, 1, 1), deltas(1, 1, 1), deltas(0, 2, 2)], 0, 2)  # equal bytes: one step rather than two
@example([Edge("anchor", None, 2, 1), deltas(1, 1, 2)], 1, 2)  # a snapshot may be cheaper than what is next
@example([Edge("snapshot", None, 1, 5), deltas(0, 1, 5)], 0, 1)
def test_cheapest_path(every: list[Edge], held: int | None, target: int) -> None:
    best = cheapest(every, held, target)
    if best is None:
        with pytest.raises(PathLostError):
            plan(every, held=held, target=target)
        return
    path = plan(every, held=held, target=target)
    assert (sum(edge.bytes for edge in path), len(path)) == best
    at = held
    for edge in path:
        assert edge in every
        assert edge.base is None or edge.base == at
        at = edge.target
    assert at == target


def test_it_goes_back_to_an_older_anchor_if_that_is_all_there_is() -> None:
    path = plan([Edge("anchor", None, 1, 9), deltas(1, 1, 1), deltas(2, 1, 1)], held=None, target=3)
    assert [edge.kind for edge in path] == ["anchor", "delta", "delta"]


def test_a_long_chain_is_planned_quickly() -> None:
    chain = [Edge("snapshot", None, 0, 10**9), *(deltas(version, 1, 10**6) for version in range(20_000))]
    chain.append(Edge("anchor", None, 19_990, 10**9))
    path = plan(chain, held=None, target=20_000)
    assert [edge.kind for edge in path] == ["anchor"] + ["delta"] * 10


def test_the_error_says_from_where_to_where() -> None:
    with pytest.raises(PathLostError, match="from version 1 to version 3"):
        plan([deltas(2, 1, 1)], held=1, target=3)
    with pytest.raises(PathLostError, match="from nothing to version 3"):
        plan([deltas(2, 1, 1)], held=None, target=3)
