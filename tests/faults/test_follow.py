"""Following while the stream, the hints and the target do what they should not."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import count
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from deltawire.consumer.follower import Follower
from deltawire.errors import (
    BrokenChainError,
    DeadlineExceededError,
    DeltawireError,
    InvalidArgumentError,
    MissingObjectError,
    PathLostError,
    StreamNotFoundError,
    TargetMismatchError,
    VersionNotFoundError,
    WrongBaseError,
)
from deltawire.format import keys
from deltawire.limits import MIB
from deltawire.producer.anchors import NEVER, AnchorPolicy
from deltawire.store.base import Store
from deltawire.store.memory import MemoryStore
from deltawire.targets.arrays import NumpyBits
from tests.faults.conftest import new_memory
from tests.faults.faulty_store import APPLICABLE, Call, Fault, FaultyStore
from tests.faults.line import (
    DTYPES,
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

VERSIONS = script()
LAST = len(VERSIONS) - 1


@pytest.fixture
def written(memory: MemoryStore) -> MemoryStore:
    Trainer(memory, VERSIONS).run()
    return memory


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


def forget(store: MemoryStore, *numbers: int, parts_only: bool = False) -> None:
    for number in numbers:
        for info in [*store.list(keys.DATA)]:
            if info.key.startswith(keys.data_prefix(number, "").rstrip("/")) and info.key.endswith(".arrow"):
                store.delete(info.key)
        if not parts_only:
            store.delete(keys.version_key(number))


@pytest.mark.parametrize("parts_only", [True, False])
@pytest.mark.parametrize("every_version", [True, False])
@pytest.mark.parametrize("behind", [1, 7])
def test_the_way_was_collected_and_an_anchor_leads_on(
    memory: MemoryStore, *, parts_only: bool, every_version: bool, behind: int
) -> None:
    versions = long_line(memory, 10, anchors=AnchorPolicy(every=8, outweigh=None))
    with Follower(memory) as follower:
        follower.poll(to=8 - behind)
        # Maintenance takes what nobody needs who begins at the anchor, parts before records.
        forget(memory, *range(9 if parts_only else 8), parts_only=parts_only)
        versions_seen = [
            update.version
            for update in follower.follow(until=9, every_version=every_version, interval=0.01, timeout=10)
        ]
        assert versions_seen[-1] == 9
        assert_same(follower.arrays, versions[9].state)
        follower.verify()


@pytest.mark.parametrize("hint", [True, False])
def test_a_follower_whose_version_is_gone_does_not_take_it_for_the_newest(memory: MemoryStore, *, hint: bool) -> None:
    long_line(memory, 9, anchors=AnchorPolicy(every=8, outweigh=None))
    with Follower(memory) as follower:
        follower.poll(to=2)
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


def test_a_target_of_another_stream(written: MemoryStore) -> None:
    other = new_memory()
    Trainer(other, VERSIONS).run()
    with Follower(written) as follower:
        follower.poll(to=3)
        with Follower(other, follower.target) as second, pytest.raises(WrongBaseError):
            second.poll()
        assert_same(follower.arrays, VERSIONS[3].state)


State = dict[str, npt.NDArray[Any]]


def blank() -> State:
    state = {name: np.zeros_like(array) for name, array in VERSIONS[0].state.items()}
    return state | {"head": state["embed"]}


def test_a_tampered_array_is_noticed_before_anything_is_written(written: MemoryStore) -> None:
    state = blank()
    with Follower(written, state) as follower:
        follower.poll(to=3)
        state["norm"].view(np.uint32)[:] ^= 1
        before = {name: bits_of(array) for name, array in state.items()}
        with pytest.raises(WrongBaseError):
            follower.poll(to=4)
        assert follower.version == 3
        assert before == {name: bits_of(array) for name, array in state.items()}


class Interrupted(BaseException):
    """Such as KeyboardInterrupt."""


class Scatters:
    """Fails in the middle of a write into memory, having done part of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left = 0
        self.undo_fails = False
        self._broken = False
        real = NumpyBits.scatter

        def scatter(bits: NumpyBits, where: Any, new: Any) -> None:
            self.left -= 1
            if self.left == 0 or (self._broken and self.undo_fails):
                self._broken = True
                half = len(new) // 2
                real(
                    bits,
                    slice(where.start, where.start + half) if isinstance(where, slice) else where[:half],
                    new[:half],
                )
                raise Interrupted
            real(bits, where, new)

        monkeypatch.setattr(NumpyBits, "scatter", scatter)

    def repair(self) -> None:
        self.left, self._broken, self.undo_fails = 0, False, False


class Model(torch.nn.Module):
    def __init__(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        super().__init__()
        for name, array in state.items():
            if name != "head":
                kind = torch.bfloat16 if name in DTYPES else None
                tensor = torch.from_numpy(array.copy())
                self.register_buffer(name, tensor.view(kind) if kind is not None else tensor)
        self.register_buffer("head", self.get_buffer("embed"))


def torch_bits(model: Model) -> dict[str, bytes]:
    return {name: tensor.reshape(-1).view(torch.uint8).numpy().tobytes() for name, tensor in model.state_dict().items()}


def numpy_bits(state: Mapping[str, npt.NDArray[Any]]) -> dict[str, bytes]:
    return {name: bits_of(array) for name, array in state.items()}


def bits_in(follower: Follower, target: State | Model | None) -> dict[str, bytes]:
    """What the caller sees."""
    if isinstance(target, Model):
        return torch_bits(target)
    return numpy_bits(follower.arrays if target is None else target)


@pytest.mark.parametrize("kind", ["arrays", "torch", "own"])
@pytest.mark.parametrize(("start", "goal"), [(3, 4), (0, 4)], ids=["delta", "snapshot"])
def test_a_write_into_memory_that_stops_half_way_is_undone(
    memory: MemoryStore, monkeypatch: pytest.MonkeyPatch, kind: str, start: int, goal: int
) -> None:
    """Whatever stops it; and the follower goes on afterwards."""
    Trainer(memory, VERSIONS[:5]).run()
    if start == 0:  # let nothing but a snapshot lead there
        with open_publisher(memory, anchors=AnchorPolicy(every=1, outweigh=None)) as publisher:
            publisher.publish(VERSIONS[4].state, dtypes=DTYPES)
            assert publisher.wait_for_anchor()
        forget(memory, 1, 2, 3, 4)
        goal = 5
    scatters = Scatters(monkeypatch)
    failures = 0
    for fail_at in range(1, 1000):
        targets: dict[str, State | Model | None] = {"arrays": blank(), "torch": Model(blank()), "own": None}
        target = targets[kind]
        with Follower(memory, target, workers=1) as follower:
            follower.poll(to=start)
            before = bits_in(follower, target)
            scatters.left = fail_at
            try:
                follower.poll(to=goal)
                failed = False
            except Interrupted:
                failed = True
            scatters.repair()
            if failed:
                failures += 1
                assert follower.version == start
                assert bits_in(follower, target) == before
                assert follower.verify()
                follower.poll(to=goal)
            assert bits_in(follower, target) == numpy_bits(VERSIONS[4].state)
            assert follower.verify()
        if not failed:
            break
    assert failures > 3


@pytest.mark.parametrize("kind", ["arrays", "torch"])
def test_if_even_undoing_fails_nothing_is_held(
    written: MemoryStore, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    state = blank()
    with Follower(written, Model(state) if kind == "torch" else state) as follower:
        follower.poll(to=3)
        scatters = Scatters(monkeypatch)
        scatters.left, scatters.undo_fails = 2, True
        with pytest.raises(Interrupted):
            follower.poll(to=4)
        assert follower.version is None
        scatters.repair()
        follower.poll(to=4)  # from an anchor
        follower.verify()


def test_tied_arrays_that_are_not_tied_in_the_target(written: MemoryStore) -> None:
    state = blank()
    state["head"] = state["head"].copy()
    before = numpy_bits(state)
    with Follower(written, state) as follower:
        with pytest.raises(TargetMismatchError, match="one tensor"):
            follower.poll()
        assert follower.version is None
    assert numpy_bits(state) == before


def test_a_snapshot_that_fails_leaves_what_was_held(written: MemoryStore) -> None:
    """A rebase cannot be loaded; the version before can still be read and followed."""
    with Follower(written) as follower:
        follower.poll(to=3)
        shard = next(
            info.key for info in written.list(keys.DATA) if "5-" in info.key[:30] and "safetensors" in info.key
        )
        data = written.get(shard, max_bytes=MIB).data
        written.put(shard, data[:-1] + bytes([data[-1] ^ 1]), mode="overwrite")
        with pytest.raises(DeltawireError):
            follower.poll()
        assert follower.version in {3, 4}
        follower.verify()
        follower.poll(to=4)
        assert_same(follower.arrays, VERSIONS[4].state)
        written.put(shard, data, mode="overwrite")
        follower.poll()
        assert_same(follower.arrays, VERSIONS[LAST].state)


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
