"""A state in a torch module or a dict of torch tensors, on any device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from deltawire.errors import TargetMismatchError
from deltawire.format.tensors import Tensor, TensorTable
from deltawire.targets.arrays import NumpyBits, spooled
from deltawire.targets.base import Change, Held, InMemoryTarget, TensorBits, check_apart, exchange_in_memory
from deltawire.targets.torch_access import TorchBits, Write, scatter_all
from deltawire.torch_bits import DTYPE_NAMES, flat_bits, logical_shape, named_tensors, to_numpy


class TorchTarget(InMemoryTarget):
    """Parameters and buffers, changed in place. A snapshot is spooled to a file and copied when it is verified.

    Nothing else may read or write the tensors while a step is applied; when that returns, it is done on every device.

    Args:
        source: a module or a mapping of tensors, on any devices.
        as_device: treat tensors on the CPU as if they were on an accelerator.
    """

    def __init__(self, source: Any, *, as_device: bool = False) -> None:
        self._tensors = named_tensors(source)
        self._as_device = as_device
        self._bits: dict[str, TensorBits] = {}
        self._next: dict[str, TensorBits] = {}
        self._spool: dict[str, NumpyBits] | None = None
        super().__init__()

    def bits(self, tensor: Tensor) -> TensorBits:
        return self._bits[tensor.name] if self._spool is None else self._spool[tensor.name]

    def begin_snapshot(self, table: TensorTable, selected: Sequence[Tensor]) -> None:
        aliases: dict[str, list[str]] = {}
        for alias, name in table.aliases.items():
            aliases.setdefault(name, []).append(alias)
        own = {tensor.name: self._own(tensor, aliases.get(tensor.name, [])) for tensor in selected}
        for device in {tensor.device for tensor in own.values()}:
            check_apart((t.data_ptr(), t.nbytes, name) for name, t in own.items() if t.device == device)
        self._next = {name: self._bits_of(tensor) for name, tensor in own.items()}
        self._spool = spooled(selected)

    def end_snapshot(self, held: Held) -> None:
        spool = self._spool
        assert spool is not None  # noqa: S101 - begin_snapshot came first
        self._spool = None
        before, self._held = self._held, None  # nothing complete is there for the moment
        states = ((own, spool[name].flat) for name, own in self._next.items())
        if failure := exchange_in_memory(states, keep=before is not None):
            self._held = before
            raise failure
        self._bits, self._held = self._next, held

    def abort_snapshot(self) -> None:
        self._spool = None

    def _own(self, tensor: Tensor, aliases: Sequence[str]) -> torch.Tensor:
        names = [name for name in (tensor.name, *aliases) if name in self._tensors]
        if not names:
            raise TargetMismatchError(f"the target has no tensor {tensor.name!r}")
        places = {self._tensors[name].data_ptr() for name in names}
        own = self._tensors[names[0]]
        have = (DTYPE_NAMES.get(own.dtype, str(own.dtype)), logical_shape(own))
        if have != (tensor.dtype.name, tensor.shape):
            want = f"{tensor.dtype.name} {list(tensor.shape)}"
            raise TargetMismatchError(f"the target's {names[0]!r} is {have[0]} {list(have[1])}, the stream's is {want}")
        if not own.is_contiguous():
            raise TargetMismatchError(f"the target's {names[0]!r} is not contiguous")
        if len(places) > 1:
            raise TargetMismatchError(f"{names} are one tensor in the stream, but not in the target")
        return own

    def _bits_of(self, tensor: torch.Tensor) -> TensorBits:
        flat = flat_bits(tensor)
        here = tensor.device.type == "cpu" and not self._as_device
        return NumpyBits(to_numpy(flat)) if here else TorchBits(flat)

    def _write(self, changes: Sequence[Change]) -> BaseException | None:
        places = [(change, self.bits(change.tensor)) for change in changes]
        here = [change for change, bits in places if not isinstance(bits, TorchBits)]
        there = [(change, bits.flat) for change, bits in places if isinstance(bits, TorchBits)]
        if failure := super()._write(here):
            return failure
        try:
            scatter_all(Write(flat, change.where, change.new) for change, flat in there)
        except BaseException as error:  # noqa: BLE001 - returned
            # Of all of them: how far a device has come is not known, and old bits that are still there stay so.
            scatter_all(Write(flat, change.where, change.old) for change, flat in there)
            for change in here:
                self.bits(change.tensor).scatter(change.where, change.old)
            return error
        return None
