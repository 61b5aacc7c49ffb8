"""A pass that breaks off at any call of the store is taken up by the next, and nobody loses anything."""

from __future__ import annotations

from functools import cache

import pytest

from deltawire.errors import DeltawireError
from deltawire.format import keys
from deltawire.inspecting.verification import verify_stream
from deltawire.maintaining.retaining import RetentionPolicy
from deltawire.store.base import Store
from deltawire.store.memory import MemoryStore
from tests.collecting.lines import (
    Plan,
    add_orphan,
    add_span,
    check_nothing_else,
    check_reachable,
    collect,
    line,
    numbers,
    released,
    retention_of,
)
from tests.faults.faulty_store import APPLICABLE, BindingBugError, Call, Fault, FaultyStore

PLAN = Plan(7, (2, 4))
POLICIES = {
    "plain": RetentionPolicy(keep_last=2),
    "every": RetentionPolicy(keep_last=1, keep_every=2),
}
STAY = {"plain": {4, 5, 6}, "every": {0, 2, 4, 5, 6}}
FAULTS = [*sorted(set().union(*APPLICABLE.values()) - {Fault.CUT}), Fault.BUG]


def given() -> MemoryStore:
    """Something of everything that goes."""
    store = line(PLAN)
    add_span(store, 1, 3)
    add_span(store, 2, 5)
    add_orphan(store, 5)
    released(store, 1)
    return store


@cache
def calls(policy: str) -> list[Call]:
    """The calls of a pass in which nothing fails."""
    store = FaultyStore(given())
    collect(store, POLICIES[policy])
    return store.log


def check_retained(store: Store) -> None:
    """Whatever was done by halves: what is retained can be read."""
    retention = retention_of(store)
    check_reachable(store, PLAN, [number for number in numbers(store) if number in retention])
    # Versions have no holes, from the boundary on.
    assert set(range(retention.boundary, PLAN.count)) | retention.kept <= set(numbers(store))


def finish(store: Store, policy: str, *, deep: bool) -> None:
    collect(store, POLICIES[policy])
    assert set(numbers(store)) == STAY[policy]
    check_nothing_else(store, lambda number: number in STAY[policy])
    if deep:
        check_retained(store)
    if deep and policy == "plain":
        assert verify_stream(store, deep=True).sound
    assert not list(store.list(keys.PROBES))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("fault", FAULTS)
def test_every_call_fails_once(policy: str, fault: Fault) -> None:
    failed = 0
    for call in calls(policy):
        if fault is not Fault.BUG and fault not in APPLICABLE[call.verb]:
            continue
        memory = given()
        try:
            collect(FaultyStore(memory, {call.index: fault}), POLICIES[policy])
        except (DeltawireError, BindingBugError):
            failed += 1
        check_retained(memory)
        finish(memory, policy, deep=call.index % 8 == 0)
    assert failed or fault in {Fault.STALE, Fault.EXISTS}


@pytest.mark.parametrize("fault", [Fault.UNAVAILABLE, Fault.DENIED])
def test_the_store_goes_away(fault: Fault) -> None:
    """As a process that is killed: from some call on, nothing arrives."""
    for index in range(len(calls("every"))):
        memory = given()
        store = FaultyStore(memory, dict.fromkeys(range(index, 10_000), fault))
        with pytest.raises(DeltawireError):
            collect(store, POLICIES["every"])
        check_retained(memory)
        finish(memory, "every", deep=index % 8 == 0)


def test_records_go_after_what_they_name() -> None:
    """The order in which it may break off. COL-5"""
    store = FaultyStore(given())
    collect(store, POLICIES["every"])
    deleted = [call.key for call in store.effects if call.verb == "delete"]
    boundary = next(number for number, call in enumerate(store.effects) if call.key == keys.RETENTION)
    assert all(call.verb != "delete" for call in store.effects[:boundary])

    def places(prefix: str) -> list[int]:
        return [place for place, key in enumerate(deleted) if key.startswith(prefix)]

    orphans = 1
    assert max(places(keys.DATA)[:-orphans]) < min(places(keys.SPANS))
    assert max(places(keys.SPANS)) < min(places(keys.VERSIONS))
