"""Targets in memory while somebody changes them, or writing them stops half-way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from deltawire.consumer.follower import Follower
from deltawire.errors import (
    DeltawireError,
    TargetMismatchError,
    WrongBaseError,
)
from deltawire.format import keys
from deltawire.limits import MIB
from deltawire.producer.anchors import AnchorPolicy
from deltawire.producer.publisher import Publisher
from deltawire.store.memory import MemoryStore
from deltawire.targets import swapping
from deltawire.targets.arrays import NumpyBits
from tests.faults.conftest import forget, new_memory
from tests.faults.line import (
    DTYPES,
    Trainer,
    assert_same,
    bits_of,
    open_publisher,
    script,
)

VERSIONS = script()
LAST = len(VERSIONS) - 1


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


@pytest.mark.parametrize("ranked", [False, True])
def test_a_flipped_bit_is_never_taken_for_a_bad_row(ranked: bool) -> None:
    # A row of ranks cannot be decoded against other weights: mostly nothing fits, or something else does.
    rng = np.random.default_rng(0)
    store = MemoryStore("flipped-ranked" if ranked else "flipped")
    old = (rng.standard_normal(3000).astype(np.float32) * 0.02).view(np.uint32)
    small = np.abs(old.view(np.float32)) < 0.01  # these change, mostly, and the others hardly ever
    new = old + (rng.random(old.size) < np.where(small, 0.8, 0.02)).astype(np.uint32)
    with Publisher(store, ranked=ranked) as publisher:
        publisher.publish({"w": old.view(np.float32)})
        publisher.publish({"w": new.view(np.float32)})
    noticed = 0
    with Follower(store, pin=False) as follower:
        follower.poll(to=0)
        held = follower.arrays["w"].view(np.uint32)
    for _ in range(40):
        state = {"w": held.copy().view(np.float32)}
        with Follower(store, state, pin=False) as follower:
            follower.poll(to=0)
            state["w"].view(np.uint32)[rng.integers(old.size)] ^= np.uint32(1) << np.uint32(rng.integers(20, 32))
            before = bits_of(state["w"])
            try:
                follower.poll()
            except WrongBaseError:
                noticed += 1
                assert bits_of(state["w"]) == before
    assert noticed > (10 if ranked else 0)


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
@pytest.mark.parametrize(
    ("start", "goal", "threads"),
    [(3, 4, 1), (3, 4, 3), (0, 4, 1)],
    ids=["delta", "delta by several threads", "snapshot"],
)
def test_a_write_into_memory_that_stops_half_way_is_undone(
    memory: MemoryStore, monkeypatch: pytest.MonkeyPatch, kind: str, start: int, goal: int, threads: int
) -> None:
    """Whatever stops it; and the follower goes on afterwards."""
    monkeypatch.setattr(swapping, "_THREADS", threads)
    monkeypatch.setattr(swapping, "_WORTH", 1)
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
