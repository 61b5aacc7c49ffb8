"""State digests of whole tensors, wherever they are (SPEC.md section 10)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from deltawire.format.tensors import Tensor
from deltawire.targets.base import Held, Target, TensorBits

_RUN = 1 << 22
_MASK = (1 << 64) - 1
_THREADS = min(8, os.cpu_count() or 1)

_Run = tuple[TensorBits, Tensor, int, int]
"""Elements of a tensor from a first one up to an end."""


def state_digest_of(bits: TensorBits, tensor: Tensor) -> int:
    """One tensor's share of the state digest, a run of elements at a time (DIG-2)."""
    return _digest([(bits, tensor, start, stop) for start, stop in _cuts(tensor)])


def digest_held(target: Target, held: Held) -> int:
    """Digest of all that a target holds, element by element, on several threads where it may be read by them. DIG-6"""
    tensors = [(target.bits(tensor), tensor) for tensor in held.tensors]
    if not all(bits.concurrent for bits, _ in tensors):
        return sum(state_digest_of(bits, tensor) for bits, tensor in tensors) & _MASK
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="deltawire-digest") as pool:
        return sum(pool.map(_digest, _grouped(tensors))) & _MASK


def _digest(runs: Sequence[_Run]) -> int:
    return sum(bits.digest(start, stop, tensor.seed) for bits, tensor, start, stop in runs) & _MASK


def _cuts(tensor: Tensor) -> Iterator[tuple[int, int]]:
    for start in range(0, tensor.elements, _RUN):
        yield start, min(start + _RUN, tensor.elements)


def _grouped(tensors: Sequence[tuple[TensorBits, Tensor]]) -> Iterator[list[_Run]]:
    """Runs of all tensors, small ones together: enough elements for a thread to be worth its while."""
    group: list[_Run] = []
    elements = 0
    for bits, tensor in tensors:
        for start, stop in _cuts(tensor):
            group.append((bits, tensor, start, stop))
            elements += stop - start
            if elements >= _RUN:
                yield group
                group, elements = [], 0
    yield group
