"""A target on a device: the same states, all or nothing, and every digest is computed there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from deltawire import Follower, Publisher
from deltawire.errors import StateMismatchError, WrongBaseError
from deltawire.producer.anchors import NEVER
from deltawire.store.memory import MemoryStore
from deltawire.targets import torch_access
from deltawire.targets.torch import TorchTarget
from deltawire.targets.torch_access import TorchBits, Write, scatter_all
from deltawire.torch_bits import from_numpy
from tests.devices.layouts import as_torch, small_boxes, torch_bytes, torch_states
from tests.devices.places import DEVICE
from tests.faults.conftest import new_memory
from tests.strategies import State, next_states


@given(st.data(), torch_states(), st.sampled_from([16, 300, 1 << 22]))
def test_states_arrive(data: st.DataObject, first: State, box: int) -> None:
    line = [first]
    for _ in range(3):
        line.append(data.draw(next_states(line[-1])))
    store = new_memory()
    tensors = as_torch(replace(first, bits={name: ~bits for name, bits in first.bits.items()}), device=DEVICE)
    with small_boxes(box), Publisher(store) as publisher, Follower(store, target_of(tensors)) as follower:
        for state in line:
            published = publisher.publish(as_torch(state))
            assert follower.poll() is not None
            assert follower.verify() == published.state_digest
            assert torch_bytes(tensors) == torch_bytes(as_torch(state))


def target_of(tensors: dict[str, torch.Tensor]) -> TorchTarget:
    return TorchTarget(tensors, as_device=True)


@given(st.lists(st.tuples(st.sampled_from([1, 2, 4, 8]), st.booleans(), st.booleans()), max_size=6), st.integers(1, 99))
def test_writes_of_all_widths_share_a_group(kinds: list[tuple[int, bool, bool]], group: int) -> None:
    rng = np.random.default_rng(group)
    writes, expected = [], []
    for width, whole, wide in kinds:
        size = int(rng.integers(1, 20))
        bits = np.frombuffer(rng.bytes(size * width), f"<u{width}")
        flat = np.zeros(40, f"<u{width}")
        where: Any = slice(7, 7 + size)
        if not whole:
            where = np.sort(rng.choice(40, size, replace=False)).astype(np.uint64 if wide else np.uint32)
        writes.append(Write(from_numpy(flat.copy()).to(DEVICE), where, bits))
        flat[where] = bits
        expected.append(flat.tobytes())
    with small_boxes(group):
        scatter_all(writes)
    assert [write.flat.cpu().numpy().tobytes() for write in writes] == expected


def test_indices_beyond_31_bits_are_not_negative() -> None:
    high = np.array([0, (1 << 31) - 1, 1 << 31, (1 << 32) - 1], np.uint32)
    assert torch_access._wide(from_numpy(high)).tolist() == high.tolist()
    higher = np.array([1 << 32, 1 << 40], np.uint64)
    assert torch_access._wide(from_numpy(higher)).tolist() == higher.tolist()


STATES = [{"a": torch.arange(60) * number, "b": torch.full((33,), number, dtype=torch.int16)} for number in range(3)]


def stream() -> MemoryStore:
    store = new_memory()
    with Publisher(store, anchors=NEVER) as publisher:
        for state in STATES:
            publisher.publish(state)
    return store


def blank() -> dict[str, torch.Tensor]:
    return {name: torch.zeros_like(tensor, device=DEVICE) for name, tensor in STATES[0].items()}


class StoppedError(Exception):
    """Such as running out of memory on the device."""


@pytest.mark.parametrize("done", [False, True], ids=["before a group", "after a group"])
@pytest.mark.parametrize("mixed", [False, True])
def test_a_swap_that_stops_half_way_is_undone(monkeypatch: pytest.MonkeyPatch, done: bool, mixed: bool) -> None:
    store = stream()
    failures = 0
    for fail_at in range(1, 100):
        tensors = blank()
        target = target_of(tensors)
        with small_boxes(64), Follower(store, target) as follower:
            follower.poll(to=1)
            if mixed:  # one of the two on the CPU
                target._bits["b"] = TorchTarget(tensors)._bits_of(tensors["b"])
            before, digest = torch_bytes(tensors), follower.verify()
            calls = 0
            real = torch_access._scatter_group

            def scatter(*arguments: Any, real: Any = real, fail_at: int = fail_at) -> None:
                nonlocal calls
                calls += 1
                if calls != fail_at or done:
                    real(*arguments)
                if calls == fail_at:
                    raise StoppedError

            with monkeypatch.context() as patch:
                patch.setattr(torch_access, "_scatter_group", scatter)
                try:
                    follower.poll()
                    failed = False
                except StoppedError:
                    failed = True
            if failed:
                failures += 1
                assert follower.version == 1
                assert torch_bytes(tensors) == before
                assert follower.verify() == digest
                follower.poll()
            assert torch_bytes(tensors) == torch_bytes(STATES[2])
            follower.verify()
        if not failed:
            break
    assert failures > 3


def test_if_even_undoing_fails_nothing_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    tensors = blank()
    with Follower(stream(), target_of(tensors)) as follower:
        follower.poll(to=1)

        def scatter(*arguments: Any) -> None:
            raise StoppedError

        with monkeypatch.context() as patch:
            patch.setattr(torch_access, "_scatter_group", scatter)
            with pytest.raises(StoppedError):
                follower.poll()
        assert follower.version is None
        follower.poll()
        follower.verify()
        assert torch_bytes(tensors) == torch_bytes(STATES[2])


def test_a_tampered_tensor_is_noticed() -> None:
    tensors = blank()
    with Follower(stream(), target_of(tensors)) as follower:
        follower.poll(to=1)
        tensors["a"][5] ^= 1
        before = torch_bytes(tensors)
        with pytest.raises(StateMismatchError):
            follower.verify()
        with pytest.raises(WrongBaseError):
            follower.poll()
        assert torch_bytes(tensors) == before


def test_verifying_copies_no_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    tensors = blank()
    with Follower(stream(), target_of(tensors)) as follower:
        follower.poll()

        def gather(*arguments: Any) -> Any:
            raise AssertionError("elements came to the CPU")

        monkeypatch.setattr(TorchBits, "gather", gather)
        follower.verify()
