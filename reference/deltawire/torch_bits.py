"""Torch tensors as bit patterns, on whatever device they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from deltawire.errors import InvalidStateError, MissingDependencyError
from deltawire.format.dtypes import Bits, Dtype
from deltawire.format.tensors import Tensor
from deltawire.targets.base import Indices, TensorBits

try:
    import torch
except ImportError as error:  # pragma: no cover - exercised in an environment without torch
    raise MissingDependencyError("this needs torch: pip install 'deltawire[torch]'") from error

_INT_TYPES = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}

DTYPE_NAMES: dict[torch.dtype, str] = {
    torch.bool: "BOOL", torch.uint8: "U8", torch.int8: "I8", torch.int16: "I16", torch.int32: "I32",
    torch.int64: "I64", torch.uint16: "U16", torch.uint32: "U32", torch.uint64: "U64", torch.float16: "F16",
    torch.bfloat16: "BF16", torch.float32: "F32", torch.float64: "F64", torch.complex64: "C64",
    torch.float8_e4m3fn: "F8_E4M3", torch.float8_e5m2: "F8_E5M2", torch.float8_e4m3fnuz: "F8_E4M3FNUZ",
    torch.float8_e5m2fnuz: "F8_E5M2FNUZ", torch.float8_e8m0fnu: "F8_E8M0", torch.float4_e2m1fn_x2: "F4",
}  # fmt: skip
"""Registry names of torch's dtypes."""


def named_tensors(source: Any) -> dict[str, torch.Tensor]:
    """Tensors by name of a module or a mapping, detached.

    Raises:
        InvalidStateError: something in it is not a tensor, or its bits are not what lies in memory.
    """
    found = source if isinstance(source, Mapping) else source.state_dict()
    for name, value in found.items():
        if not isinstance(value, torch.Tensor):
            raise InvalidStateError(f"{name!r} is a {type(value).__name__}, not a tensor")
        if value.is_meta or value.layout is not torch.strided:
            kind = "meta" if value.is_meta else str(value.layout).removeprefix("torch.")
            raise InvalidStateError(f"{name!r} is a {kind} tensor, which has no memory of its own for each element")
        if value.is_conj() or value.is_neg():
            raise InvalidStateError(f"{name!r} is a conjugated or negated view; its memory holds other numbers")
    return {name: value.detach() for name, value in found.items()}


def logical_shape(tensor: torch.Tensor) -> tuple[int, ...]:
    """Shape as safetensors counts it: torch counts F4 in pairs."""
    shape = tuple(tensor.shape)
    if tensor.dtype == torch.float4_e2m1fn_x2:
        return (*shape[:-1], shape[-1] * 2)
    return shape


def flat_bits(tensor: torch.Tensor) -> torch.Tensor:
    """A contiguous tensor as one dimension of signed integers of its width, sharing its memory."""
    flat = tensor.reshape(-1)
    return flat.view(_INT_TYPES[tensor.element_size()])


def to_numpy(bits: torch.Tensor) -> Bits:
    """Bits on the CPU; shares memory with a CPU tensor."""
    array = bits.cpu().numpy()
    return array.view(f"<u{array.itemsize}")


class TorchBits(TensorBits):
    """Elements of a contiguous torch tensor; what is gathered comes to the CPU, the rest stays where it is."""

    def __init__(self, flat: torch.Tensor) -> None:
        self.flat = flat

    def gather(self, where: Indices | slice) -> Bits:
        if isinstance(where, slice):
            return to_numpy(self.flat[where])
        return to_numpy(self.flat[self._indices(where)])

    def scatter(self, where: Indices | slice, bits: Bits) -> None:
        new = torch.from_numpy(bits.view(f"<i{bits.itemsize}") if bits.itemsize > 1 else bits)
        with torch.no_grad():
            if isinstance(where, slice):
                self.flat[where] = new.to(self.flat.device)
            else:
                self.flat[self._indices(where)] = new.to(self.flat.device)

    def _indices(self, where: Indices) -> torch.Tensor:
        return torch.from_numpy(where.astype(np.int64)).to(self.flat.device)


def digest(tensor: torch.Tensor, info: Tensor, *, run: int = 1 << 22) -> int:
    """A tensor's share of the state digest, computed on its own device (DIG-2)."""
    flat = flat_bits(tensor)
    total = torch.zeros((), dtype=torch.int64, device=flat.device)
    for start in range(0, flat.numel(), run):
        bits = flat[start : start + run].to(torch.int64) & _width_mask(info.dtype)
        index = torch.arange(start, start + bits.numel(), dtype=torch.int64, device=flat.device)
        total += _mix((index * _signed(0x9E3779B97F4A7C15) + _signed(info.seed)) ^ bits).sum()
    return int(total) & ((1 << 64) - 1)


def _mix(x: torch.Tensor) -> torch.Tensor:
    x = (x ^ _shift(x, 30)) * _signed(0xBF58476D1CE4E5B9)
    x = (x ^ _shift(x, 27)) * _signed(0x94D049BB133111EB)
    return x ^ _shift(x, 31)


def _shift(x: torch.Tensor, by: int) -> torch.Tensor:
    # torch shifts int64 arithmetically; the mask makes it logical.
    return (x >> by) & ((1 << (64 - by)) - 1)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _width_mask(dtype: Dtype) -> int:
    return -1 if dtype.width == 8 else (1 << (8 * dtype.width)) - 1
