"""The model that is published: bit patterns of several widths, a few of which change from version to version."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

State = dict[str, npt.NDArray[Any]]

DTYPES = {"embed": "BF16", "norm": "BF16", "extra": "F8_E4M3"}
REBASE_EVERY = 20
"""Versions with and without the tensor ``extra`` take turns."""
_STRIDE = 100
_SHAPES: dict[str, tuple[type[np.unsignedinteger[Any]], tuple[int, ...]]] = {
    "embed": (np.uint16, (256, 192)),
    "extra": (np.uint8, (500,)),
    "layer": (np.uint32, (40, 25)),
    "norm": (np.uint16, (48,)),
    "scale": (np.uint64, (7,)),
}


def first_state(seed: int) -> State:
    """What every writer begins with; any bits, NaN payloads and -0.0 among them."""
    rng = np.random.default_rng(seed)
    return {
        name: rng.integers(0, np.iinfo(kind).max, shape, kind, endpoint=True) for name, (kind, shape) in _SHAPES.items()
    }


def change(state: State, rng: np.random.Generator) -> None:
    """Give a few elements other bits; of all writers the same few, so that their states do not drift apart."""
    for array in state.values():
        flat = array.reshape(-1)[::_STRIDE]
        where = rng.integers(0, flat.size, rng.integers(0, 1 + flat.size // 5))
        flat[where] = rng.integers(0, np.iinfo(array.dtype).max, where.size, array.dtype, endpoint=True)


def published(state: State, version: int) -> State:
    """The state as it is published in a version."""
    wide = version // REBASE_EVERY % 2 == 1
    return {name: array for name, array in state.items() if wide or name != "extra"}


def content_of(tensors: Iterable[tuple[str, npt.NDArray[Any]]]) -> str:
    """A sha256 over all bits, which knows nothing of state digests."""
    total = hashlib.sha256()
    for name, bits in sorted(tensors, key=lambda item: item[0]):
        total.update(name.encode() + b"\0" + np.ascontiguousarray(bits).tobytes())
    return total.hexdigest()
