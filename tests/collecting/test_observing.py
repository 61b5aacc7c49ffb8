"""Which readers may be taken to be gone, by the observer's own clock."""

from __future__ import annotations

import uuid

import pytest

from deltawire.format import keys
from deltawire.maintaining.observing import PinObserver
from deltawire.reading.pins import StoredPin
from deltawire.store.memory import MemoryStore
from tests.collecting.lines import Clock, line, pin, pins_of, released, rewrite

TTL = 60.0


@pytest.fixture
def store() -> MemoryStore:
    return line()


class Observer:
    def __init__(self, store: MemoryStore) -> None:
        self.clock = Clock()
        self.observer = PinObserver(clock=self.clock)
        self._store = store
        self.slow = 0.0

    def look(self) -> list[StoredPin]:
        def read() -> list[StoredPin]:
            found = pins_of(self._store)
            self.clock.now += self.slow
            return found

        return self.observer.look(read)

    def gone(self) -> list[bool]:
        return [self.observer.gone(found) for found in self.look()]


@pytest.fixture
def it(store: MemoryStore) -> Observer:
    return Observer(store)


def test_a_pin_that_does_not_change_is_gone_after_its_ttl_and_a_tenth(store: MemoryStore, it: Observer) -> None:
    pin(store, 2, ttl=TTL)
    assert it.gone() == [False]
    it.clock.now += TTL * 1.1 - 0.01
    assert it.gone() == [False]
    it.clock.now += 0.02
    assert it.gone() == [True]


def test_a_pin_that_is_renewed_is_alive(store: MemoryStore, it: Observer) -> None:
    found = pin(store, 2, ttl=TTL)
    for _ in range(5):
        it.clock.now += TTL
        found.renew()
        assert it.gone() == [False]


def test_it_is_the_write_that_counts_and_not_what_it_says(store: MemoryStore, it: Observer) -> None:
    found = pin(store, 2, ttl=TTL)
    rewrite(store, keys.pin_key(found.id), created_at="2001-01-01T00:00:00Z", acquired_at="2001-01-01T00:00:00Z")
    assert it.gone() == [False]
    it.clock.now += TTL
    rewrite(store, keys.pin_key(found.id))
    it.clock.now += TTL
    assert it.gone() == [False]


def test_time_in_which_nobody_looks_does_not_count(store: MemoryStore, it: Observer) -> None:
    """From the answer to the first reading to the sending of the last."""
    pin(store, 2, ttl=TTL)
    it.slow = TTL
    assert it.gone() == [False]
    assert it.gone() == [False]
    it.slow = 0
    assert it.gone() == [False]
    it.clock.now += TTL * 1.1
    assert it.gone() == [True]


def test_one_that_comes_back_begins_anew(store: MemoryStore, it: Observer) -> None:
    found = pin(store, 2, ttl=TTL)
    assert it.gone() == [False]
    it.clock.now += TTL * 2
    assert it.gone() == [True]
    found.renew()
    assert it.gone() == [False]


def test_released_pins_are_gone_at_once(store: MemoryStore, it: Observer) -> None:
    released(store, 2)
    assert it.gone() == [True]


def test_an_unreadable_pin_is_gone_after_a_day(store: MemoryStore, it: Observer) -> None:
    store.put(keys.pin_key(str(uuid.uuid4())), b"what?", mode="overwrite")
    assert it.gone() == [False]
    it.clock.now += 86400
    assert it.gone() == [False]
    it.clock.now += 8640.1
    assert it.gone() == [True]


def test_what_is_settled_is_not_waited_for(store: MemoryStore, it: Observer) -> None:
    quiet, busy, over = pin(store, 1, ttl=TTL), pin(store, 2, ttl=TTL), pin(store, 3, ttl=TTL)
    over.release()
    store.put(keys.pin_key(str(uuid.uuid4())), b"what?", mode="overwrite")
    found = it.look()
    waits = {found.id: it.observer.next_look(found) for found in found}
    assert {pin_id for pin_id, wait in waits.items() if wait is not None} == {quiet.id, busy.id}
    assert all(0 < wait <= TTL / 3 for wait in waits.values() if wait is not None)
    it.clock.now += 1
    busy.renew()
    waits = {found.id: it.observer.next_look(found) for found in it.look()}
    assert {pin_id for pin_id, wait in waits.items() if wait is not None} == {quiet.id}
    it.clock.now += TTL * 1.1
    assert all(it.observer.next_look(found) is None for found in it.look())
