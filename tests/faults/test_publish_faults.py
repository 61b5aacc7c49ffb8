"""Every store call of a publisher fails in every way; the line stays whole and the publisher goes on."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltawire.consumer.follower import Follower
from deltawire.errors import (
    ConflictError,
    DeadlineExceededError,
    DeltawireError,
    FencedError,
    InvalidArgumentError,
    OutcomeUnknownError,
    SourceChangedError,
    StoreDeniedError,
)
from deltawire.format import keys
from deltawire.limits import MIB
from deltawire.producer.anchors import NEVER
from deltawire.producer.publisher import Publisher
from deltawire.producer.sources import ArraysSource
from deltawire.store.base import Bytes, Guarantees, PutMode
from deltawire.store.memory import MemoryStore
from tests.faults.conftest import new_memory
from tests.faults.faulty_store import APPLICABLE, BindingBugError, Call, Fault, FaultyStore
from tests.faults.line import (
    DTYPES,
    Trainer,
    Version,
    assert_refuses,
    check_line,
    check_order,
    open_publisher,
    publish,
    script,
    stepped,
)

VERSIONS = script()
ORDINARY = sorted(set().union(*APPLICABLE.values()))


def run(faults: dict[int, Fault]) -> tuple[FaultyStore, Trainer]:
    memory = new_memory()
    store = FaultyStore(memory, faults)
    trainer = Trainer(store, VERSIONS)
    trainer.run()
    assert check_line(memory, VERSIONS) == len(VERSIONS)
    check_order(memory, store.effects)
    return store, trainer


@cache
def healthy_log() -> list[Call]:
    store, trainer = run({})
    assert not trainer.errors
    return store.log


def test_the_script_covers_what_it_should() -> None:
    written = [call.key for call in healthy_log() if call.took_effect]
    assert sum(key.startswith(keys.VERSIONS) for key in written) == len(VERSIONS)
    assert [key for key in written if key.startswith(keys.ANCHORS)] == [keys.anchor_key(3)]
    assert sum(key.endswith(".arrow") for key in written) > 4  # more than one in a delta
    assert sum(key.endswith(".safetensors") for key in written) > 5
    assert keys.HEAD in written


@pytest.mark.parametrize("fault", ORDINARY)
def test_one_fault_at_each_call(fault: Fault) -> None:
    # Up to the fault a run makes the calls of a healthy one.
    tried = [call for call in healthy_log() if fault in APPLICABLE[call.verb]]
    assert tried
    applied = 0
    for planned in tried:
        store, trainer = run({planned.index: fault})
        call = store.log[planned.index]  # another one than planned at most beside an anchor
        applied += call.fault is fault
        if call.fault is None:
            continue
        if call.key.startswith(keys.VERSIONS) and fault in {Fault.ANSWER_LOST, Fault.EXISTS}:
            assert not trainer.errors, f"{call}: our own record was not recognised"
        if call.key == keys.LEASE and fault in {Fault.ANSWER_LOST, Fault.EXISTS}:
            assert not trainer.errors, f"{call}: our own lease was not recognised"
        if call.key == keys.HEAD and call.verb == "put":
            assert not trainer.errors, f"{call}: a hint stopped the publisher"
    assert applied >= 0.7 * len(tried)


@given(st.dictionaries(st.integers(0, 140), st.sampled_from(ORDINARY), max_size=8))
def test_any_combination_of_faults(faults: dict[int, Fault]) -> None:
    run(faults)


def committed(memory: MemoryStore, count: int = 2) -> None:
    with open_publisher(memory, anchors=NEVER) as publisher:
        for version in VERSIONS[:count]:
            publish(publisher, version)


def at_version(number: int, act: Callable[[], object]) -> Callable[[Call], None]:
    """Do something once, just before the record of a version is created."""
    left = [act]

    def before(call: Call) -> None:
        if call.verb == "create" and call.key == keys.version_key(number) and left:
            left.pop()()

    return before


@pytest.mark.parametrize(("epoch", "kind"), [(0, ConflictError), (1, ConflictError), (2, FencedError)])
@pytest.mark.parametrize("fault", [None, Fault.UNAVAILABLE, Fault.ANSWER_LOST])
def test_another_writers_record_is_not_taken_for_ours(
    memory: MemoryStore, epoch: int, kind: type[DeltawireError], fault: Fault | None
) -> None:
    committed(memory)

    def overtake() -> None:
        with open_publisher(memory, anchors=NEVER) as other:
            publish(other, VERSIONS[2])
        key = keys.version_key(2)
        record = msgspec.json.decode(memory.get(key, max_bytes=MIB).data)
        memory.put(key, msgspec.json.encode(record | {"epoch": epoch}), mode="overwrite")
        if fault is not None:
            store.faults = {len(store.log) - 1: fault}

    store = FaultyStore(memory, before=at_version(2, overtake))
    with open_publisher(store, anchors=NEVER) as publisher:
        with pytest.raises(kind):
            publish(publisher, Version(stepped(VERSIONS[1].state, 99), {}))
        before = len(store.log)
        assert_refuses(publisher, VERSIONS[2], kind)
        assert len(store.log) == before, "it went to the store again"
    assert check_line(memory, VERSIONS, at_least=3) == 3
    Trainer(memory, VERSIONS).run()
    assert check_line(memory, VERSIONS) == len(VERSIONS)


@pytest.mark.parametrize("arrives", [False, True])
def test_a_commit_that_is_never_answered_is_left_open(memory: MemoryStore, *, arrives: bool) -> None:
    committed(memory)
    answers = iter([Fault.ANSWER_LOST if arrives else Fault.UNAVAILABLE, *[Fault.UNAVAILABLE] * 30])

    def outage(call: Call) -> None:
        if call.key == keys.version_key(2):
            call.fault = next(answers)

    store = FaultyStore(memory)
    with open_publisher(store, anchors=NEVER) as publisher:
        store.before = outage
        with pytest.raises(OutcomeUnknownError):
            publish(publisher, VERSIONS[2])
        assert publisher.version == 1
        store.before = lambda call: None
        assert_refuses(publisher, VERSIONS[2], OutcomeUnknownError)
    with open_publisher(memory, anchors=NEVER) as publisher:
        assert publisher.version == (2 if arrives else 1)
    Trainer(memory, VERSIONS).run()
    assert check_line(memory, VERSIONS) == len(VERSIONS)


def test_a_refusal_after_an_attempt_that_may_have_arrived_is_not_a_failure(memory: MemoryStore) -> None:
    committed(memory)
    store = FaultyStore(memory)
    tries = iter([Fault.ANSWER_LOST, *[Fault.DENIED] * 30])

    def before(call: Call) -> None:
        if call.key == keys.version_key(2):
            call.fault = next(tries)

    with open_publisher(store, anchors=NEVER) as publisher:
        store.before = before
        with pytest.raises(OutcomeUnknownError):
            publish(publisher, VERSIONS[2])
        store.before = lambda call: None
        assert_refuses(publisher, VERSIONS[2], OutcomeUnknownError)
    assert check_line(memory, VERSIONS) == 3


def test_a_first_refusal_is_a_failure_and_may_be_tried_again(memory: MemoryStore) -> None:
    store = FaultyStore(memory)
    with open_publisher(store, anchors=NEVER) as publisher:
        for version in VERSIONS:
            store.before = lambda call: setattr(
                call, "fault", Fault.DENIED if call.key.startswith(keys.VERSIONS) else None
            )
            with pytest.raises(StoreDeniedError):
                publish(publisher, version)
            store.before = lambda call: None
            publish(publisher, version)
    assert check_line(memory, VERSIONS) == len(VERSIONS)


def test_an_exception_that_is_not_ours_leaves_no_half_commit(memory: MemoryStore) -> None:
    """A bug in a binding, or Ctrl-C, at any call."""
    for planned in healthy_log():
        memory = new_memory()
        store = FaultyStore(memory, {planned.index: Fault.BUG})
        trainer = Trainer(store, VERSIONS)
        try:
            trainer.run()
        except BindingBugError:
            call = store.log[planned.index]
            assert call.key != keys.HEAD or call.verb == "get", "a hint stopped the publisher"
            if call.verb == "create" and call.key.startswith(keys.VERSIONS):
                assert trainer.publisher is not None
                assert_refuses(trainer.publisher, VERSIONS[0], OutcomeUnknownError)
        check_line(memory, VERSIONS)
        Trainer(memory, VERSIONS).run()
        assert check_line(memory, VERSIONS) == len(VERSIONS)


class Unarbitrated(FaultyStore):
    """A store whose create only looks first, like any fsspec file system."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.guarantees = Guarantees(conditional_create=False, compare_and_swap=False)

    def put(self, key: str, data: Bytes, *, mode: PutMode) -> str:
        token = super().put(key, data, mode=mode)
        if self.overwriting is not None and key == keys.version_key(2) and mode == "create":
            self.inner.put(key, self.overwriting, mode="overwrite")
        return token

    overwriting: bytes | None = None


def test_a_store_that_cannot_arbitrate_is_read_back(memory: MemoryStore) -> None:
    with Publisher(Unarbitrated(memory), single_writer=True, anchors=NEVER) as publisher:
        for version in VERSIONS[:2]:
            publish(publisher, version)
    twin = new_memory()
    for info in memory.list(""):
        twin.put(info.key, memory.get(info.key, max_bytes=MIB).data, mode="create")
    with Publisher(Unarbitrated(twin), single_writer=True, anchors=NEVER) as publisher:
        publish(publisher, VERSIONS[2])
    store = Unarbitrated(memory)
    store.overwriting = twin.get(keys.version_key(2), max_bytes=MIB).data
    with Publisher(store, single_writer=True, anchors=NEVER) as publisher, pytest.raises(ConflictError):
        publish(publisher, VERSIONS[2])


@pytest.mark.parametrize("gone", [False, True])
def test_a_parent_that_another_writer_replaced_ends_the_line(memory: MemoryStore, gone: bool) -> None:
    """CMT-12."""
    store, key = Unarbitrated(memory), keys.version_key(1)
    with Publisher(store, single_writer=True, anchors=NEVER) as publisher:
        for version in VERSIONS[:2]:
            publish(publisher, version)
        ours = memory.get(key, max_bytes=MIB).data
        if gone:
            memory.delete(key)
        else:
            memory.put(key, ours.replace(b'"metadata":{', b'"metadata":{"by":"another",'), mode="overwrite")
        before = {info.key for info in memory.list(keys.VERSIONS)}
        with pytest.raises(ConflictError, match="parent"):
            publish(publisher, VERSIONS[2])
        assert {info.key for info in memory.list(keys.VERSIONS)} == before
        memory.put(key, ours, mode="overwrite")
        assert_refuses(publisher, VERSIONS[2], ConflictError)


def mutable(version: Version) -> Version:
    state = {name: array.copy() for name, array in version.state.items()}
    state["head"] = state["embed"]
    return Version(state, version.files)


def test_a_source_changed_before_the_base_took_it_over(memory: MemoryStore) -> None:
    committed(memory)
    target = mutable(VERSIONS[3])
    store = FaultyStore(memory, before=at_version(2, lambda: target.state["norm"].__setitem__(0, 123.0)))
    with open_publisher(store, anchors=NEVER) as publisher:
        with pytest.raises(SourceChangedError):
            publish(publisher, target)
        assert_refuses(publisher, VERSIONS[3], SourceChangedError)
    line = [*VERSIONS[:2], Version(VERSIONS[3].state, VERSIONS[3].files), *VERSIONS[3:]]
    assert check_line(memory, line, at_least=3) == 3  # what was there when it was read
    Trainer(memory, line).run()
    assert check_line(memory, line) == len(line)


def test_whatever_is_committed_of_a_state_in_motion_can_be_read(memory: MemoryStore) -> None:
    """Nobody may step the optimizer meanwhile. Somebody will, and must not break the line for everybody else."""
    state: dict[str, npt.NDArray[Any]] = {"w": np.zeros(1 << 16, np.uint16), "x": np.zeros(1 << 12, np.uint8)}
    stop = threading.Event()

    def step() -> None:
        rng = np.random.default_rng(0)
        while not stop.is_set():
            for array, share in ((state["w"], 0.1), (state["x"], 0.9)):
                hit = rng.random(array.size) < share
                array[hit] += rng.integers(0, 3, int(hit.sum())).astype(array.dtype)

    stepping = threading.Thread(target=step)
    stepping.start()
    caught = 0
    try:
        for _ in range(10):
            with Publisher(memory, anchors=NEVER) as publisher:
                try:
                    publisher.publish(state, dtypes={"w": "BF16"})
                    publisher.publish(state, dtypes={"w": "BF16"})
                except SourceChangedError:
                    caught += 1
    finally:
        stop.set()
        stepping.join()
    assert caught
    with Follower(memory) as follower:
        for update in follower.follow(until=len([*memory.list(keys.VERSIONS)]) - 1, every_version=True):
            assert follower.verify() == update.state_digest


def hanging_calls() -> list[Call]:
    """A write of each kind, for each version."""
    kinds = {
        (call.verb, call.key.partition("/")[0], call.key[-24:]): call for call in healthy_log() if call.took_effect
    }
    return [*kinds.values()]


def test_no_call_can_hold_a_publish_beyond_its_deadline() -> None:
    outcomes = set()
    for planned in hanging_calls():
        memory = new_memory()
        store = FaultyStore(memory, {planned.index: Fault.HANG})
        started = time.monotonic()
        publisher = None
        try:
            publisher = open_publisher(store, timeout=0.2)
            for version in VERSIONS:
                started = time.monotonic()
                publisher.publish(version.state, files=version.files, dtypes=DTYPES, timeout=0.2)
        except (DeadlineExceededError, OutcomeUnknownError) as error:
            outcomes.add((type(error), planned.key.partition("/")[0]))
        assert time.monotonic() - started < 3
        store.release()
        if publisher is not None:
            publisher.close()
        check_line(memory, VERSIONS)
        Trainer(memory, VERSIONS).run()
        assert check_line(memory, VERSIONS) == len(VERSIONS)
    assert (OutcomeUnknownError, "versions") in outcomes
    assert (DeadlineExceededError, "data") in outcomes


def test_closing_a_publisher_does_not_wait_for_ever(memory: MemoryStore) -> None:
    committed(memory)
    store = FaultyStore(memory)
    publisher = open_publisher(store, anchors=NEVER)
    store.before = lambda call: setattr(call, "fault", Fault.HANG if call.verb == "put_stream" else None)
    with pytest.raises(DeadlineExceededError):
        publish(publisher, VERSIONS[3], timeout=0.2)
    started = time.monotonic()
    publisher.close(timeout=0.1)
    assert time.monotonic() - started < 2
    store.release()


@pytest.mark.parametrize("verb", ["get", "head", "list", "get_range", "create"])
def test_no_call_can_hold_the_opening_beyond_its_deadline(memory: MemoryStore, verb: str) -> None:
    if verb != "create":
        committed(memory)
        if verb == "list":
            memory.delete(keys.HEAD)
    store = FaultyStore(memory, before=lambda call: setattr(call, "fault", Fault.HANG if call.verb == verb else None))
    started = time.monotonic()
    with pytest.raises(DeadlineExceededError):
        open_publisher(store, timeout=0.2)
    assert time.monotonic() - started < 2
    store.release()


def test_a_hint_of_no_use_is_replaced_and_unknown_members_of_one_are_kept(memory: MemoryStore) -> None:
    for hint in (b"", b"\xff", b"[]", b"{" * 5000, b'{"version": 1e999}', b'{"kept": {"a": 1}, "version": -1}'):
        memory.put(keys.HEAD, hint, mode="overwrite")
        with open_publisher(memory) as publisher:
            published = publish(publisher, VERSIONS[(publisher.version or 0) % 2])
        head = msgspec.json.decode(memory.get(keys.HEAD, max_bytes=MIB).data)
        assert head["version"] == published.version
    assert head["kept"] == {"a": 1}


def test_a_stopped_publisher_does_not_keep_the_state_alive(memory: MemoryStore) -> None:
    committed(memory)
    store = FaultyStore(memory)
    store.before = at_version(2, lambda: memory.put(keys.version_key(2), b"{}", mode="create"))
    state = stepped(VERSIONS[1].state, 9)
    alive = weakref.ref(state["norm"])
    with open_publisher(store, anchors=NEVER) as publisher:
        with pytest.raises(ConflictError):
            publisher.publish(state, dtypes=DTYPES)
        del state
        gc.collect()
        assert alive() is None


def test_two_threads_with_one_publisher(memory: MemoryStore) -> None:
    with open_publisher(memory, anchors=NEVER) as publisher:
        entered, go_on = threading.Event(), threading.Event()

        def slow() -> None:
            publisher.publish(SlowState(entered, go_on))

        thread = threading.Thread(target=slow)
        thread.start()
        assert entered.wait(30)
        with pytest.raises(InvalidArgumentError):
            publisher.publish({"w": np.zeros(3, np.uint16)})
        go_on.set()
        thread.join(30)
        assert publisher.version == 0
        assert publisher.publish({"w": np.zeros(3, np.uint16)}).version == 1


class SlowState(ArraysSource):
    """Waits in the middle of being read."""

    def __init__(self, entered: threading.Event, go_on: threading.Event) -> None:
        super().__init__({"w": np.ones(3, np.uint16)}, dtypes={})
        self._entered, self._go_on = entered, go_on

    def bits(self, name: str) -> Any:
        self._entered.set()
        assert self._go_on.wait(30)
        return super().bits(name)
