"""Synthetic models with steps that look like training: about one element in a hundred moves by one or two ULP."""

import time
from collections.abc import Callable
from typing import NotRequired, TypedDict

import numpy as np
import numpy.typing as npt

Bits16 = npt.NDArray[np.uint16]


class Figure(TypedDict):
    """One line of a report."""

    figure: str
    value: str
    note: str
    data: NotRequired[dict[str, object]]
    """Numbers for plots, as JSON has them."""


def weights(elements: int, *, seed: int) -> Bits16:
    """Gaussian weights of standard deviation 0.02 as bf16 bit patterns."""
    rng = np.random.default_rng(seed)
    out = np.empty(elements, np.uint16)
    for start in range(0, elements, 1 << 22):
        run = out[start : start + (1 << 22)]
        run[:] = (rng.standard_normal(run.size, np.float32) * np.float32(0.02)).view(np.uint32) >> 16
    return out


def step(old: Bits16, changed: int, *, seed: int) -> Bits16:
    """A copy in which ``changed`` distinct elements moved by one or two ULP."""
    rng = np.random.default_rng(seed)
    where = np.unique(rng.integers(0, old.size, changed + changed // 8))
    where = rng.permutation(where)[:changed]
    new = old.copy()
    new[where] ^= rng.choice(np.array([1, 3], np.uint16), where.size)
    return new


def best(run: Callable[[], object], *, times: int = 5) -> float:
    """Shortest of several runs in seconds, after one that does not count."""
    run()
    found = []
    for _ in range(times):
        started = time.perf_counter()
        run()
        found.append(time.perf_counter() - started)
    return min(found)


def best_cpu(run: Callable[[], object], *, times: int = 15) -> float:
    """Least processor time of several runs in seconds, of all threads together, after one that does not count.

    What else the machine does takes time on the clock, and much less of it here.
    """
    run()
    found = []
    for _ in range(times):
        started = time.process_time()
        run()
        found.append(time.process_time() - started)
    return min(found)
