"""Entropies, on data of which they are known."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given

from benchmarks.bounds import bounds, ulps
from benchmarks.peers import Bits16
from tests.benchmarks.states import steps

ONE, TWO = 0x3F80, 0x4000  # bf16 of 1.0 and 2.0


def test_nothing_changed() -> None:
    state = {"weight": np.full(100, ONE, np.uint16)}
    found = bounds(state, state)
    assert (found.independent, found.given_exponent) == (0, 0)


def test_positions() -> None:
    """One change in four of the same difference: 4 x (1/4 log 4 + 3/4 log 4/3) bits for each four elements."""
    old = np.full(64, ONE, np.uint16)
    new = old.copy()
    new[::4] += 1
    found = bounds({"weight": old}, {"weight": new})
    assert found.independent == pytest.approx(64 * 0.811278 / 8, rel=1e-5)
    assert found.given_exponent == pytest.approx(found.independent)


def test_differences() -> None:
    """All change, by one ULP up or down with equal chance: a bit each."""
    old = np.full(64, ONE, np.uint16)
    new = old + np.tile(np.array([1, 0xFFFF], np.uint16), 32)
    found = bounds({"weight": old}, {"weight": new})
    assert found.independent == pytest.approx(8)


def test_exponents_tell_all() -> None:
    """All that are 1.0 move up, all that are 2.0 stay: to know the old state is to know the new one."""
    old = np.tile(np.array([ONE, TWO], np.uint16), 32)
    new = np.where(old == ONE, ONE + 1, old).astype(np.uint16)
    found = bounds({"weight": old}, {"weight": new})
    assert found.independent == pytest.approx(8)
    assert found.given_exponent == 0


def test_tensors_are_apart() -> None:
    """A tensor that changes throughout and one that does not: which one it is need not be told."""
    old = {"a": np.full(64, ONE, np.uint16), "b": np.full(64, ONE, np.uint16)}
    found = bounds(old, {"a": old["a"] + 1, "b": old["b"]})
    assert found.independent == 0


@given(step=steps())
def test_knowing_more_is_never_worse(step: tuple[Mapping[str, Bits16], Mapping[str, Bits16]]) -> None:
    found = bounds(*step)
    assert 0 <= found.given_exponent <= found.independent + 1e-6


def test_ulps() -> None:
    bits = np.array([0xFF80, 0x8001, 0x8000, 0, 1, 0x7F80], np.uint16)
    assert ulps(bits).tolist() == [-0x7F80, -1, 0, 0, 1, 0x7F80]
