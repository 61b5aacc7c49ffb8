"""Following while the stream, and the hints do what they should not."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltawire.consumer import follower as follower_module
from deltawire.consumer.follower import Follower
from deltawire.errors import (
    BrokenChainError,
    DeadlineExceededError,
    DeltawireError,
    InvalidArgumentError,
    MissingObjectError,
    PathLostError,
    StreamNotFoundError,
    VersionNotFoundError,
)
from deltawire.format import keys
from deltawire.limits import MIB
from deltawire.producer.anchors import NEVER, AnchorPolicy
from deltawire.store.base import Store
from deltawire.store.memory import MemoryStore
from tests.faults.conftest import forget, new_memory
from tests.faults.faulty_store import APPLICABLE, Call, Fault, FaultyStore
from tests.faults.line import (
    Trainer,
    Version,
    assert_same,
    bits_of,
    first_state,
    open_publisher,
    publish,
    script,
    stepped,
)
from tests.retaining import retain

VERSIONS = script()
LAST = len(VERSIONS) - 1


def long_line(store: Store, length: int, *, anchors: AnchorPolicy = NEVER) -> list[Version]:
    versions = [Version(first_state(), {})]
    versions += [Version(stepped(versions[0].state, n), {}) for n in range(1, length)]
    with open_publisher(store, anchors=anchors) as publisher:
        for version in versions:
            publish(publisher, version)
    return versions


def test_polls_and_late_joiners(written: MemoryStore) -> None:
    with Follower(written) as follower:
        update = follower.poll()
        assert update is not None
        assert update.steps == ("snapshot", "delta")  # the rebase at 5 spares the rest
        assert (update.version, update.previous) == (LAST, None)
        assert_same(follower.arrays, VERSIONS[LAST].state)
        assert follower.poll() is None
        with pytest.raises(InvalidArgumentError):
            follower.poll(to=LAST - 1)
        with pytest.raises(VersionNotFoundError):
            follower.poll(to=LAST + 1)
        assert follower.verify() == update.state_digest
    with Follower(written) as follower:
        update = follower.poll(to=4)
        assert update is not None
        assert update.steps == ("anchor", "delta")
        assert_same(follower.arrays, VERSIONS[4].state)


def test_looks_are_close_soon_after_an_update_and_never_further_apart_than_the_interval(
    written: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    pauses: list[float] = []

    class Clock:
        monotonic = staticmethod(lambda: clock[0])
        perf_counter = staticmethod(time.perf_counter)

        @staticmethod
        def sleep(seconds: float) -> None:
            pauses.append(seconds)
            clock[0] += seconds
            if clock[0] > 60:
                raise InterruptedError

    with Follower(written) as follower:
        follower.poll()
        monkeypatch.setattr(follower_module, "time", Clock)
        with pytest.raises(InterruptedError):
            next(follower.follow(interval=0.8))
    assert pauses[0] == pytest.approx(0.1)
    assert pauses == sorted(pauses)
    assert pauses[-1] == 0.8
    assert 60 / 0.8 < len(pauses) < 2 * 60 / 0.8


def test_what_is_closed_says_so(written: MemoryStore) -> None:
    follower, publisher = Follower(written), open_publisher(written)
    follower.poll()
    for closed in (follower, publisher, follower, publisher):
        closed.close()
    with pytest.raises(InvalidArgumentError, match="closed"):
        follower.poll()
    with pytest.raises(InvalidArgumentError, match="closed"):
        next(follower.follow())
    with pytest.raises(InvalidArgumentError, match="closed"):
        publish(publisher, VERSIONS[0])
    assert_same(follower.arrays, VERSIONS[LAST].state)


def test_each_version_in_turn(written: MemoryStore) -> None:
    with Follower(written) as follower:
        follower.poll(to=0)
        updates = follower.follow(until=LAST, every_version=True, timeout=10)
        for expected, update in zip(count(1), updates, strict=False):
            assert update.version == expected
            assert_same(follower.arrays, VERSIONS[expected].state)
            assert follower.verify() == update.state_digest
        assert follower.version == LAST


def test_follows_a_publisher_at_work(memory: MemoryStore) -> None:
    done = threading.Event()

    def work() -> None:
        Trainer(memory, VERSIONS).run()
        done.set()

    publishing = threading.Thread(target=work)
    with Follower(memory) as follower:
        publishing.start()
        while not done.is_set():  # the stream, and then its first version, appear meanwhile
            with suppress(StreamNotFoundError):
                for update in follower.follow(until=LAST, interval=0.001, timeout=10):
                    assert_same(follower.arrays, VERSIONS[update.version].state)
    publishing.join()


def test_a_stream_that_appears_later(memory: MemoryStore) -> None:
    with Follower(memory) as follower:
        with pytest.raises(StreamNotFoundError):
            follower.poll()
        open_publisher(memory).close()
        with pytest.raises(VersionNotFoundError):
            follower.poll()
        with pytest.raises(DeadlineExceededError):
            next(follower.follow(interval=0.01, timeout=0.1))
        Trainer(memory, VERSIONS).run()
        assert next(follower.follow(timeout=10)).version == LAST


@pytest.mark.parametrize("verb", ["get", "head", "list", "get_range"])
def test_no_call_can_hold_a_poll_beyond_its_deadline(written: MemoryStore, verb: str) -> None:
    if verb == "list":
        written.delete(keys.HEAD)
    store = FaultyStore(written, before=lambda call: setattr(call, "fault", Fault.HANG if call.verb == verb else None))
    follower = Follower(store)
    started = time.monotonic()
    with pytest.raises(DeadlineExceededError):
        follower.poll(timeout=0.1)
    store.before = lambda call: None
    assert follower.version is None
    follower.poll(timeout=30)
    assert_same(follower.arrays, VERSIONS[LAST].state)
    follower.close()  # does not wait for the calls that still hang
    assert time.monotonic() - started < 10
    store.release()


def test_even_if_every_thread_hangs_the_next_poll_ends_in_time(written: MemoryStore) -> None:
    store = FaultyStore(written, before=lambda call: setattr(call, "fault", Fault.HANG))
    follower = Follower(store, workers=2)
    for _ in range(4):
        started = time.monotonic()
        with pytest.raises(DeadlineExceededError):
            follower.poll(timeout=0.1)
        assert time.monotonic() - started < 2
    store.before = lambda call: None
    store.release()
    follower.poll(timeout=30)
    assert follower.version == LAST
    follower.close()


def reading_log(written: MemoryStore) -> list[Call]:
    store = FaultyStore(written)
    with Follower(store, workers=1) as follower:
        follower.poll(to=4)
        follower.poll()
    return store.log


@pytest.mark.parametrize("fault", sorted(APPLICABLE["list"]))
def test_one_fault_at_each_read(written: MemoryStore, fault: Fault) -> None:
    for planned in reading_log(written):
        with Follower(FaultyStore(written, {planned.index: fault}), workers=1) as follower:
            for goal in (4, LAST):
                before, state = follower.version, {name: bits_of(array) for name, array in follower.arrays.items()}
                try:
                    follower.poll(to=goal)
                except DeltawireError:
                    if follower.version == before:
                        assert state == {name: bits_of(array) for name, array in follower.arrays.items()}
                    follower.poll(to=goal)
                assert_same(follower.arrays, VERSIONS[goal].state)
                follower.verify()


def head(store: MemoryStore, **members: Any) -> bytes:
    record = msgspec.json.decode(store.get(keys.HEAD, max_bytes=MIB).data)
    return msgspec.json.encode(record | members)


def hints(store: MemoryStore) -> Iterator[bytes | None]:
    yield None
    yield from (b"", b"\xff\xfe", b"null", b"[" * 100_000, b'{"protocol": 1}')
    yield from (head(store, version=number) for number in (0, 3, LAST, LAST + 1, 10**15))
    yield head(store, stream_id="00000000-0000-4000-8000-000000000000", version=2)
    yield from (head(store, **{name: value}) for name, value in [("kind", "anchor"), ("version", -1), ("version", "7")])
    yield head(store, reader_features=["from-the-future"], writer_features=["from-the-future"])
    yield head(store, anchor=10**9)
    yield head(store, protocol_version="9.0")


def test_whatever_the_hint_says_the_newest_version_is_found(written: MemoryStore) -> None:
    for hint in list(hints(written)):
        if hint is None:
            written.delete(keys.HEAD)
        else:
            written.put(keys.HEAD, hint, mode="overwrite")
        with Follower(written) as follower:
            update = follower.poll()
            assert update is not None
            assert update.version == LAST, hint
            assert_same(follower.arrays, VERSIONS[LAST].state)


def test_a_hint_of_long_ago_does_not_cost_a_look_at_each_version(memory: MemoryStore) -> None:
    versions = long_line(memory, 60)
    memory.put(keys.HEAD, head(memory, version=0), mode="overwrite")
    store = FaultyStore(memory)
    with Follower(store) as follower:
        follower.poll()
        assert follower.version == len(versions) - 1
    assert sum(call.verb == "head" for call in store.log) < 20


@pytest.mark.parametrize("parts_only", [True, False])
@pytest.mark.parametrize("every_version", [True, False])
@pytest.mark.parametrize("behind", [1, 7])
def test_the_way_was_collected_and_an_anchor_leads_on(
    memory: MemoryStore, *, parts_only: bool, every_version: bool, behind: int
) -> None:
    versions = long_line(memory, 10, anchors=AnchorPolicy(every=8, outweigh=None))
    with Follower(memory, pin_ttl=1) as follower:
        follower.poll(to=8 - behind)
        # Maintenance takes what nobody needs who begins at the anchor, parts before records.
        retain(memory, 8)
        forget(memory, *range(9 if parts_only else 8), parts_only=parts_only)
        versions_seen = [
            update.version
            for update in follower.follow(until=9, every_version=every_version, interval=0.01, timeout=10)
        ]
        assert versions_seen[-1] == 9
        assert_same(follower.arrays, versions[9].state)
        follower.verify()


@pytest.mark.parametrize("pin", [True, False])
def test_a_confirmed_pin_spares_looks_at_the_boundary(memory: MemoryStore, *, pin: bool) -> None:
    """LAT-5: with it, a look now and then; without, one for each look for the next version."""
    long_line(memory, 3, anchors=NEVER)
    store = FaultyStore(memory)
    with Follower(store, pin=pin, pin_ttl=12) as follower:
        follower.poll()
        time.sleep(1.01)
        store.log.clear()
        for _ in range(20):
            assert follower.poll() is None
        asked = [call.key for call in store.log]
        assert asked.count(keys.version_key(3)) == 20
        assert asked.count(keys.RETENTION) == (1 if pin else 20)


@pytest.mark.parametrize("hint", [True, False])
def test_a_follower_whose_version_is_gone_does_not_take_it_for_the_newest(memory: MemoryStore, *, hint: bool) -> None:
    long_line(memory, 9, anchors=AnchorPolicy(every=8, outweigh=None))
    with Follower(memory, pin=False) as follower:
        follower.poll(to=2)
        retain(memory, 8)
        forget(memory, *range(6))
        if not hint:
            memory.delete(keys.HEAD)
        update = follower.poll()
        assert update is not None
        assert update.version == 8


@pytest.mark.parametrize("parts_only", [True, False])
def test_the_way_was_collected_and_nothing_leads_on(memory: MemoryStore, *, parts_only: bool) -> None:
    versions = long_line(memory, 6)
    with Follower(memory) as follower:
        follower.poll(to=2)
        forget(memory, 4, parts_only=parts_only)
        with pytest.raises(MissingObjectError if parts_only else PathLostError):
            follower.poll(to=5)
        assert follower.version is not None
        assert follower.version >= 2
        assert_same(follower.arrays, versions[follower.version].state)
    with Follower(memory) as follower, pytest.raises((MissingObjectError, PathLostError)):
        follower.poll(to=5)


def test_an_older_anchor_never_takes_a_follower_back(memory: MemoryStore) -> None:
    """What leads on is gone, and the only way there is over an anchor from before."""
    versions = long_line(memory, 8, anchors=AnchorPolicy(every=3, outweigh=None))
    for info in [*memory.list(keys.ANCHORS)]:
        if keys.parse_numbered(info.key) != 3:
            memory.delete(info.key)
    lost = memory.get(keys.version_key(6), max_bytes=MIB).data
    missing = True

    class Flickering(FaultyStore):
        def get(self, key: str, *, max_bytes: int) -> Any:
            nonlocal missing
            if key == keys.version_key(6) and missing:
                missing = False  # there again at the second look
                self.inner.delete(key)
                try:
                    return super().get(key, max_bytes=max_bytes)
                finally:
                    self.inner.put(key, lost, mode="create")
            return super().get(key, max_bytes=max_bytes)

    held: list[int | None] = []
    with Follower(Flickering(memory, before=lambda call: held.append(follower.version)), workers=1) as follower:
        missing = False
        follower.poll(to=5)
        missing = True
        with pytest.raises(PathLostError):
            follower.poll(to=7)
        assert min(number for number in held[-5:] if number is not None) == 5
        follower.poll(to=7)
        assert_same(follower.arrays, versions[7].state)


def test_a_line_that_was_rolled_back_and_goes_on_elsewhere_is_noticed(memory: MemoryStore) -> None:
    with open_publisher(memory, anchors=NEVER) as publisher:
        for version in VERSIONS[:3]:
            publish(publisher, version)
    with Follower(memory) as follower:
        follower.poll()
        for number in (1, 2):
            memory.delete(keys.version_key(number))
        assert follower.poll() is None  # version 2 is held, and nothing newer is there
        assert follower.version == 2
        with open_publisher(memory, anchors=NEVER) as publisher:
            for seed in (20, 21, 22):
                publish(publisher, Version(stepped(VERSIONS[0].state, seed), {}))
        before = {name: bits_of(array) for name, array in follower.arrays.items()}
        with pytest.raises(BrokenChainError):
            follower.poll()
        assert follower.version == 2
        assert before == {name: bits_of(array) for name, array in follower.arrays.items()}


@given(st.dictionaries(st.integers(0, 60), st.sampled_from(sorted(APPLICABLE["list"])), max_size=6), st.booleans())
@settings(max_examples=40)
def test_any_combination_of_read_faults(faults: dict[int, Fault], every_version: bool) -> None:
    memory = shared_line()
    with Follower(FaultyStore(memory, faults), workers=1) as follower:
        for _ in range(20):
            with suppress(DeltawireError):
                for update in follower.follow(until=LAST, every_version=every_version, interval=0.0, timeout=5):
                    assert_same(follower.arrays, VERSIONS[update.version].state)
            if follower.version is not None:
                assert_same(follower.arrays, VERSIONS[follower.version].state)
            if follower.version == LAST:
                break
        assert follower.version == LAST


_SHARED: list[MemoryStore] = []


def shared_line() -> MemoryStore:
    """One stream that is only read."""
    if not _SHARED:
        _SHARED.append(new_memory())
        Trainer(_SHARED[0], VERSIONS).run()
    return _SHARED[0]
