"""Maintainers, readers and producers at one time: at every call of a pass, another does something."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import cache

import pytest

from deltawire import Publisher
from deltawire.consumer.pin import PinTerms, ReaderPin
from deltawire.errors import ConflictError
from deltawire.format import keys
from deltawire.inspecting.verification import verify_stream
from deltawire.limits import DEFAULT_LIMITS, MIB
from deltawire.maintaining.boundary import Boundary
from deltawire.maintaining.report import Collected
from deltawire.maintaining.retaining import Choice, RetentionPolicy
from deltawire.producer.anchors import NEVER
from deltawire.store.base import Store
from deltawire.store.memory import MemoryStore
from tests.collecting.lines import (
    NEVER_ENDS,
    Clock,
    Plan,
    add_span,
    check_applies,
    check_nothing_else,
    check_reachable,
    collect,
    collector,
    contents,
    descriptors,
    keep_last,
    line,
    numbers,
    pin,
    pins_of,
    released,
    retention_of,
    stream_of,
)
from tests.faults.faulty_store import Call, FaultyStore

PLAN = Plan(7, (2, 4))
POLICY = keep_last(1)


@cache
def log() -> list[Call]:
    """The calls of an undisturbed pass."""
    store = FaultyStore(line(PLAN))
    collect(store, POLICY)
    return store.log


def during(memory: Store, happen: dict[int, list[Callable[[], object]]], policy: RetentionPolicy = POLICY) -> Collected:
    """A pass, and ahead of its calls of these numbers something else."""
    store = FaultyStore(memory)

    def act(call: Call) -> None:
        for something in happen.get(call.index, []):
            something()

    store.before = act
    return collect(store, policy)


# Readers that pin while a boundary moves. COL-4


class Reader:
    """Pins, looks, and may rely on it if that is confirmed."""

    def __init__(self, store: MemoryStore, first: int) -> None:
        self._store = store
        self.first = first
        self.pin = ReaderPin(store, stream_of(store), PinTerms(holder="reader"), clock=lambda: 0.0)
        self.pin.want(first)

    def look(self) -> None:
        self.pin.confirm(lambda: retention_of(self._store))

    def check(self) -> bool:
        """Whether it may rely on the pin; then all that it needs is there."""
        if self.pin.confirmed:
            check_applies(self._store, range(self.first, PLAN.count))
        return self.pin.confirmed


def moments() -> Iterator[int]:
    """Just before each listing of pins, the move of the boundary, and each delete; and after all."""
    for call in log():
        if call.key in {keys.PINS, keys.RETENTION} or call.verb == "delete":
            yield call.index
    yield len(log())


def test_a_reader_that_was_told_so_loses_nothing() -> None:
    """Whatever comes between writing the pin, looking, listing, moving the boundary and deleting."""
    told = set()
    points = list(moments())
    deletes = [place for place in points if place < len(log()) and log()[place].verb == "delete"]
    points = [place for place in points if place not in deletes[3:-1]]
    for written in points:
        for looked in [place for place in points if place >= written]:
            for first in (0, 3):
                memory = line(PLAN)
                reader = Reader(memory, first)
                happen: dict[int, list[Callable[[], object]]] = {}
                happen.setdefault(written, []).append(reader.pin.keep)
                happen.setdefault(looked, []).append(reader.look)
                during(memory, happen)
                told.add(reader.check())
                collect(memory, POLICY)
                reader.check()
                check_reachable(memory, PLAN, [number for number in numbers(memory) if number in retention_of(memory)])
    assert told == {True, False}


def place_of(verb: str, key: str, nth: int = 0) -> int:
    return [call.index for call in log() if (call.verb, call.key) == (verb, key)][nth]


@pytest.mark.parametrize(
    ("written", "looked", "confirmed"),
    [
        (("list", keys.PINS, 0), ("list", keys.PINS, 0), True),  # seen before the boundary is chosen
        (("create", keys.RETENTION, 0), ("create", keys.RETENTION, 0), True),  # seen after it has moved
        (("create", keys.RETENTION, 0), ("list", keys.PINS, 1), False),  # looked too late
        (("list", keys.PINS, 1), ("list", keys.PINS, 1), False),  # wrote too late
    ],
)
def test_the_four_orders(written: tuple[str, str, int], looked: tuple[str, str, int], confirmed: bool) -> None:
    memory = line(PLAN)
    reader = Reader(memory, 1)
    happen: dict[int, list[Callable[[], object]]] = {}
    happen.setdefault(place_of(*written), []).append(reader.pin.keep)
    happen.setdefault(place_of(*looked), []).append(reader.look)
    done = during(memory, happen)
    assert reader.check() is confirmed
    assert done.boundary == (0 if written[0] == "list" and written[2] == 0 else 4)
    assert numbers(memory)[0] <= 1, "it was there in time to be seen by the second listing"


# Pins of readers that live and die


def test_a_pin_holds_back_the_boundary() -> None:
    store = line(PLAN)
    held = pin(store, 3)
    done = collect(store, POLICY)
    assert (done.boundary, numbers(store)) == (2, [2, 3, 4, 5, 6])
    (back,) = done.held_back
    assert (back.id, back.holder, back.first, back.last, back.versions) == (held.id, "reader of 3", 3, None, 1)
    check_applies(store, [3, 4, 5, 6])
    held.hold(5)
    held.renew()
    assert collect(store, POLICY).boundary == 4
    held.release()
    done = collect(store, POLICY)
    assert (done.held_back, done.pins, pins_of(store)) == ((), 0, [])


def test_a_range_holds_back_no_more_than_it_says() -> None:
    store = line(PLAN)
    pin(store, 2, 2)
    assert collect(store, POLICY).boundary == 2
    assert collect(store, RetentionPolicy(keep_last=1, keep_every=2)).kept == ()
    later = line(PLAN)
    assert collect(later, RetentionPolicy(keep_last=1, keep_every=2)).kept == ((0, 0), (2, 2))
    pin(later, 2, 2)
    assert collect(later, POLICY).kept == ((2, 2),)
    assert numbers(later) == [2, 4, 5, 6]


def test_a_dead_reader_holds_back_nothing_after_its_ttl_and_a_tenth() -> None:
    store, clock = line(PLAN), Clock()
    pin(store, 1, ttl=60)
    with collector(store, POLICY, clock=clock) as it:
        assert it.run(NEVER_ENDS).boundary == 0
        clock.now += 65.9
        assert it.run(NEVER_ENDS).boundary == 0
        clock.now += 0.2
        done = it.run(NEVER_ENDS)
    assert (done.boundary, done.pins) == (4, 1)
    assert pins_of(store) == []


def test_a_live_reader_holds_back_for_ever() -> None:
    store, clock = line(PLAN), Clock()
    held = pin(store, 1, ttl=60)
    with collector(store, POLICY, clock=clock) as it:
        for _ in range(5):
            clock.now += 60
            held.renew()
            assert it.run(NEVER_ENDS).boundary == 0


@pytest.mark.parametrize("alive", [True, False])
def test_a_single_pass_watches_who_is_in_the_way(alive: bool) -> None:
    store, clock = line(PLAN), Clock()
    told: list[str] = []
    held = pin(store, 1, ttl=60)
    if alive:
        clock.during = held.renew
    with collector(store, POLICY, clock=clock, wait=True) as it:
        it._tell = told.append
        done = it.run(NEVER_ENDS)
    assert done.boundary == (0 if alive else 4)
    assert done.waited_seconds <= 66.1
    assert (done.waited_seconds < 20) is alive
    assert len(told) == 1
    assert "reader of 1" in told[0]


def test_a_single_pass_waits_for_nobody_else() -> None:
    store = line(PLAN)
    for first in (4, 5, 6):
        pin(store, first)
    released(store, 1)
    done = collect(store, POLICY, wait=True)
    assert (done.boundary, done.waited_seconds, done.pins) == (4, 0.0, 1)
    assert collect(line(PLAN), wait=True).waited_seconds == 0.0
    unreadable = line(PLAN)
    unreadable.put(keys.pin_key("5a0f6a52-8c1f-4f4e-9f0e-9a1f3f8b2c77"), b"?", mode="overwrite")
    done = collect(unreadable, POLICY, wait=True)
    assert (done.boundary, done.waited_seconds) == (0, 0.0)
    assert done.held_back[0].holder is None


def test_an_unreadable_pin_pins_everything_for_a_day() -> None:
    store, clock = line(PLAN), Clock()
    store.put(keys.pin_key("5a0f6a52-8c1f-4f4e-9f0e-9a1f3f8b2c77"), b"?", mode="overwrite")
    with collector(store, POLICY, clock=clock) as it:
        assert it.run(NEVER_ENDS).boundary == 0
        clock.now += 86400
        assert it.run(NEVER_ENDS).boundary == 0
        clock.now += 8641
        assert it.run(NEVER_ENDS).boundary == 4
    assert list(store.list(keys.PINS)) == []


def test_a_span_that_a_reader_needs_whole_stays() -> None:
    store = line(PLAN)
    inside, over = add_span(store, 1, 3), add_span(store, 3, 5)
    collect(store, RetentionPolicy(keep_last=1, keep_every=100))
    assert not list(store.list(keys.SPANS))
    store = line(PLAN)
    inside, over = add_span(store, 1, 3), add_span(store, 3, 5)
    reader = Reader(store, 1)
    # It writes too late to hold back the boundary, but in time to be seen before anything goes.
    during(store, {place_of("create", keys.RETENTION): [reader.pin.keep]})
    assert {info.key for info in store.list(keys.SPANS)} == {keys.span_key(1, 3), keys.span_key(3, 5)}
    assert {inside, over} <= contents(store).keys()


# Several maintainers


@pytest.mark.parametrize(
    ("mine", "other"),
    [
        (POLICY, POLICY),
        (POLICY, keep_last(4)),
        (keep_last(4), POLICY),
        (RetentionPolicy(keep_last=1, keep_every=2), POLICY),
        (POLICY, RetentionPolicy(keep_last=1, keep_every=2)),
    ],
)
def test_two_maintainers(mine: RetentionPolicy, other: RetentionPolicy) -> None:
    """At every call of one, the whole pass of another."""
    index = 0
    while True:
        memory = line(PLAN)
        add_span(memory, 0, 3)
        store = FaultyStore(memory)

        def pass_of_another(call: Call, at: int = index, memory: MemoryStore = memory) -> None:
            if call.index == at:
                collect(memory, other)

        store.before = pass_of_another
        collect(store, mine)
        retention = retention_of(memory)
        check_reachable(memory, PLAN, [number for number in numbers(memory) if number in retention])
        collect(memory, keep_last(1))
        assert numbers(memory) == [4, 5, 6]
        check_nothing_else(memory, lambda number: number >= 4)
        assert verify_stream(memory, deep=True).sound
        index += 1
        if index > len(store.log):
            return


def test_maintainers_that_never_agree() -> None:
    memory = line(PLAN)
    store = FaultyStore(memory)

    def other(call: Call) -> None:
        if call.key == keys.RETENTION and call.verb in {"create", "put"}:
            where = Boundary(memory, stream_of(memory), limits=DEFAULT_LIMITS)
            assert where.move(where.read(), Choice(0, ()))

    store.before = other
    with pytest.raises(ConflictError):
        collect(store, POLICY)
    assert numbers(memory) == list(range(PLAN.count))


# Producers


def test_a_producer_that_publishes_meanwhile() -> None:
    for index in range(len(log()) + 1):
        memory = line(PLAN)

        def publish(memory: MemoryStore = memory) -> None:
            with Publisher(memory, anchors=NEVER, take_over=True, workers=1) as publisher:
                publisher.publish(PLAN.state(PLAN.count), files={"config.json": b"{}"})

        during(memory, {index: [publish]})
        if index == len(log()):
            publish()
        assert numbers(memory) == [4, 5, 6, 7]
        check_reachable(memory, PLAN, [4, 5, 6, 7])
        check_nothing_else(memory, lambda number: number >= 4)


def test_a_stalled_writer_whose_record_comes_meanwhile() -> None:
    """It creates again what was collected, at every call of a later pass."""
    for index in range(0, len(log()) + 1, 3):
        memory = line(PLAN)
        key = keys.version_key(3)
        record = memory.get(key, max_bytes=MIB).data
        parts = {d["key"]: memory.get(d["key"], max_bytes=MIB).data for d in descriptors(memory, key)}
        collect(memory, POLICY)

        def create(memory: MemoryStore = memory, late: dict[str, bytes] = parts | {key: record}) -> None:
            for name, data in late.items():
                with contextlib.suppress(Exception):
                    memory.put(name, data, mode="create")

        during(memory, {index: [create]})
        collect(memory, POLICY)
        assert numbers(memory) == [4, 5, 6]
        check_reachable(memory, PLAN, [4, 5, 6])
        check_nothing_else(memory, lambda number: number >= 4)
