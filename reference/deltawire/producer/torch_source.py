"""Torch tensors and modules as a source."""

from __future__ import annotations

from typing import Any

from deltawire.errors import InvalidStateError
from deltawire.format.dtypes import Bits
from deltawire.producer.sources import Source
from deltawire.torch_bits import DTYPE_NAMES, flat_bits, logical_shape, named_tensors, to_numpy


class TorchSource(Source):
    """A module's ``state_dict`` or a mapping of tensors; tensors that share their memory are aliases (TAB-4)."""

    def __init__(self, state: Any) -> None:
        self._tensors = named_tensors(state)
        self._aliases: dict[str, str] = {}
        entries = []
        seen: dict[tuple[object, ...], str] = {}
        for name, tensor in self._tensors.items():
            place = (tensor.device, tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype)
            if tensor.numel() and place in seen:
                self._aliases[name] = seen[place]
                continue
            seen[place] = name
            if tensor.dtype not in DTYPE_NAMES:
                raise InvalidStateError(f"{name!r} has the torch type {tensor.dtype}, which has no name in safetensors")
            entries.append((name, DTYPE_NAMES[tensor.dtype], logical_shape(tensor)))
        self._entries = tuple(entries)

    @property
    def entries(self) -> tuple[tuple[str, str, tuple[int, ...]], ...]:
        return self._entries

    @property
    def aliases(self) -> dict[str, str]:
        return self._aliases

    def bits(self, name: str) -> Bits:
        return to_numpy(flat_bits(self._tensors[name].contiguous()))
