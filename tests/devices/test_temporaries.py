"""What torch allocates besides the tensors themselves: bounded by the size of a run, however large a tensor is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

from deltawire import torch_digest
from deltawire.format.boxes import Box
from deltawire.format.dtypes import Bits
from deltawire.format.tensors import Tensor, build_table
from deltawire.kernels.scan import Room
from deltawire.limits import DEFAULT_LIMITS
from deltawire.producer.base import BaseState
from deltawire.producer.encoding import Encoder
from deltawire.producer.torch_comparing import HeldOnDevice, SourceOnDevice, TorchPair
from deltawire.targets.torch_access import TorchBits, Write, scatter_all
from deltawire.torch_bits import from_numpy
from tests.devices.layouts import laid_out, small_boxes

RUN = 1 << 12
ELEMENTS = 64 * RUN + 5
BOUND = 8 * RUN + 1024
"""An index of 64 bits for each element of a run, which ``torch.nonzero`` makes of a run that changed entirely."""


@dataclass
class Recorded:
    """What operations of torch made."""

    largest: int = 0
    """Bytes of the largest new tensor."""
    calls: list[str] = field(default_factory=list)

    def count(self, *names: str) -> int:
        return sum(call.split(".")[0] in names for call in self.calls)


class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self, into: Recorded) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._into = into

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = {_memory(item) for item in tree_flatten((args, kwargs or {}))[0] if isinstance(item, torch.Tensor)}
        found = func(*args, **(kwargs or {}))
        self._into.calls.append(func.__name__)
        for item in tree_flatten(found)[0]:
            if isinstance(item, torch.Tensor) and _memory(item) not in given:
                self._into.largest = max(self._into.largest, item.untyped_storage().nbytes())
        return found


def _memory(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


@contextmanager
def recording() -> Iterator[Recorded]:
    recorded = Recorded()
    with Recorder(recorded):
        yield recorded


def tensor_of(elements: int) -> Tensor:
    return build_table([("w", "BF16", (elements,))], limits=DEFAULT_LIMITS).tensors[0]


def states(share: float, layout: str = "contiguous") -> tuple[Bits, torch.Tensor, int]:
    """Old bits, a new tensor, and how many elements differ."""
    rng = np.random.default_rng(0)
    old = rng.integers(0, 1 << 16, (ELEMENTS, 1), np.uint16)
    hit = rng.random(old.shape) < share
    new = np.bitwise_xor(old, hit, dtype=np.uint16)
    return old.reshape(-1), laid_out(from_numpy(new), layout), int(hit.sum())


def pairs(where: np.ndarray[Any, Any], bits: np.ndarray[Any, Any]) -> Iterator[tuple[int, int]]:
    return zip(where.tolist(), bits.tolist(), strict=True)


def test_what_is_recorded() -> None:
    with recording() as recorded:
        some = torch.zeros(100, dtype=torch.int32)
        some.view(torch.int16)[5:].add_(1)
    assert recorded.largest == 400
    with recording() as recorded:
        assert int(some.to(torch.int64).sum())
    assert recorded.largest == 800
    assert recorded.count("_local_scalar_dense") == 1


@pytest.mark.parametrize("share", [0.0, 0.01, 0.2, 1.0])
@pytest.mark.parametrize("layout", ["contiguous", "every second"])
def test_comparing_and_advancing(share: float, layout: str) -> None:
    old, new, changed = states(share, layout)
    info = tensor_of(ELEMENTS)
    source = SourceOnDevice(new, device_base=True)
    held = HeldOnDevice(from_numpy(old.copy()))
    room = Room(RUN)
    with small_boxes(RUN), recording() as recorded:
        for whole_from in (RUN // 4, RUN + 1):
            found = 0
            for start in range(0, ELEMENTS, RUN):
                stop = min(start + RUN, ELEMENTS)
                change = TorchPair(held, source).change(start, stop, room, whole_from=whole_from)
                if change is not None:
                    found += len(change.changes.positions)
                    assert change.old.tobytes() == old[start:stop].tobytes()
                    assert change.new.size == change.elements == stop - start
            assert found == changed
        kept: dict[int, int] = {}
        pair = TorchPair(held, source)
        digest = held.digest(info)
        moved = pair.advance(
            info, run=RUN, keep=lambda *notes: kept.update(zip(*map(np.ndarray.tolist, notes), strict=True))
        )
    differs = np.flatnonzero(old != new.reshape(-1).numpy().view(np.uint16))
    assert kept == dict(pairs(differs, old[differs]))
    assert (digest + moved) % (1 << 64) == HeldOnDevice(source.run(0, ELEMENTS)).digest(info)
    assert 2 * RUN <= recorded.largest <= BOUND
    assert held.flat.tolist() == new.reshape(-1).tolist()


def test_the_largest_temporary_is_the_indices_of_a_run() -> None:
    old, new, _ = states(1.0)
    pair = TorchPair(HeldOnDevice(from_numpy(old)), SourceOnDevice(new, device_base=True))
    with recording() as recorded:
        pair.change(0, RUN, Room(RUN), whole_from=1)
        pair.advance(tensor_of(ELEMENTS), run=RUN, keep=None)
    assert recorded.largest <= BOUND


@pytest.mark.parametrize("strided", [False, True])
def test_digests(strided: bool) -> None:
    info = tensor_of(ELEMENTS)
    _, new, _ = states(0.0, "every second" if strided else "contiguous")
    with recording() as recorded:
        torch_digest.digest(new.view(torch.bfloat16), info, run=RUN)
    assert recorded.largest <= BOUND


def test_sparse_rows_copy_out_little_more_than_what_changed() -> None:
    old, new, changed = states(0.01)
    pair = TorchPair(HeldOnDevice(from_numpy(old)), SourceOnDevice(new, device_base=True))
    with recording() as recorded:
        row = Encoder().row(tensor_of(ELEMENTS), Box((0,), (ELEMENTS,)), pair, Room(ELEMENTS))
    assert row is not None
    assert row.changed == changed
    assert recorded.count("cat") == 1, "positions, old and new bits travel together"
    # And all the rest of the box stays where it is: its copy, the mask and the 64-bit indices are there.
    assert recorded.count("clone", "_to_copy") <= 2


@pytest.mark.parametrize("device_base", [True, False])
def test_reading_a_base_and_moving_it(device_base: bool) -> None:
    _, new, _ = states(0.0, "every second")
    table = build_table([("w", "BF16", (ELEMENTS,))], limits=DEFAULT_LIMITS)
    source = SourceOnDevice(new, device_base=device_base)
    with small_boxes(RUN), recording() as recorded:
        held = source.hold()
        largest = recorded.largest
        recorded.largest = 0
        base = BaseState(table, [held])
        data = b"".join(base.read(table.tensors[0]))
        frozen = b"".join(base.read_frozen(base.freeze(), table.tensors[0]))
        before = recorded.largest
        SourceOnDevice(new, device_base=not device_base).beside(held)
    assert data == frozen == new.contiguous().numpy().tobytes()
    whole = 2 * ELEMENTS
    assert largest == (whole if device_base else 2 * RUN)
    assert before <= BOUND
    assert recorded.largest <= whole


@pytest.mark.parametrize("share", [0.01, 1.0])
def test_gathering_and_scattering(share: float) -> None:
    rng = np.random.default_rng(0)
    flat = from_numpy(rng.integers(0, 1 << 16, ELEMENTS, np.uint16))
    where = np.flatnonzero(rng.random(ELEMENTS) < share).astype(np.uint32)
    new = rng.integers(0, 1 << 16, where.size, np.uint16)
    with small_boxes(RUN), recording() as recorded:
        TorchBits(flat).gather(where)
        TorchBits(flat).scatter(where, new)
    assert recorded.largest <= BOUND
    assert TorchBits(flat).gather(where).tolist() == new.tolist()


@pytest.mark.parametrize("rows", [2, 200])
def test_a_swap_waits_for_no_row(rows: int) -> None:
    tensors = [torch.zeros(100, dtype=torch.int16) for _ in range(rows)]
    where = np.arange(0, 100, 3, dtype=np.uint32)
    new = np.ones(where.size, np.uint16)
    writes = [Write(flat, where if n % 2 else slice(10, 44), new) for n, flat in enumerate(tensors)]
    with recording() as recorded:
        scatter_all(writes)
    assert all(int(flat.sum()) == 34 for flat in tensors)
    assert recorded.count("_local_scalar_dense", "nonzero", "is_nonzero", "equal") == 0
    assert recorded.count("empty", "_to_copy") == 2, "one buffer, and its narrow indices widened"
    assert recorded.count("index_put_", "copy_", "_index_put_impl_") == rows
