"""The policy against a model that tries every boundary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltawire.errors import InvalidArgumentError
from deltawire.maintaining.retaining import EVERYTHING, Choice, RetentionPolicy, Seen, choose
from deltawire.reading.retention import Retention


@dataclass(frozen=True)
class Pin:
    first: int
    last: int | None

    def __contains__(self, version: int) -> bool:
        return self.first <= version and (self.last is None or version <= self.last)


@dataclass(frozen=True)
class Case:
    policy: RetentionPolicy
    versions: dict[int, Seen]
    spans: dict[tuple[int, int], int]
    retention: Retention
    newest: int
    pins: list[Pin]
    whole: frozenset[int]

    def usable(self, number: int) -> bool:
        assert self.versions[number].snapshot, "asked about a version without a snapshot"
        return number in self.whole

    def choose(self) -> Choice:
        return choose(
            self.policy,
            versions=self.versions,
            spans=self.spans,
            retention=self.retention,
            newest=self.newest,
            pins=self.pins,
            usable=self.usable,
        )


@st.composite
def cases(draw: st.DrawFn) -> Case:
    newest = draw(st.integers(0, 14))
    old = draw(st.integers(0, newest))
    kept = draw(st.sets(st.integers(0, old - 1))) if old else set()
    readable = [n for n in (*sorted(kept), *range(old, newest + 1)) if draw(st.integers(0, 9))]
    versions = {
        number: Seen(
            created_at=draw(st.none() | st.integers(0, 30).map(float)),
            bytes=draw(st.integers(1, 10)),
            snapshot=draw(st.booleans()),
        )
        for number in readable
    }
    ends = st.tuples(st.integers(0, newest), st.integers(0, newest)).filter(lambda span: span[0] < span[1])
    spans = draw(st.dictionaries(ends, st.integers(1, 10), max_size=5)) if newest else {}
    rules = st.fixed_dictionaries(
        {},
        optional={
            "keep_last": st.integers(1, 16),
            "keep_for": st.integers(0, 30).map(float),
            "max_bytes": st.integers(0, 100),
        },
    ).filter(bool)
    chosen: dict[str, Any] = draw(rules)
    policy = RetentionPolicy(**chosen, keep_every=draw(st.none() | st.integers(1, 5)))
    firsts = st.integers(0, newest + 2)
    pins = draw(st.lists(st.builds(Pin, firsts, st.none()) | st.builds(lambda a, b: Pin(a, a + b), firsts, firsts)))
    whole = frozenset(n for n in versions if versions[n].snapshot and draw(st.integers(0, 3)))
    return Case(policy, versions, spans, Retention(old, tuple(sorted(kept))), newest, pins[:3], whole)


def kept_under(case: Case, boundary: int) -> list[int]:
    every = case.policy.keep_every
    return [
        number
        for number in range(boundary)
        if number in case.retention
        and (
            (number in case.retention.kept and any(number in pin for pin in case.pins))
            or (every is not None and number % every == 0 and number in case.whole)
        )
    ]


def size_under(case: Case, boundary: int) -> int:
    retained = {*kept_under(case, boundary), *range(boundary, case.newest + 1)}
    size = sum(seen.bytes for number, seen in case.versions.items() if number in retained)
    return size + sum(count for span, count in case.spans.items() if set(span) <= retained)


def model(case: Case) -> Choice:
    """What the words of the policy say, by trying everything."""
    policy, old, newest = case.policy, case.retention.boundary, case.newest
    now = Choice(old, tuple(sorted(case.retention.kept)))
    wanted = {newest}
    if policy.keep_last is not None:
        wanted |= set(range(newest - policy.keep_last + 1, newest + 1))
    if policy.keep_for is not None:
        last = case.versions.get(newest)
        if last is None or last.created_at is None:
            wanted.add(old)
        else:
            since = last.created_at - policy.keep_for
            above = {n: seen for n, seen in case.versions.items() if n >= old}
            wanted |= {n for n, s in above.items() if s.created_at is not None and s.created_at >= since}
    if policy.keep_last is None and policy.keep_for is None:
        wanted.add(old)
    oldest = max(min(wanted), old)
    possible = [old, *(n for n in range(old, newest + 1) if n in case.whole)]
    target = max(n for n in possible if n <= oldest)
    if policy.max_bytes is not None:
        higher = [n for n in possible if n >= target]
        target = next((n for n in sorted(higher) if size_under(case, n) <= policy.max_bytes), max(higher))
    limits = [
        min(n for n in range(old, max(pin.first, old) + 1) if n in pin)
        for pin in case.pins
        if any(n in pin for n in range(old, max(pin.first, old) + 1))
    ]
    boundary = max(n for n in possible if n <= min([target, *limits]))
    found = Choice(boundary, tuple(kept_under(case, boundary)))
    return found if boundary in case.whole else now


@given(cases())
def test_the_choice_is_what_the_policy_says(case: Case) -> None:
    assert case.choose() == model(case)


@given(cases())
def test_what_always_holds(case: Case) -> None:
    choice, old = case.choose(), case.retention
    assert old.boundary <= choice.boundary <= case.newest
    assert all(number in old and number < choice.boundary for number in choice.kept)
    new = Retention(choice.boundary, choice.kept)
    for pin in case.pins:  # nobody loses what is retained for it
        assert all(number in new for number in range(case.newest + 1) if number in pin and number in old)
    if choice != Choice(old.boundary, tuple(sorted(old.kept))):
        assert choice.boundary in case.whole


def test_no_rule_keeps_everything() -> None:
    seen = {number: Seen(created_at=0.0, bytes=1, snapshot=True) for number in range(5)}
    case = Case(EVERYTHING, seen, {}, Retention(2, (0,)), 4, [], frozenset(seen))
    assert case.choose() == Choice(2, (0,))


@pytest.mark.parametrize(
    "rules",
    [
        {"keep_last": 0},
        {"keep_every": 3},
        {"keep_last": 1, "keep_every": 0},
        {"keep_for": -1.0},
        {"keep_for": float("nan")},
        {"max_bytes": -1},
    ],
)
def test_rules_that_make_no_sense(rules: dict[str, float]) -> None:
    with pytest.raises(InvalidArgumentError):
        RetentionPolicy(**rules)  # type: ignore[arg-type]
