"""Hypothesis strategies shared by the tests: dtypes, shapes, bit patterns and states that follow from each other.

A state is a ``State``: flat bit patterns by tensor name, with dtypes, logical shapes and aliases. Nothing here is a
number: values are drawn as bits, so NaN payloads, -0.0 and denormals are as common as anything else.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from deltawire.format.dtypes import DTYPES, Bits, Dtype, storage_shape
from deltawire.format.tensors import TensorTable, build_table
from deltawire.limits import DEFAULT_LIMITS

UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""No test fails because the machine is busy."""
settings.register_profile("deltawire", UNTIMED, max_examples=60, derandomize=True, database=None)
settings.register_profile("explore", UNTIMED, max_examples=1000)


def load_profile() -> None:
    """The same examples in every run, unless HYPOTHESIS_PROFILE=explore asks for many new ones."""
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "deltawire"))


ALL_DTYPES = tuple(DTYPES.values())
WIDTHS = (1, 2, 4, 8)


def dtypes() -> st.SearchStrategy[Dtype]:
    """Any dtype of the registry."""
    return st.sampled_from(ALL_DTYPES)


@st.composite
def shapes(draw: st.DrawFn, dtype: Dtype | None = None, *, max_side: int = 6) -> tuple[int, ...]:
    """Logical shapes of rank 0 to 4, empty ones too; of a sub-byte dtype, only such as fill whole bytes."""
    shape = tuple(draw(st.lists(st.integers(0, max_side), max_size=4)))
    if dtype is not None and dtype.packed and math.prod(shape) * dtype.bits % 8:
        whole = 8 // math.gcd(8, dtype.bits)
        shape = (*shape[:-1], (shape[-1] if shape else 1) * whole)
    return shape


def special_bits(dtype: Dtype) -> list[int]:
    """Patterns at which sign-magnitude order, wrapping or NaNs could go wrong."""
    top = 1 << (8 * dtype.width - 1)
    exponent = {"F16": 0x7C00, "BF16": 0x7F80, "F32": 0x7F800000, "F64": 0x7FF0000000000000}.get(dtype.name, top >> 1)
    return [0, 1, top - 1, top, top + 1, 2 * top - 1, exponent, exponent | 1, exponent | top, exponent - 1]


@st.composite
def bit_arrays(draw: st.DrawFn, dtype: Dtype, size: int) -> Bits:
    """Flat bit patterns: noise, one repeated value, or edge patterns."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind = draw(st.sampled_from(("noise", "constant", "special", "mixed")))
    top = 1 << (8 * dtype.width)
    if kind == "constant":
        return np.full(size, draw(st.integers(0, top - 1)), dtype.storage)
    noise = np.frombuffer(rng.bytes(size * dtype.width), dtype.storage).copy()
    special = rng.choice(np.array(special_bits(dtype), dtype.storage), size)
    if kind == "noise":
        return noise
    if kind == "special":
        return special
    return np.where(rng.random(size) < 0.5, noise, special).astype(dtype.storage)


CHANGES = ("none", "one", "few", "ends", "step", "negate", "run", "all")


@st.composite
def next_bits(draw: st.DrawFn, old: Bits, dtype: Dtype, changes: tuple[str, ...] = CHANGES) -> Bits:
    """What a flat array may have become one version later."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind = draw(st.sampled_from(changes))
    new = old.copy()
    if kind == "none" or not old.size:
        return new
    size = old.size
    one = np.array(1, dtype.storage)
    if kind == "one":
        new[int(rng.integers(size))] ^= np.array(1 << int(rng.integers(8 * dtype.width)), dtype.storage)
    elif kind == "few":
        where = rng.random(size) < 0.05
        new[where] = np.frombuffer(rng.bytes(int(where.sum()) * dtype.width), dtype.storage)
    elif kind == "ends":
        new[[0, -1]] ^= one
    elif kind == "step":  # what an optimizer does: most changes are one unit in the last place
        where = rng.random(size) < 0.3
        new[where] = np.where(rng.random(int(where.sum())) < 0.5, new[where] + one, new[where] - one)
    elif kind == "negate":  # 0.0 becomes -0.0
        where = rng.random(size) < 0.5
        new[where] ^= np.array(1 << (8 * dtype.width - 1), dtype.storage)
    elif kind == "run":
        first = int(rng.integers(size))
        last = int(rng.integers(first, size)) + 1
        new[first:last] = ~new[first:last]
    else:
        new = ~new
    return new


@st.composite
def changed_pairs(draw: st.DrawFn, dtype: Dtype, *, max_size: int = 700) -> tuple[Bits, Bits]:
    """Flat old and new bits of equal size."""
    size = draw(st.one_of(st.integers(0, 20), st.integers(0, max_size)))
    old = draw(bit_arrays(dtype, size))
    return old, draw(next_bits(old, dtype))


@dataclass(frozen=True)
class State:
    """A model state as a store of bits."""

    bits: dict[str, Bits]
    dtypes: dict[str, Dtype]
    shapes: dict[str, tuple[int, ...]]
    aliases: dict[str, str] = field(default_factory=dict)

    def table(self) -> TensorTable:
        """The tensor table of this state."""
        entries = [(name, self.dtypes[name].name, self.shapes[name]) for name in self.bits]
        return build_table(entries, aliases=self.aliases, limits=DEFAULT_LIMITS)

    def arrays(self) -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.unsignedinteger]]]:
        """Arrays of bit patterns to publish; aliases are the same arrays."""
        made = {name: bits.copy().reshape(self.stored_shape(name)) for name, bits in self.bits.items()}
        return made | {alias: made[name] for alias, name in self.aliases.items()}

    def dtype_names(self) -> dict[str, str]:
        """Registry names by tensor name, aliases included."""
        names = {name: dtype.name for name, dtype in self.dtypes.items()}
        return names | {alias: names[name] for alias, name in self.aliases.items()}

    def stored_shape(self, name: str) -> tuple[int, ...]:
        """Shape of the array that holds a tensor's bits: packed dtypes have whole bytes along the last dimension."""
        shape, dtype = self.shapes[name], self.dtypes[name]
        if not dtype.packed:
            return shape
        last = shape[-1] * dtype.bits
        return (*shape[:-1], last // 8) if last % 8 == 0 else storage_shape(dtype, shape)


def same_bits(found: Mapping[str, np.ndarray[tuple[int, ...], np.dtype[np.generic]]], state: State) -> bool:
    """Whether arrays hold exactly a state, aliases included, bit for bit."""
    names = set(state.bits) | set(state.aliases)
    return set(found) == names and all(
        np.ascontiguousarray(found[name]).tobytes() == state.bits[state.aliases.get(name, name)].tobytes()
        for name in names
    )


@st.composite
def states(draw: st.DrawFn, *, max_tensors: int = 4, aliases: bool = True) -> State:
    """A state of a few tensors of any dtypes and shapes, some of them tied."""
    bits: dict[str, Bits] = {}
    kinds: dict[str, Dtype] = {}
    places: dict[str, tuple[int, ...]] = {}
    for index in range(draw(st.integers(1, max_tensors))):
        dtype = draw(dtypes())
        shape = draw(shapes(dtype))
        if dtype.packed:  # an array of bytes can only hold these along its last dimension
            whole = 8 // math.gcd(8, dtype.bits)
            shape = (*shape[:-1], -(-(shape[-1] if shape else 1) // whole) * whole)
        name = f"layer.{index}.weight"
        kinds[name], places[name] = dtype, shape
        bits[name] = draw(bit_arrays(dtype, math.prod(storage_shape(dtype, shape))))
    tied = {}
    if aliases and draw(st.booleans()):
        full = [name for name in bits if bits[name].size]
        if full:
            tied = {"lm_head.weight": draw(st.sampled_from(full))}
    return State(bits, kinds, places, tied)


@st.composite
def next_states(draw: st.DrawFn, state: State) -> State:
    """The same table, other bits."""
    bits = {name: draw(next_bits(old, state.dtypes[name])) for name, old in state.bits.items()}
    return replace(state, bits=bits)


codec_options: st.SearchStrategy[dict[str, Any]] = st.sampled_from([{}, {"absolute": True}, {"ranked": True}])
"""What a publisher is told of the codecs of its stream."""


@st.composite
def lines(draw: st.DrawFn, *, max_versions: int = 4, rebase: bool = True) -> list[State]:
    """States of successive versions; now and then the table changes."""
    line = [draw(states())]
    for _ in range(draw(st.integers(1, max_versions - 1))):
        if rebase and draw(st.integers(0, 5)) == 0:
            line.append(draw(states()))
        else:
            line.append(draw(next_states(line[-1])))
    return line
