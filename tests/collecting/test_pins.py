"""One reader's pin: written, confirmed, renewed, void after a late answer, released; and never in the reader's way."""

from __future__ import annotations

import uuid

import pytest

from deltawire import Follower
from deltawire.consumer.pin import PinTerms, ReaderPin
from deltawire.errors import (
    DeadlineExceededError,
    InvalidArgumentError,
    LimitExceededError,
    StoreDeniedError,
)
from deltawire.format import keys
from deltawire.format.records import PinRecord
from deltawire.limits import DEFAULT_LIMITS, Limits
from deltawire.maintaining.boundary import Boundary
from deltawire.maintaining.retaining import Choice
from deltawire.reading.pins import read_pins
from deltawire.reading.retention import Retention
from deltawire.reading.stream import StreamReader
from deltawire.reading.transfer import Transfer
from deltawire.store.base import Store
from tests.collecting.lines import NEVER_ENDS, line, new_store, pins_of, retention_of, rewrite, stream_of
from tests.faults.faulty_store import Fault, FaultyStore

TTL = 6.0


class Late(FaultyStore):
    """A store whose answers to writes come late, by a clock that only this moves."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.now = 0.0
        self.delays: list[float] = []

    def put(self, key: str, data: bytes, *, mode: object) -> str:  # type: ignore[override]
        token = super().put(key, data, mode=mode)  # type: ignore[arg-type]
        self.now += self.delays.pop(0) if self.delays else 0.0
        return token


@pytest.fixture
def store() -> Late:
    return Late(line())


def new_pin(store: Late, *, first: int = 2, last: int | None = None) -> ReaderPin:
    found = ReaderPin(store, stream_of(store.inner), PinTerms(ttl=TTL, holder="engine 1"), clock=lambda: store.now)
    found.want(first, last)
    return found


def records_of(store: Store) -> list[PinRecord]:
    return [pin.record for pin in pins_of(store) if pin.record is not None]


def move(store: Store, boundary: int, *kept: int) -> None:
    where = Boundary(store, stream_of(store), limits=DEFAULT_LIMITS)
    assert where.move(where.read(), Choice(boundary, kept))


def test_a_pin_says_what_is_needed(store: Late) -> None:
    pin = new_pin(store)
    assert not pin.covers
    assert pins_of(store.inner) == []
    pin.keep()
    (record,) = records_of(store.inner)
    assert (record.first, record.last, record.ttl_ms, record.released) == (2, None, 6000, False)
    assert (record.holder, record.epoch) == ("engine 1", 0)
    assert (pin.covers, pin.confirmed) == (True, False)
    writes = len(store.effects)
    pin.keep()
    assert len(store.effects) == writes, "nothing new was needed"


def test_a_pin_is_confirmed_by_what_is_retained(store: Late) -> None:
    pin = new_pin(store)
    pin.keep()
    assert pin.confirm(lambda: retention_of(store.inner)).boundary == 0
    assert pin.confirmed


@pytest.mark.parametrize(
    ("boundary", "kept", "holding", "confirmed"),
    [
        (2, (), None, True),
        (3, (), None, False),
        (3, (2,), None, True),
        (3, (), 2, True),  # what comes after it is retained
        (3, (), 1, False),
        (4, (), 2, False),
    ],
)
def test_what_confirms_a_pin(
    store: Late, boundary: int, kept: tuple[int, ...], holding: int | None, confirmed: bool
) -> None:
    pin = new_pin(store)
    pin.keep()
    move(store.inner, boundary, *kept)
    pin.confirm(lambda: retention_of(store.inner), holding=holding)
    assert pin.confirmed is confirmed


def test_a_pin_that_is_written_while_the_boundary_is_read_is_not_confirmed(store: Late) -> None:
    """PIN-4: whoever moves the boundary may have looked at the pins before, and move it after."""
    pin = new_pin(store)

    def read() -> Retention:
        retention = retention_of(store.inner)
        pin.renew()  # by its heartbeat, as the first write has failed
        return retention

    pin.confirm(read)
    assert (pin.covers, pin.confirmed) == (True, False)
    pin.confirm(lambda: retention_of(store.inner))
    assert pin.confirmed


def test_a_pin_that_is_not_written_is_not_confirmed(store: Late) -> None:
    pin = new_pin(store)
    pin.confirm(Retention)
    assert not pin.confirmed


def test_first_rises_with_what_is_held_and_is_written_when_renewed(store: Late) -> None:
    pin = new_pin(store)
    pin.keep()
    pin.hold(5)
    pin.hold(4)
    assert records_of(store.inner)[0].first == 2
    pin.renew()
    (record,) = records_of(store.inner)
    assert record.first == 5


def test_last_is_not_passed_by_first(store: Late) -> None:
    pin = new_pin(store, last=4)
    pin.keep()
    pin.hold(6)
    pin.renew()
    (record,) = records_of(store.inner)
    assert (record.first, record.last) == (4, 4)


def test_every_write_has_a_commit_id_of_its_own(store: Late) -> None:
    pin = new_pin(store)
    found = set()
    for _ in range(3):
        pin.renew()
        (record,) = records_of(store.inner)
        found.add((record.commit_id, record.acquired_at))
    assert len({commit for commit, _ in found}) == 3
    assert len({acquired for _, acquired in found}) == 1


@pytest.mark.parametrize(("delay", "void"), [(TTL - 2.1, False), (TTL - 2.0, True), (100.0, True)])
def test_a_late_answer_voids_the_id(store: Late, delay: float, void: bool) -> None:
    """PIN-6: from the sending of the write before to the answer."""
    pin = new_pin(store)
    pin.keep()
    pin.confirm(lambda: retention_of(store.inner))
    before = pin.id
    store.now += 2.0
    store.delays = [delay]
    pin.renew()
    assert (pin.id != before) is void
    assert pin.confirmed is not void
    assert pin.covers
    assert pin.lapses == int(void)
    if void:
        assert {found.id for found in pins_of(store.inner)} == {before, pin.id}
        writes = [call.key for call in store.effects]
        pin.renew()
        pin.release()
        later = [call.key for call in store.effects][len(writes) :]
        assert keys.pin_key(before) not in later, "a void id was written again"


def test_a_first_answer_that_is_late_counts_too(store: Late) -> None:
    pin = new_pin(store)
    before = pin.id
    store.delays = [TTL]
    pin.keep()
    assert pin.id != before
    assert pin.covers


def test_a_store_that_is_always_late_protects_nothing_and_stops_nobody(store: Late) -> None:
    pin = new_pin(store)
    store.delays = [TTL, TTL]
    pin.keep()
    assert (pin.covers, type(pin.error)) == (False, DeadlineExceededError)
    pin.renew()
    assert (pin.covers, pin.error) == (True, None)


def test_a_stall_is_noticed_before_the_pin_is_relied_on(store: Late) -> None:
    pin = new_pin(store)
    pin.keep()
    pin.confirm(lambda: retention_of(store.inner))
    before = pin.id
    store.now += TTL
    assert not pin.confirmed
    assert not pin.covers
    pin.keep()
    assert pin.id != before
    assert not pin.confirmed


def test_a_void_between_writing_and_looking_is_noticed(store: Late) -> None:
    pin = new_pin(store)
    pin.keep()

    def read() -> Retention:
        store.now += TTL
        pin.renew()  # as the heartbeat does
        return Retention()

    pin.confirm(read)
    assert not pin.confirmed


@pytest.mark.parametrize("fault", [Fault.UNAVAILABLE, Fault.ANSWER_LOST, Fault.BUG])
def test_failures_are_kept_and_tried_again(store: Late, fault: Fault) -> None:
    pin = new_pin(store)
    store.faults = {0: fault}
    pin.keep()
    assert (pin.covers, pin.error is None) == (False, False)
    pin.renew()
    assert (pin.covers, pin.error) == (True, None)
    assert len(pins_of(store.inner)) == 1


def test_a_refusal_is_for_good(store: Late) -> None:
    pin = new_pin(store)
    store.faults = {0: Fault.DENIED}
    pin.keep()
    assert isinstance(pin.error, StoreDeniedError)
    assert not pin.held
    calls = len(store.log)
    pin.renew()
    pin.release()
    assert len(store.log) == calls


def test_releasing(store: Late) -> None:
    pin = new_pin(store)
    pin.keep()
    pin.release()
    assert records_of(store.inner) == []
    pin.renew()
    assert records_of(store.inner) == [], "it was written after it was released"


def test_releasing_where_nothing_may_be_deleted(store: Late) -> None:
    pin = new_pin(store)
    pin.keep()
    store.faults = {len(store.log): Fault.DENIED}
    pin.release()
    assert records_of(store.inner)[0].released
    assert pin.error is None


def test_a_pin_that_was_never_written_is_not_released(store: Late) -> None:
    new_pin(store).release()
    assert pins_of(store.inner) == []


def test_a_confirmed_pin_does_not_reach_further_back(store: Late) -> None:
    pin = new_pin(store)
    pin.keep()
    pin.confirm(lambda: retention_of(store.inner))
    before = pin.id
    pin.want(0)
    pin.keep()
    assert pin.id != before  # PIN-5
    assert sorted(record.first for record in records_of(store.inner)) == [0, 2]


@pytest.mark.parametrize("terms", [{"ttl": 0.0}, {"ttl": 1e6}, {"holder": ""}, {"holder": "x" * 201}])
def test_terms_that_no_record_can_hold(terms: dict[str, object]) -> None:
    with pytest.raises(InvalidArgumentError):
        PinTerms(**{"holder": "x", **terms})  # type: ignore[arg-type]


def test_a_follower_refuses_a_ttl_that_no_record_can_hold() -> None:
    with pytest.raises(InvalidArgumentError):
        Follower(new_store(), pin_ttl=0)


# Reading pins


def test_what_is_no_pin_is_told_apart() -> None:
    store = line()
    good = ReaderPin(store, stream_of(store), PinTerms(holder="x"))
    good.want(3, 5)
    good.keep()
    bad, other, large = (str(uuid.uuid4()) for _ in range(3))
    store.put(keys.pin_key(bad), b"{}", mode="overwrite")
    store.put(keys.pin_key(large), bytes(100_000), mode="overwrite")
    store.put(keys.pin_key(other), store.get(keys.pin_key(good.id), max_bytes=10000).data, mode="overwrite")
    rewrite(store, keys.pin_key(other), stream_id=str(uuid.uuid4()))
    for name in ("notes.txt", "ABC.json", f"{good.id.upper()}.json", f"{good.id}/x.json"):
        store.put(keys.PINS + name, b"?", mode="overwrite")
    transfer = Transfer(store, limits=Limits(record_bytes=50_000))
    try:
        found = {pin.id: pin for pin in read_pins(StreamReader(transfer), NEVER_ENDS)}
    finally:
        transfer.close()
    assert set(found) == {good.id, bad, other, large}
    assert {pin_id: pin.error.code for pin_id, pin in found.items() if pin.error} == {
        bad: "malformed_record",
        other: "wrong_stream",
        large: "limit_exceeded",
    }
    assert [number for number in range(8) if number in found[good.id]] == [3, 4, 5]
    for pin_id in (bad, other, large):  # PIN-9
        assert all(number in found[pin_id] for number in (0, 5, 1 << 50))
        assert found[pin_id].ttl == 86400
        assert not found[pin_id].released


def test_the_number_of_pins_is_bounded() -> None:
    store = line()
    for _ in range(3):
        store.put(keys.pin_key(str(uuid.uuid4())), b"{}", mode="overwrite")
    transfer = Transfer(store, limits=Limits(pins=2))
    try:
        with pytest.raises(LimitExceededError):
            read_pins(StreamReader(transfer), NEVER_ENDS)
    finally:
        transfer.close()
