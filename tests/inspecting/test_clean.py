"""Nothing is found in streams of every sort that are as they should be."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest

from deltawire import AnchorPolicy, Publisher, fork, rollback
from deltawire.format import keys
from deltawire.inspecting.diagnosis import diagnose
from deltawire.inspecting.verification import verify_stream
from deltawire.maintaining.builder import Builder
from deltawire.maintaining.collecting import CollectOptions
from deltawire.maintaining.ladder import Ladder
from deltawire.maintaining.maintainer import Maintainer
from deltawire.maintaining.retaining import RetentionPolicy
from deltawire.store.base import Store
from deltawire.store.memory import MemoryStore
from tests.inspecting.streams import (
    ANCHOR,
    NEWEST,
    add_pin,
    collect,
    contents,
    new_store,
    publish_all,
    record_of,
    states,
    whole,
)
from tests.retaining import retain
from tests.spans import add_span


def everything() -> MemoryStore:
    return new_store(whole())


def rolled_back() -> MemoryStore:
    store = everything()
    rollback(store, to=3)  # over a rebase: a snapshot
    rollback(store, to=NEWEST)
    rollback(store, to=NEWEST)  # nothing changes but the number
    return store


def rolled_back_beyond_the_boundary() -> MemoryStore:
    store = rolled_back()
    collect(store, NEWEST + 1)  # a rebase, of a version that is gone then
    return store


def forked() -> MemoryStore:
    store, source = new_store(), everything()
    fork(source, store, version=7)
    with Publisher(store) as publisher:
        publisher.publish(states(9)[8])
    return store


def absolute() -> MemoryStore:
    store = new_store()
    publish_all(store, states(8), rebase=3, absolute=True)
    return store


def single_writer() -> MemoryStore:
    store = new_store()
    with Publisher(store, single_writer=True, anchors=AnchorPolicy(every=1)) as publisher:
        for state in states(3):
            publisher.publish(state)
            publisher.wait_for_anchor()
    return store


def without_versions() -> MemoryStore:
    store = new_store()
    with Publisher(store):
        pass
    return store


def collected() -> MemoryStore:
    store = everything()
    collect(store, ANCHOR)
    return store


def collected_with_kept_ones() -> MemoryStore:
    store = everything()
    collect(store, 9, 0, ANCHOR)
    return store


def collected_to_the_newest() -> MemoryStore:
    store = rolled_back()
    collect(store, NEWEST + 2)
    return store


def spans_over_spans() -> MemoryStore:
    store = everything()
    for base, target in ((0, 2), (2, 4), (0, 8), (9, 12), (10, 12)):
        add_span(store, base, target)
    return store


SORTS: list[Callable[[], Store]] = [
    everything,
    rolled_back,
    rolled_back_beyond_the_boundary,
    forked,
    absolute,
    single_writer,
    without_versions,
    collected,
    collected_with_kept_ones,
    collected_to_the_newest,
    spans_over_spans,
]


@pytest.mark.parametrize("make", SORTS, ids=lambda make: make.__name__)
def test_nothing_is_found(make: Callable[[], Store]) -> None:
    store = make()
    before = contents(store)
    for deep in (False, True):
        found = diagnose(store, deep=deep)
        assert found.damage == []
        assert found.notes == []
        assert found.unreadable == []
        assert (found.newest is None) == (found.way is None)
        assert verify_stream(store, deep=deep).notes == []
    assert contents(store) == before


def test_what_is_pinned_below_the_boundary_is_not_damage() -> None:
    """A reader that pinned versions 2 to 4 keeps them, while they are no part of the stream any more."""
    store, objects = everything(), whole()
    add_pin(store, 2)
    collect(store, ANCHOR)
    left = [key for key in objects if any(f"/{number:020d}" in key for number in (2, 3, 4))]
    for key in left:
        store.put(key, objects[key], mode="overwrite")
    found = diagnose(store, deep=True)
    assert found.clean
    assert {item.sort for item in found.notes} == {"unretained"}
    assert keys.version_key(2) in {item.key for item in found.notes}


def test_what_maintainers_make_and_leave_is_clean() -> None:
    """The real ones: anchors and spans are made, the boundary moves, orphans and what is not retained go."""
    store = new_store()
    publish_all(store, states(24), rebase=6)
    for number in (3, 20):
        store.put(keys.data_prefix(number, str(uuid.uuid4())) + "part-00000.arrow", b"123", mode="create")
    store.put(keys.data_prefix(24, str(uuid.uuid4())) + "part-00000.arrow", b"123", mode="create")
    with Builder(store, ladder=Ladder(), anchors=AnchorPolicy(every=4), batch=1) as builder:
        builder.run(force=True)
    found = diagnose(store, deep=True)
    assert found.damage == []
    assert [item.sort for item in found.notes] == ["unreferenced", "unreferenced", "under_way"]
    assert verify_stream(store).spans
    options = CollectOptions(policy=RetentionPolicy(keep_last=5, keep_every=6), wait=True)
    maintainer: Maintainer[None] = Maintainer(store, options)
    with maintainer:
        maintainer.once()
    found = diagnose(store, deep=True)
    assert found.damage == []
    assert found.boundary > 0
    assert [item.sort for item in found.notes] == ["unreferenced", "under_way"]  # that of version 20 waits. COL-7


def test_the_way_that_is_named_is_the_cheapest() -> None:
    store = new_store()
    publish_all(store, states(9), rebase=None)
    add_span(store, 5, 8)
    found = diagnose(store)
    assert found.way is not None
    assert [(edge.kind, edge.base, edge.target) for edge in found.way] == [("anchor", None, 5), ("span", 5, 8)]


def test_each_span_is_taken_from_its_base() -> None:
    store = spans_over_spans()
    assert verify_stream(store).spans == 7
    for base, target in ((0, 2), (9, 12)):
        store.delete(record_of(store, keys.span_key(base, target))["delta"]["parts"][0]["key"])
    shallow, deep = diagnose(store), diagnose(store, deep=True)
    assert {item.code for item in shallow.damage} == {"missing_object"}
    assert deep.damage == shallow.damage


def test_a_boundary_can_move_over_a_damaged_version() -> None:
    store = everything()
    store.delete(keys.version_key(3))
    assert not diagnose(store).clean
    retain(store, ANCHOR)
    assert diagnose(store, deep=True).clean
