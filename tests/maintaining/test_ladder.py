"""Which spans there should be, and which way they are made on."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltawire.errors import InvalidArgumentError
from deltawire.maintaining.ladder import Ladder, Span, worthwhile
from deltawire.maintaining.routing import route
from deltawire.reading.planner import Edge, plan


@st.composite
def ladders(draw: st.DrawFn) -> Ladder:
    smallest = draw(st.integers(1, 4))
    return Ladder(smallest=1 << smallest, largest=1 << draw(st.integers(smallest, 8)))


ends = st.tuples(st.integers(0, 300), st.integers(0, 300)).map(sorted)


def deltas(first: int, last: int) -> set[Span]:
    return {Span(number - 1, number) for number in range(first + 1, last + 1)}


@given(ladders(), ends)
def test_all_aligned_spans_and_no_others(ladder: Ladder, between: list[int]) -> None:
    first, last = between
    lengths = [1 << k for k in range(11) if ladder.smallest <= 1 << k <= ladder.largest]
    expected = [
        (base, base + length) for length in lengths for base in range(0, 400, length) if first <= base <= last - length
    ]
    found = list(ladder.spans(first, last))
    assert sorted(found) == sorted(expected)
    assert found == sorted(found, key=lambda span: (span.target, span.versions))
    assert all(span.base // ladder.largest == (span.target - 1) // ladder.largest for span in found)


@given(ladders(), ends, ends)
def test_a_complete_ladder_leads_anywhere_in_few_steps(ladder: Ladder, line: list[int], between: list[int]) -> None:
    first, last = line
    held, target = (min(max(number, first), last) for number in between)
    steps = {*deltas(first, last), *ladder.spans(first, last)}
    edges = [Edge("span", span.base, span.target, 1) for span in steps]
    distance = target - held
    most = 2 * math.log2(max(distance, 1)) + 2 * ladder.smallest + distance // ladder.largest
    assert len(plan(edges, held=held, target=target)) <= most


@given(ladders(), ends)
def test_no_span_reaches_out_of_another(ladder: Ladder, between: list[int]) -> None:
    for one, other in itertools.combinations(ladder.spans(*between), 2):
        inside, outside = sorted((one, other), key=lambda span: span.versions)
        apart = inside.target <= outside.base or outside.target <= inside.base
        assert apart or outside.base <= inside.base < inside.target <= outside.target


@pytest.mark.parametrize(("smallest", "largest"), [(3, 8), (4, 12), (8, 4), (1, 4), (0, 4), (-4, 4)])
def test_a_ladder_is_of_powers_of_two(smallest: int, largest: int) -> None:
    with pytest.raises(InvalidArgumentError):
        Ladder(smallest=smallest, largest=largest)


def test_when_a_pass_is_worth_it() -> None:
    assert worthwhile(newest=16, made=0, batch=16)
    assert not worthwhile(newest=15, made=0, batch=16)


def test_a_way_begins_at_the_newest_snapshot_that_will_do() -> None:
    wanted = [Span(4, 8), Span(8, 12)]
    way = route(wanted, anchor=13, snapshots={0, 3, 5, 12}, steps=deltas(0, 13))
    assert way is not None
    assert (way.start, way.anchor, list(way.spans)) == (3, 13, wanted)
    assert list(way.steps) == sorted(deltas(3, 13))


def test_spans_that_are_there_are_steps() -> None:
    steps = deltas(0, 16) | {Span(0, 8), Span(8, 12), Span(12, 16)}
    way = route([Span(8, 16)], anchor=None, snapshots={0}, steps=steps)
    assert way is not None
    assert list(way.steps) == [Span(0, 8), Span(8, 12), Span(12, 16)]


def test_what_cannot_be_reached_is_left_out() -> None:
    steps = deltas(0, 16) - {Span(5, 6)}
    wanted = [Span(0, 4), Span(4, 8), Span(8, 12), Span(0, 8)]
    way = route(wanted, anchor=16, snapshots={0, 10}, steps=steps)
    assert way is not None
    assert (way.start, list(way.spans), way.anchor) == (0, [Span(0, 4)], None)
    later = route([Span(8, 12)], anchor=16, snapshots={0, 10}, steps=steps)
    assert later is None, "the snapshot before it does not lead there"
    over = route([Span(8, 12)], anchor=16, snapshots={0, 7}, steps=steps)
    assert over is not None
    assert (over.start, list(over.spans), over.anchor) == (7, [Span(8, 12)], 16)


def test_a_span_leads_over_a_delta_that_is_lost() -> None:
    steps = (deltas(0, 12) - {Span(5, 6)}) | {Span(4, 8)}
    way = route([Span(0, 8), Span(8, 12)], anchor=None, snapshots={0}, steps=steps)
    assert way is not None
    assert list(way.spans) == [Span(0, 8), Span(8, 12)]
    assert Span(4, 8) in way.steps


def test_without_a_snapshot_there_is_no_way() -> None:
    assert route([Span(4, 8)], anchor=None, snapshots={5}, steps=deltas(0, 9)) is None
    assert route([], anchor=None, snapshots={0}, steps=deltas(0, 9)) is None
