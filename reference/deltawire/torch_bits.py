"""Torch tensors as bit patterns, on whatever device they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from deltawire.errors import InvalidStateError, MissingDependencyError
from deltawire.format.dtypes import Bits

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


def strided_bits(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor of any strides as signed integers of its width, sharing its memory."""
    return tensor.view(_INT_TYPES[tensor.element_size()])


def copy_run(bits: torch.Tensor, start: int, stop: int) -> torch.Tensor:
    """A copy of consecutive elements, in row-major order, of a tensor of any strides; no other element is copied."""
    out = torch.empty(stop - start, dtype=bits.dtype, device=bits.device)
    _copy_from(bits, start, out)
    return out


def _copy_from(bits: torch.Tensor, start: int, out: torch.Tensor) -> None:
    size = out.numel()
    if not size:
        return
    if bits.is_contiguous():
        out.copy_(bits.view(-1)[start : start + size])
        return
    inner = bits[0].numel()
    row, skipped = divmod(start, inner)
    if skipped or size < inner:  # a part of one row, and what is after it
        part = min(inner - skipped, size)
        _copy_from(bits[row], skipped, out[:part])
        _copy_from(bits, start + part, out[part:])
        return
    rows = size // inner
    out[: rows * inner].view(rows, *bits.shape[1:]).copy_(bits[row : row + rows])
    _copy_from(bits, start + rows * inner, out[rows * inner :])


def to_numpy(bits: torch.Tensor) -> Bits:
    """Bits on the CPU; shares memory with a CPU tensor."""
    array = bits.cpu().numpy()
    return array.view(f"<u{array.itemsize}")


def from_numpy(bits: Bits) -> torch.Tensor:
    """Bits as signed integers of their width on the CPU; shares memory with an array that can be written to."""
    array = bits if bits.flags.writeable else bits.copy()
    return torch.from_numpy(array if array.itemsize == 1 else array.view(f"<i{array.itemsize}"))


def fetch(bits: torch.Tensor) -> Bits:
    """Flat bits on the CPU, as ``to_numpy``; at most a box, because pinned memory is used and kept for the next one."""
    if bits.device.type != "cuda":
        return to_numpy(bits)
    here = bits.to("cpu", non_blocking=True)
    settle([bits.device])
    return to_numpy(here)


def fetch_together(*arrays: torch.Tensor) -> tuple[Bits, ...]:
    """Several flat arrays, none of them empty, as new arrays on the CPU, copied at once: each copy is waited for."""
    # By falling width, so that each begins at a multiple of its own.
    order = sorted(range(len(arrays)), key=lambda place: -arrays[place].element_size())
    data = fetch(torch.cat([arrays[place].view(torch.uint8) for place in order]))
    found, end = [data] * len(arrays), 0
    for place in order:
        begin, end = end, end + arrays[place].nbytes
        found[place] = data[begin:end].view(f"<u{arrays[place].element_size()}")
    return tuple(found)


def settle(devices: Iterable[torch.device]) -> None:
    """Wait for what the calling thread has queued on accelerators: only its own later work is ordered after that."""
    accelerator = torch.accelerator.current_accelerator()
    for device in set(devices):
        if accelerator is not None and device.type == accelerator.type:
            torch.accelerator.current_stream(device).synchronize()
