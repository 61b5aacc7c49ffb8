"""Pinning beside a reader's work: what it needs stays, and nothing of it is in the reader's way."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest

from deltawire import Follower
from deltawire.consumer.pin import PinTerms
from deltawire.consumer.pinning import Pinning, pinned
from deltawire.errors import DeadlineExceededError, StoreUnavailableError, VersionNotFoundError
from deltawire.format import keys
from deltawire.limits import DEFAULT_LIMITS
from deltawire.maintaining.boundary import Boundary
from deltawire.maintaining.retaining import Choice
from deltawire.reading.pins import StoredPin
from deltawire.store.base import Store
from tests.collecting.lines import NEVER_ENDS, line, pins_of, reading, stream_of
from tests.faults.faulty_store import Call, Fault, FaultyStore


def until(condition: Callable[[], bool]) -> None:
    for _ in range(1000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it never happened")


def held(store: Store) -> list[StoredPin]:
    return [pin for pin in pins_of(store) if not pin.released]


def test_a_follower_pins_what_it_holds() -> None:
    store = line()
    with Follower(store, pin_ttl=0.3, holder="engine 7") as follower:
        assert pins_of(store) == []
        follower.poll(to=2)
        (pin,) = held(store)
        assert pin.record is not None
        assert (pin.record.holder, pin.record.last, pin.first) == ("engine 7", None, 0)
        until(lambda: held(store)[0].first == 2)
        follower.poll(to=5)
        until(lambda: held(store)[0].first == 5)
        assert follower.pin_error is None
    assert pins_of(store) == []


def test_a_follower_that_goes_on_writes_nothing_on_its_way() -> None:
    store = FaultyStore(line())
    target = {"a": np.zeros(40, np.uint16), "b": np.zeros(3, np.float32)}
    with Follower(store, target, pin_ttl=60) as follower:
        follower.poll(to=2)
        calls = len(store.log)
        follower.poll(to=4)
        assert not [call for call in store.log[calls:] if call.key.startswith(keys.PINS)], "a write in the way of bytes"


def test_the_boundary_is_looked_at_now_and_then_however_long_the_ttl(monkeypatch: pytest.MonkeyPatch) -> None:
    """LAT-5: in case pins are not heeded."""
    store = FaultyStore(line())
    with Follower(store, pin_ttl=86_400) as follower:
        follower.poll()
        later = 0.0
        now = time.monotonic
        monkeypatch.setattr("deltawire.consumer.pinning.time.monotonic", lambda: now() + later)
        calls = len(store.log)
        for _ in range(3):
            assert follower.poll() is None
        assert keys.RETENTION not in {call.key for call in store.log[calls:]}
        later = 31.0
        for _ in range(3):
            assert follower.poll() is None
        assert [call.key for call in store.log[calls:]].count(keys.RETENTION) == 1


def test_without_a_pin() -> None:
    store = FaultyStore(line())
    with Follower(store, pin=False) as follower:
        follower.poll()
        assert follower.pin_error is None
    assert not store.effects


@pytest.mark.parametrize("fault", [Fault.UNAVAILABLE, Fault.DENIED, Fault.BUG, Fault.ANSWER_LOST])
def test_a_store_that_takes_no_pins_stops_nobody(fault: Fault) -> None:
    store = FaultyStore(line())

    def fail(call: Call) -> None:
        if call.key.startswith(keys.PINS):
            call.fault = fault

    store.before = fail
    with Follower(store) as follower:
        assert follower.poll(to=5) is not None
        assert follower.poll() is not None
        assert follower.pin_error is not None
        follower.verify()


def test_a_write_that_hangs_keeps_nobody_longer_than_a_ttl() -> None:
    store = FaultyStore(line())

    def hang(call: Call) -> None:
        if call.key.startswith(keys.PINS):
            call.fault = Fault.HANG

    store.before = hang
    follower = Follower(store, pin_ttl=0.05)
    try:
        assert follower.poll() is not None
        assert isinstance(follower.pin_error, DeadlineExceededError)
    finally:
        store.release()
        follower.close()


def test_time_that_runs_out_is_the_callers() -> None:
    store = FaultyStore(line())
    store.before = lambda call: setattr(call, "fault", Fault.HANG if call.key.startswith(keys.PINS) else None)
    with Follower(store) as follower:
        try:
            with pytest.raises(DeadlineExceededError):
                follower.poll(timeout=0.3)
        finally:
            store.release()


def test_a_follower_that_was_forgotten_looks_like_one_that_is_gone() -> None:
    store = line()
    follower = Follower(store, pin_ttl=0.1)
    follower.poll()
    until(lambda: any(thread.name == "deltawire-pin" for thread in threading.enumerate()))
    del follower
    gc.collect()
    until(lambda: not any(thread.name == "deltawire-pin" for thread in threading.enumerate()))


def test_a_pin_for_a_while() -> None:
    store = line()
    with reading(store) as reader:
        with pinned(reader, 3, 5, deadline=NEVER_ENDS) as pinning:
            assert pinning.pin is not None
            assert pinning.pin.confirmed
            (pin,) = held(store)
            assert (pin.first, pin.last) == (3, 5)
        assert held(store) == []
        where = Boundary(store, stream_of(store), limits=DEFAULT_LIMITS)
        assert where.move(None, Choice(6, ()))
        with pytest.raises(VersionNotFoundError), pinned(reader, 3, 5, deadline=NEVER_ENDS):
            pass
        assert held(store) == []


def test_closing_twice_and_before_anything() -> None:
    with reading(line()) as reader:
        pinning = Pinning(reader, PinTerms(holder="x"))
        pinning.hold(3)
        pinning.close()
        pinning.need(1, deadline=NEVER_ENDS)
        pinning.close()
        pinning.close()


def test_what_need_raises_is_the_streams() -> None:
    with reading(FaultyStore(line(), {0: Fault.UNAVAILABLE})) as reader, pytest.raises(StoreUnavailableError):
        Pinning(reader, PinTerms(holder="x")).need(1, deadline=NEVER_ENDS)
