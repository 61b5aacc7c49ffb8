"""Torch tensors and modules as a source."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import torch

from deltawire.errors import InvalidStateError
from deltawire.format.dtypes import Bits
from deltawire.producer.comparing import SourceTensor
from deltawire.producer.source import Source, find_aliases
from deltawire.producer.torch_comparing import SourceOnDevice
from deltawire.torch_bits import DTYPE_NAMES, logical_shape, named_tensors, settle, strided_bits, to_numpy


class TorchSource(Source):
    """A module's ``state_dict`` or a mapping of tensors; tensors that share their memory are aliases (TAB-4).

    Args:
        state: tensors on any devices.
        device_base: keep the base of tensors that are on an accelerator there too.
        as_device: treat tensors on the CPU as if they were on an accelerator.
    """

    def __init__(self, state: Any, *, device_base: bool = True, as_device: bool = False) -> None:
        self._tensors = named_tensors(state)
        self._device_base = device_base
        self._as_device = as_device
        self.aliases = find_aliases(self._tensors, _place)
        own = {name: tensor for name, tensor in self._tensors.items() if name not in self.aliases}
        for name, tensor in own.items():
            if tensor.dtype not in DTYPE_NAMES:
                raise InvalidStateError(f"{name!r} has the torch type {tensor.dtype}, which has no name in safetensors")
        self.entries = tuple((name, DTYPE_NAMES[tensor.dtype], logical_shape(tensor)) for name, tensor in own.items())

    def bits(self, name: str) -> Bits:
        # As bits: torch makes every BOOL 0 or 1 when it copies it as such.
        return to_numpy(strided_bits(self._tensors[name]).contiguous().view(-1))

    def tensor(self, name: str) -> SourceTensor:
        tensor = self._tensors[name]
        if tensor.device.type == "cpu" and not self._as_device:
            return super().tensor(name)
        return SourceOnDevice(tensor, device_base=self._device_base)

    def settle(self) -> None:
        settle(tensor.device for tensor in self._tensors.values())


def _place(tensor: torch.Tensor) -> Hashable:
    if not tensor.numel():
        return None
    return tensor.device, tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype
