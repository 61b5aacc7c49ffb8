"""Data objects that no record names: which of them go, and when."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from deltawire.format import keys
from tests.collecting.lines import Plan, add_orphan, add_span, collect, contents, keep_last, line, set_age
from tests.faults.faulty_store import FaultyStore

PLAN = Plan()


@pytest.mark.parametrize(
    ("number", "age", "goes"),
    [(3, 3601.0, True), (7, 3601.0, True), (3, 3500.0, False), (8, 1e6, False), (9, 1e6, False)],
)
def test_orphans_go_when_nobody_works_at_them(number: int, age: float, goes: bool) -> None:
    store = line(PLAN)
    key = add_orphan(store, number, age=age)
    done = collect(store)
    assert (key not in contents(store)) is goes
    assert (done.orphans, done.orphan_bytes) == ((1, 10) if goes else (0, 0))
    assert done.young_orphans == int(age < 3600)
    assert not list(store.list(keys.PROBES))


def test_one_young_object_keeps_its_folder() -> None:
    store = line(PLAN)
    old = add_orphan(store, 3)
    young = old.replace("part-00000", "part-00001")
    store.put(young, b"x", mode="create")
    assert collect(store).young_orphans == 2
    set_age(store, young, 4000)
    assert collect(store).orphans == 2


def test_the_grace_period_is_the_operators() -> None:
    store = line(PLAN)
    add_orphan(store, 3, age=50)
    assert collect(store, grace=60.0).orphans == 0
    assert collect(store, grace=40.0).orphans == 1


class Timeless(FaultyStore):
    """A store that tells no times."""

    def head(self, key: str) -> Any:
        info = super().head(key)
        return type(info)(info.key, info.bytes)

    def list(self, prefix: str) -> Any:
        return iter([type(info)(info.key, info.bytes) for info in super().list(prefix)])


def test_a_store_that_tells_no_times_keeps_its_orphans() -> None:
    store = Timeless(line(PLAN))
    key = add_orphan(store, 3)
    done = collect(store, grace=0.0)
    assert key in contents(store)
    assert done.young_orphans == 1
    assert any("does not tell when" in note for note in done.notes)


def test_what_got_its_record_meanwhile_is_no_orphan() -> None:
    """A span whose writer was slow: its record comes between the listings of a pass."""
    memory = line(PLAN)
    twin = line(PLAN)
    add_span(twin, 3, 6)
    new = {key: data for key, data in contents(twin).items() if key not in contents(memory)}
    part = next(key for key in new if key.startswith(keys.DATA))
    memory.put(part, new[part], mode="create")
    set_age(memory, part, 1e6)
    store = FaultyStore(memory)

    def create(call: Any) -> None:
        if call.verb == "list" and call.key == keys.DATA:
            memory.put(keys.span_key(3, 6), new[keys.span_key(3, 6)], mode="overwrite")

    store.before = create
    assert collect(store).orphans == 0
    assert part in contents(memory)


def test_the_folder_of_a_record_that_cannot_be_read_stays() -> None:
    store = line(PLAN)
    part = add_span(store, 3, 6)
    store.put(keys.span_key(3, 6), b"{}", mode="overwrite")
    set_age(store, part, 1e6)
    collect(store)
    assert part in contents(store)


def test_keys_that_are_not_known_stay() -> None:
    store = line(PLAN)
    strange = ["data/notes.txt", "data/3-x/part", f"data/{3:020d}-{str(uuid.uuid4()).upper()}/x", "versions/7.json"]
    for key in strange:
        store.put(key, b"?", mode="create")
        set_age(store, key, 1e6)
    collect(store, keep_last(1), grace=0.0)
    assert set(strange) <= contents(store).keys()  # KEY-5
