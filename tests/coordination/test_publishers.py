"""Two publishers on one stream: by mistake, one after the other, and one that stalls."""

from __future__ import annotations

import gc
import json
import time
import uuid
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from deltawire import AnchorPolicy, Follower, Publisher
from deltawire.errors import (
    ConflictError,
    DeltawireError,
    FencedError,
    InvalidArgumentError,
    LeaseHeldError,
    LimitExceededError,
    MalformedRecordError,
    OutcomeUnknownError,
    StoreUnavailableError,
    StreamNotFoundError,
    UnsupportedFeatureError,
    WrongStreamError,
)
from deltawire.format import keys
from deltawire.limits import MIB
from deltawire.store.base import Guarantees, Store
from deltawire.store.memory import MemoryStore
from deltawire.store.opening import open_store
from tests.faults.faulty_store import Call, Fault, FaultyStore
from tests.faults.line import Reading
from tests.retaining import collect
from tests.store.servers import S3Server


@pytest.fixture
def memory() -> MemoryStore:
    return MemoryStore(f"coordination/{uuid.uuid4().hex}")


def state(number: int) -> dict[str, Any]:
    return {"w": np.arange(50, dtype=np.int32) + number}


def lease_of(store: Store) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(store.get(keys.LEASE, max_bytes=MIB).data)
    return value


def epochs_of(store: Store) -> list[int]:
    """Epochs of the line, which is whole."""
    with Reading(store) as reading:
        reading.check()
        return [version.record.epoch for version in reading.versions]


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def assert_fenced_for_good(publisher: Publisher) -> None:
    for _ in range(2):
        with pytest.raises(FencedError):
            publisher.publish(state(99))


@pytest.mark.integration
def test_two_trainers_started_by_mistake_on_s3(moto_server: S3Server) -> None:
    store = open_store(moto_server.url(f"lease-{uuid.uuid4().hex}"))
    try:
        with Publisher(store, holder="trainer one", lease_ttl=2) as one:
            one.publish(state(0))
            with pytest.raises(LeaseHeldError, match=r"'trainer one' is alive.*in epoch 0 since 20"):
                Publisher(store, holder="trainer two")
            assert one.publish(state(1)).version == 1
            with Publisher(store, holder="trainer two", take_over=True, lease_ttl=2) as two:
                until(lambda: one._line.heartbeat is not None and not one._line.heartbeat.lease.held)
                with pytest.raises(FencedError, match="'trainer two' took over in epoch 1"):
                    one.publish(state(2))
                assert_fenced_for_good(one)
                assert two.publish(state(2)).version == 2
                one.close()
                assert not lease_of(store)["released"], "the fenced publisher released what is another's"
        assert lease_of(store)["released"]
        with Publisher(store) as three:
            assert (three.epoch, three.version) == (2, 2)
        assert epochs_of(store) == [0, 0, 1]
    finally:
        store.close()


def at_version(number: int, act: Callable[[], object]) -> Callable[[Call], None]:
    """Do something once, while the record of a version is on its way to the store."""
    left = [act]

    def before(call: Call) -> None:
        if call.verb == "create" and call.key == keys.version_key(number) and left:
            left.pop()()

    return before


def test_a_stalled_commit_behind_a_later_one_is_fenced(memory: MemoryStore) -> None:
    """LSE-9, CMT-8"""
    others: list[Publisher] = []

    def take_over() -> None:
        others.append(Publisher(memory, take_over=True))
        others[0].publish(state(10))

    with Publisher(FaultyStore(memory, before=at_version(1, take_over))) as stalled:
        stalled.publish(state(0))
        with pytest.raises(FencedError):
            stalled.publish(state(1))
        assert_fenced_for_good(stalled)
        assert others[0].publish(state(11)).version == 2
    others[0].close()
    assert epochs_of(memory) == [0, 1, 1]


def go_on_and_collect(memory: MemoryStore) -> None:
    """Another publisher takes over, and what came before its newest version is collected."""
    with Publisher(memory, take_over=True, anchors=AnchorPolicy(every=1, outweigh=None)) as other:
        for number in range(4):
            other.publish(state(10 + number))
            assert other.wait_for_anchor()
        assert other.version is not None
        collect(memory, other.version)


def test_a_commit_that_stalled_until_its_place_was_collected_is_fenced(memory: MemoryStore) -> None:
    """CMT-11: the create succeeds, as nothing is there any more."""
    store = FaultyStore(memory, before=at_version(1, lambda: go_on_and_collect(memory)))
    with Publisher(store) as stalled:
        stalled.publish(state(0))
        with pytest.raises(FencedError, match="the line is beyond version 1, which has been collected"):
            stalled.publish(state(1))
        assert store.effects[-1].took_effect
        assert keys.version_key(1) in [info.key for info in memory.list(keys.VERSIONS)]
        assert_fenced_for_good(stalled)
        assert stalled.version == 0
    with Follower(memory) as follower:
        update = follower.poll()
        assert update is not None
        assert update.version == 4
    with Publisher(memory) as later:
        assert later.publish(state(20)).version == 5


def test_a_lost_answer_is_not_taken_for_a_lost_race_once_the_version_was_collected(memory: MemoryStore) -> None:
    """CMT-11: the version was in the line, was collected, and a late writer's is there when it is read back."""
    passed: list[Call] = []

    def before(call: Call) -> None:
        if call.key == keys.version_key(1):
            if call.verb == "create":
                call.fault = Fault.ANSWER_LOST
            elif not passed:
                passed.append(call)
                go_on_and_collect(memory)
                memory.put(call.key, b"{}", mode="create")

    store = FaultyStore(memory, before=before)
    with Publisher(store) as publisher:
        publisher.publish(state(0))
        with pytest.raises(FencedError, match="whose it was cannot be told"):
            publisher.publish(state(1))
        assert_fenced_for_good(publisher)
    with Follower(memory) as follower:
        update = follower.poll()
        assert update is not None
        assert update.version == 5


@pytest.mark.parametrize("how", ["unreadable", "unavailable", "denied"])
def test_whether_a_commit_came_too_late_must_be_known(memory: MemoryStore, how: str) -> None:
    """CMT-11"""
    store = FaultyStore(memory)
    with Publisher(store) as publisher:
        publisher.publish(state(0))
        if how == "unreadable":
            memory.put(keys.RETENTION, b"{}", mode="overwrite")
        else:
            store.before = lambda call: setattr(call, "fault", Fault(how) if call.key == keys.RETENTION else None)
        with pytest.raises(OutcomeUnknownError, match="may have been collected"):
            publisher.publish(state(1), timeout=2)
        with pytest.raises(OutcomeUnknownError):
            publisher.publish(state(2))


def test_an_answer_about_the_boundary_that_is_lost_once_is_asked_for_again(memory: MemoryStore) -> None:
    """CMT-11"""
    failed: list[Call] = []

    def before(call: Call) -> None:
        if call.key == keys.RETENTION and not failed:
            call.fault = Fault.UNAVAILABLE
            failed.append(call)

    store = FaultyStore(memory)
    with Publisher(store) as publisher:
        store.before = before
        assert publisher.publish(state(0)).version == 0
    assert failed


def test_a_stalled_commit_into_a_free_slot_counts_and_is_the_last(memory: MemoryStore) -> None:
    """LSE-12: the later holder has read the line, but committed nothing."""
    others: list[Publisher] = []
    store = FaultyStore(memory, before=at_version(1, lambda: others.append(Publisher(memory, take_over=True))))
    with Publisher(store, lease_ttl=0.3) as stalled:
        stalled.publish(state(0))
        assert stalled.publish(state(1)).version == 1
        with pytest.raises(ConflictError, match="earlier epoch 0") as raised:
            others[0].publish(state(10))
        assert "open the stream again" in raised.value.hint
        assert lease_of(memory)["released"], "whoever comes next would wait in vain"
        with Publisher(memory) as next_one:
            assert (next_one.version, next_one.epoch) == (1, 2)
            assert next_one.publish(state(11)).version == 2
            until(lambda: stalled._line.heartbeat is not None and not stalled._line.heartbeat.lease.held)
            assert_fenced_for_good(stalled)
            assert next_one.publish(state(12)).version == 3
    others[0].close()
    assert epochs_of(memory) == [0, 0, 2, 2]


def test_whoever_slept_past_the_ttl_asks_before_it_commits(memory: MemoryStore) -> None:
    """LSE-10"""
    store = FaultyStore(memory)
    with Publisher(store, lease_ttl=0.1) as publisher:
        publisher.publish(state(0))
        store.before = lambda call: setattr(call, "fault", Fault.UNAVAILABLE if call.key == keys.LEASE else None)
        time.sleep(0.15)
        with pytest.raises(StoreUnavailableError):
            publisher.publish(state(1))
        store.before = lambda call: None
        assert publisher.publish(state(1)).version == 1
        store.before = lambda call: setattr(call, "fault", Fault.UNAVAILABLE if call.key == keys.LEASE else None)
        with Publisher(memory, take_over=True) as other:
            time.sleep(0.15)
            store.before = lambda call: None
            with pytest.raises(FencedError):
                publisher.publish(state(2))
            assert other.publish(state(2)).version == 2
            assert_fenced_for_good(publisher)
    assert not [call for call in store.log if call.key == keys.version_key(2)], "it tried, although it was fenced"


def test_a_holder_that_is_gone_is_followed_after_its_ttl(memory: MemoryStore) -> None:
    """LSE-6. A publisher that nobody refers to any more stops renewing."""
    forgotten = Publisher(memory, lease_ttl=0.5)
    forgotten.publish(state(0))
    del forgotten
    gc.collect()
    until(lambda: not _renewed_within(memory, 0.3))
    with pytest.raises(LeaseHeldError, match=r"may be gone, but to see that takes 0\.5 s"):
        Publisher(memory, timeout=0.2)
    started = time.monotonic()
    with Publisher(memory) as publisher:
        assert 0.5 <= time.monotonic() - started < 5
        assert (publisher.epoch, publisher.version) == (1, 0)


def _renewed_within(store: MemoryStore, seconds: float) -> bool:
    before = lease_of(store)["commit_id"]
    time.sleep(seconds)
    return bool(lease_of(store)["commit_id"] != before)


def test_a_publisher_that_must_stop_lets_the_next_one_in_at_once(memory: MemoryStore) -> None:
    store = FaultyStore(memory)
    with Publisher(store) as publisher:
        publisher.publish(state(0))
        store.before = lambda call: setattr(
            call, "fault", Fault.UNAVAILABLE if call.key == keys.version_key(1) else None
        )
        with pytest.raises(OutcomeUnknownError):
            publisher.publish(state(1), timeout=0.5)
        with Publisher(memory) as again:
            assert again.publish(state(1)).version == 1


def test_the_lease_costs_three_requests(memory: MemoryStore) -> None:
    store = FaultyStore(memory)
    with Publisher(store) as publisher:
        for number in range(5):
            publisher.publish(state(number))
    assert [call.verb for call in store.log if call.key == keys.LEASE] == ["get", "create", "put"]


def test_members_that_we_do_not_know_are_kept(memory: MemoryStore) -> None:
    Publisher(memory).close()
    memory.put(keys.LEASE, json.dumps(lease_of(memory) | {"later": {"a": 1}}).encode(), mode="overwrite")
    with Publisher(memory, lease_ttl=0.05):
        before = lease_of(memory)["commit_id"]
        until(lambda: lease_of(memory)["commit_id"] != before)
        assert lease_of(memory)["later"] == {"a": 1}
    found = lease_of(memory)
    assert found["later"] == {"a": 1}
    assert (found["released"], found["epoch"]) == (True, 1)


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"ttl_ms": 0}, MalformedRecordError),
        ({"released": None}, MalformedRecordError),
        ({"kind": "head"}, MalformedRecordError),
        ({"stream_id": str(uuid.uuid4())}, WrongStreamError),
        ({"reader_features": ["novel"], "writer_features": ["novel"]}, UnsupportedFeatureError),
        ({"epoch": keys.MAX_VERSION}, LimitExceededError),
    ],
)
def test_a_lease_that_cannot_be_followed_is_left_alone(
    memory: MemoryStore, change: dict[str, Any], kind: type[DeltawireError]
) -> None:
    """LSE-2"""
    with Publisher(memory) as publisher:
        publisher.publish(state(0))
    damaged = json.dumps(lease_of(memory) | change).encode()
    memory.put(keys.LEASE, damaged, mode="overwrite")
    for take_over in (False, True):
        with pytest.raises(kind):
            Publisher(memory, take_over=take_over)
    assert memory.get(keys.LEASE, max_bytes=MIB).data == damaged


def test_after_an_operator_removed_the_lease_epochs_go_on_rising(memory: MemoryStore) -> None:
    """LSE-7"""
    for number in range(3):
        with Publisher(memory) as publisher:
            publisher.publish(state(number))
    memory.delete(keys.LEASE)
    with Publisher(memory) as publisher:
        publisher.publish(state(3))
        assert lease_of(memory)["epoch"] == publisher.epoch
    assert epochs_of(memory) == [0, 1, 2, 3]


def test_a_holder_whose_lease_was_removed_is_fenced(memory: MemoryStore) -> None:
    with Publisher(memory, lease_ttl=0.05) as publisher:
        publisher.publish(state(0))
        memory.delete(keys.LEASE)
        until(lambda: publisher._line.heartbeat is not None and not publisher._line.heartbeat.lease.held)
        with pytest.raises(FencedError, match="was removed"):
            publisher.publish(state(1))
    assert keys.LEASE not in [info.key for info in memory.list("")]


def test_a_holder_whose_lease_cannot_be_read_is_fenced(memory: MemoryStore) -> None:
    """LSE-9"""
    with Publisher(memory, lease_ttl=0.05) as publisher:
        publisher.publish(state(0))
        memory.put(keys.LEASE, b"{", mode="overwrite")
        until(lambda: publisher._line.heartbeat is not None and not publisher._line.heartbeat.lease.held)
        with pytest.raises(FencedError, match="is gone"):
            publisher.publish(state(1))
    assert memory.get(keys.LEASE, max_bytes=MIB).data == b"{"


def test_a_stream_whose_record_was_lost_is_not_made_again(memory: MemoryStore) -> None:
    """OPN-2"""
    with Publisher(memory) as publisher:
        publisher.publish(state(0))
    memory.delete(keys.STREAM)
    with pytest.raises(StreamNotFoundError, match="there are versions"):
        Publisher(memory)
    assert keys.STREAM not in [info.key for info in memory.list("")]


def test_a_single_writer_takes_no_lease(memory: MemoryStore) -> None:
    """LSE-1"""
    for number in range(2):
        with Publisher(memory, single_writer=True) as publisher:
            assert publisher.publish(state(number)).version == number
    assert keys.LEASE not in [info.key for info in memory.list("")]
    assert epochs_of(memory) == [0, 0]


def test_a_store_that_cannot_swap_carries_no_lease(memory: MemoryStore) -> None:
    """LSE-1"""
    store = FaultyStore(memory)
    store.guarantees = Guarantees(conditional_create=True, compare_and_swap=False)
    with Publisher(store) as one, Publisher(store) as other:
        one.publish(state(0))
        with pytest.raises(ConflictError):
            other.publish(state(1))
    assert keys.LEASE not in [info.key for info in memory.list("")]


@pytest.mark.parametrize("ttl", [0.0, -1.0, float("nan"), 86_401.0])
def test_a_ttl_that_makes_no_sense(memory: MemoryStore, ttl: float) -> None:
    with pytest.raises(InvalidArgumentError):
        Publisher(memory, lease_ttl=ttl)
    assert not [*memory.list("")]


def test_a_holder_without_a_sensible_name(memory: MemoryStore) -> None:
    with pytest.raises(InvalidArgumentError):
        Publisher(memory, holder="x" * 201)
