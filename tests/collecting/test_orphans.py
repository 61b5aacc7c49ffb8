"""Data objects that no record names: which of them go, and when."""

from __future__ import annotations

import uuid

import pytest

from deltawire.format import keys
from deltawire.maintaining.retaining import RetentionPolicy
from tests.collecting.lines import Plan, add_orphan, add_span, collect, contents, keep_last, line, pin

PLAN = Plan()


@pytest.mark.parametrize(("number", "goes"), [(0, True), (5, True), (6, False), (7, False), (8, False), (9, False)])
def test_orphans_go_with_their_versions(number: int, goes: bool) -> None:
    """Of versions that stay they may belong to an anchor under way, of later ones to a commit. COL-7"""
    store = line(PLAN)
    key = add_orphan(store, number)
    done = collect(store, keep_last(1))
    assert done.boundary == 6
    assert (key not in contents(store)) is goes
    assert (done.orphans, done.orphan_bytes, done.waiting_orphans) == ((1, 10, 0) if goes else (0, 0, 1))
    assert not list(store.list(keys.PROBES))


def test_where_nothing_is_collected_no_orphan_goes() -> None:
    store = line(PLAN)
    key = add_orphan(store, 3)
    assert (collect(store).waiting_orphans, key in contents(store)) == (1, True)


def test_a_pin_keeps_the_orphans_of_its_versions() -> None:
    store = line(PLAN)
    key = add_orphan(store, 3)
    held = pin(store, 3, 3)
    collect(store, keep_last(1))
    assert key in contents(store)
    held.release()
    assert collect(store, keep_last(1)).orphans == 1
    assert key not in contents(store)


def test_so_does_a_version_that_is_kept() -> None:
    store = line(PLAN)
    kept, gone = add_orphan(store, 3), add_orphan(store, 4)
    done = collect(store, RetentionPolicy(keep_last=1, keep_every=3))
    assert (done.orphans, done.waiting_orphans) == (1, 1)
    assert kept in contents(store)
    assert gone not in contents(store)


def test_the_folder_of_a_record_that_cannot_be_read_stays() -> None:
    store = line(PLAN)
    part = add_span(store, 3, 6)
    store.put(keys.span_key(3, 6), b"{}", mode="overwrite")
    collect(store)
    assert part in contents(store)


def test_keys_that_are_not_known_stay() -> None:
    store = line(PLAN)
    strange = ["data/notes.txt", "data/3-x/part", f"data/{3:020d}-{str(uuid.uuid4()).upper()}/x", "versions/7.json"]
    for key in strange:
        store.put(key, b"?", mode="create")
    collect(store, keep_last(1))
    assert set(strange) <= contents(store).keys()  # KEY-5
