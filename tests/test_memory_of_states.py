"""Tensors and the memory behind them: what is shared, what is elsewhere, what lies in it in another form."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from deltawire import Follower, Publisher
from deltawire.errors import InvalidStateError, TargetMismatchError
from deltawire.store.memory import MemoryStore


def stream(name: str, **tensors: torch.Tensor) -> MemoryStore:
    store = MemoryStore(f"memory-{name}")
    with Publisher(store) as publisher:
        publisher.publish(tensors)
    return store


def numpy_pair(*slices: slice) -> dict[str, object]:
    memory = np.zeros(8, np.float32)
    return {name: memory[place] for name, place in zip("ab", slices, strict=True)}


def torch_pair(*slices: slice) -> dict[str, object]:
    memory = torch.zeros(8)
    return {name: memory[place] for name, place in zip("ab", slices, strict=True)}


@pytest.mark.parametrize("pair", [numpy_pair, torch_pair])
@pytest.mark.parametrize("second", [slice(0, 4), slice(3, 7)], ids=["tied", "overlapping"])
def test_a_target_that_ties_what_the_stream_keeps_apart_is_refused(
    pair: Callable[..., dict[str, object]], second: slice
) -> None:
    store = stream(f"tied-{pair.__name__}-{second.start}", a=torch.ones(4), b=torch.full((4,), 2.0))
    target = pair(slice(0, 4), second)
    with Follower(store, target) as follower, pytest.raises(TargetMismatchError, match="share memory"):
        follower.poll()
    assert not np.asarray(target["a"]).any()
    with Follower(store, target, tensors=["b"]) as follower:  # no harm is done by one of them
        follower.poll()
        follower.verify()


@pytest.mark.parametrize("pair", [numpy_pair, torch_pair])
def test_neighbours_in_one_memory_are_not_tied(pair: Callable[..., dict[str, object]]) -> None:
    store = stream(f"apart-{pair.__name__}", a=torch.ones(4), b=torch.full((4,), 2.0))
    with Follower(store, pair(slice(4, 8), slice(0, 4))) as follower:
        follower.poll()
        follower.verify()


def conjugated() -> torch.Tensor:
    return torch.ones(3, dtype=torch.complex64).conj()


def negated() -> torch.Tensor:
    return conjugated().imag


def meta() -> torch.Tensor:
    return torch.empty(3, device="meta")


def sparse() -> torch.Tensor:
    return torch.eye(3).to_sparse()


@pytest.mark.parametrize("make", [conjugated, negated, meta, sparse])
def test_tensors_whose_memory_is_not_their_bits_are_refused(make: Callable[[], torch.Tensor]) -> None:
    store = stream(f"bits-{make.__name__}", a=torch.zeros(3))
    with Publisher(store) as publisher, pytest.raises(InvalidStateError, match="'a' is a"):
        publisher.publish({"a": make()})
    with pytest.raises(InvalidStateError, match="'a' is a"):
        Follower(store, {"a": make()})
