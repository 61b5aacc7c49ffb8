"""What the reference publishes is read by a consumer that was written from SPEC.md alone."""

from __future__ import annotations

import uuid
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltawire import AnchorPolicy, Publisher
from deltawire.errors import ObjectNotFoundError
from deltawire.format.dtypes import DTYPES
from deltawire.store.memory import MemoryStore
from tests.spec.plain_consumer import Get, read_version
from tests.strategies import codec_options

WIDTHS = {name: dtype for name, dtype in DTYPES.items() if not dtype.packed}


def _getter(store: MemoryStore) -> Get:
    def get(key: str) -> bytes | None:
        try:
            return store.get(key, max_bytes=1 << 30).data
        except ObjectNotFoundError:
            return None

    return get


def _random(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> Any:
    bits = rng.integers(0, 256, (*shape, WIDTHS[dtype].width), np.uint8)
    return np.ascontiguousarray(bits).view(WIDTHS[dtype].storage).reshape(shape)


@settings(max_examples=15, deadline=None, derandomize=True)
@given(
    dtypes=st.lists(st.sampled_from(sorted(WIDTHS)), min_size=1, max_size=4),
    shapes=st.lists(st.sampled_from([(), (1,), (7,), (3, 5), (2, 3, 4), (0, 3), (40, 30)]), min_size=4, max_size=4),
    densities=st.lists(st.sampled_from([0.0, 0.004, 0.1, 0.5, 1.0]), min_size=3, max_size=3),
    codecs=codec_options,
    every=st.sampled_from([None, 1, 2]),
    seed=st.integers(0, 2**32 - 1),
)
def test_every_version_is_read_bit_for_bit(
    dtypes: list[str],
    shapes: list[tuple[int, ...]],
    densities: list[float],
    codecs: dict[str, Any],
    every: int | None,
    seed: int,
) -> None:
    rng = np.random.default_rng(seed)
    names = {f"t{index}": dtype for index, dtype in enumerate(dtypes)}
    state = {name: _random(rng, dtype, shapes[index]) for index, (name, dtype) in enumerate(names.items())}
    store = MemoryStore(f"plain/{uuid.uuid4().hex}")
    expected = []
    with Publisher(store, **codecs, anchors=AnchorPolicy(every=every, outweigh=None)) as publisher:
        for density in [0.0, *densities]:
            for name, dtype in names.items():
                fresh = _random(rng, dtype, state[name].shape)
                state[name] = np.where(rng.random(state[name].shape) < density, fresh, state[name])
            publisher.publish(state, dtypes=names)
            publisher.wait_for_anchor()
            expected.append({name: array.tobytes() for name, array in state.items()})
    for version, tensors in enumerate(expected):
        record, held = read_version(_getter(store), version)
        assert record["version"] == version
        assert held == tensors


def test_small_steps_of_real_numbers() -> None:
    """Differences of one unit in the last place, over zero and over powers of two."""
    store = MemoryStore(f"plain/{uuid.uuid4().hex}")
    state = {"w": np.array([1.0, -1.0, 0.0, -0.0, 2.0, -2.0, np.inf, np.nan] * 40, np.float32)}
    with Publisher(store, anchors=AnchorPolicy(every=None, outweigh=None)) as publisher:
        publisher.publish(state)
        for step in (1, -2):
            state["w"].view(np.int32)[::9] += step
            state["w"][3] = -state["w"][3]
            publisher.publish(state)
    _, held = read_version(_getter(store), 2)
    assert held["w"] == state["w"].tobytes()


def test_it_notices_a_wrong_byte() -> None:
    store = MemoryStore(f"plain/{uuid.uuid4().hex}")
    state = {"w": np.arange(100, dtype=np.float32)}
    with Publisher(store, anchors=AnchorPolicy(every=None, outweigh=None)) as publisher:
        publisher.publish(state)
        state["w"][5] += 1
        publisher.publish(state)
    get = _getter(store)

    def damaged(key: str) -> bytes | None:
        data = get(key)
        return data if data is None or not key.endswith(".arrow") else data[:-1] + bytes([data[-1] ^ 1])

    with pytest.raises(AssertionError):
        read_version(damaged, 1)
