"""How many requests and objects a stream costs."""

from __future__ import annotations

import uuid

import numpy as np
import numpy.typing as npt
import pytest

from deltawire import Follower, PartOptions, Publisher
from deltawire.consumer import loading
from deltawire.store.memory import MemoryStore

State = dict[str, npt.NDArray[np.generic]]


class CountingStore(MemoryStore):
    """Counts ranged reads."""

    ranges = 0

    def get_range(self, key: str, start: int, length: int) -> bytes:
        self.ranges += 1
        return super().get_range(key, start, length)


@pytest.fixture
def store() -> CountingStore:
    return CountingStore(f"requests/{uuid.uuid4().hex}")


def publish(store: MemoryStore, *states: State, parts: PartOptions | None = None) -> None:
    with Publisher(store, parts=parts) as publisher:
        for state in states:
            publisher.publish(state)


def test_small_tensors_of_a_snapshot_are_fetched_together(store: CountingStore) -> None:
    state: State = {f"t{index}": np.full(index % 7, index, np.float32) for index in range(500)}
    publish(store, state)
    with Follower(store) as follower:
        follower.poll()
        assert store.ranges == 2  # the header and the data
        assert all(np.array_equal(follower.arrays[name], array) for name, array in state.items())


def test_a_selection_is_fetched_by_what_lies_together(store: CountingStore) -> None:
    state: State = {f"{name}{index}": np.full(10, index, np.float32) for name in "abc" for index in range(20)}
    publish(store, state)
    with Follower(store, tensors=["a*", "c*"]) as follower:
        follower.poll()
        assert store.ranges == 3
        assert all(np.array_equal(array, state[name]) for name, array in follower.arrays.items())


def test_a_large_tensor_is_fetched_in_pieces(store: CountingStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "CHUNK", 64)
    state: State = {"a": np.arange(5, dtype=np.uint8), "b": np.arange(100, dtype=np.int64), "c": np.ones(3, np.float32)}
    publish(store, state)
    with Follower(store) as follower:
        follower.poll()
        assert store.ranges == 1 + 13  # the header; 800 bytes, the small tensors with the last of them
        assert all(np.array_equal(follower.arrays[name], array) for name, array in state.items())


def test_kinds_of_rows_that_alternate_share_a_part(store: CountingStore) -> None:
    # Tensors that change a little and wholly by turns: their rows need other streams, but not other parts.
    rng = np.random.default_rng(0)
    old: State = {f"t{index}": rng.integers(0, 1 << 16, 4096, np.uint16) for index in range(20)}
    new: State = {
        name: rng.integers(0, 1 << 16, 4096, np.uint16) if index % 2 else np.where(np.arange(4096) % 50, bits, 7)
        for index, (name, bits) in enumerate(old.items())
    }
    publish(store, old, new, parts=PartOptions(batch_bytes=1))
    assert len([info for info in store.list("data/") if info.key.endswith(".arrow")]) == 2
    with Follower(store) as follower:
        follower.poll()
        assert all(np.array_equal(follower.arrays[name], array) for name, array in new.items())
