"""State digests of torch tensors, computed on their own device (SPEC.md section 10).

Torch multiplies 64-bit integers modulo 2^64, but has only signed ones: constants are written as signed numbers, shifts
are made logical by a mask, and narrower elements are widened without their sign.
"""

from __future__ import annotations

import torch

from deltawire.format.tensors import Tensor
from deltawire.torch_bits import copy_run, strided_bits

_RUN_ON_CPU = 1 << 17
_RUN = 1 << 20
"""Elements that are mixed at a time, so that the three 64-bit numbers of each stay in a core's or a device's cache."""

_MASK = (1 << 64) - 1


def _signed(value: int) -> int:
    value &= _MASK
    return value - (1 << 64) if value >> 63 else value


_GOLDEN = 0x9E3779B97F4A7C15
_GOLDEN_SIGNED = _signed(_GOLDEN)
_MIX_1 = _signed(0xBF58476D1CE4E5B9)
_MIX_2 = _signed(0x94D049BB133111EB)


def digest(tensor: torch.Tensor, info: Tensor, *, run: int | None = None) -> int:
    """A tensor's share of the state digest (DIG-2).

    Args:
        tensor: of any strides.
        info: its entry in the table.
        run: elements at a time, of which three 64-bit numbers each are in memory; None for what suits the device.
    """
    bits = strided_bits(tensor)
    run = run or run_on(bits.device)
    if bits.is_contiguous():
        return digest_flat(bits.view(-1), info.seed, run=run)
    total = 0
    for start in range(0, bits.numel(), run):
        piece = copy_run(bits, start, min(start + run, bits.numel()))
        total += int(digest_range(piece, info.seed, start, run=run))
    return total & _MASK


def run_on(device: torch.device) -> int:
    """How many elements to digest at a time."""
    return _RUN_ON_CPU if device.type == "cpu" else _RUN


def digest_flat(flat: torch.Tensor, seed: int, *, run: int | None = None) -> int:
    """Digest of all of a tensor's flat bits (DIG-2)."""
    return int(digest_range(flat, seed, 0, run=run)) & _MASK


def digest_range(flat: torch.Tensor, seed: int, start: int, *, run: int | None = None) -> torch.Tensor:
    """Digest of consecutive elements whose first flat index is ``start``; one signed number, not waited for. DIG-2"""
    total = torch.zeros((), dtype=torch.int64, device=flat.device)
    run = min(run or run_on(flat.device), flat.numel())
    steps = torch.arange(run, dtype=torch.int64, device=flat.device).mul_(_GOLDEN_SIGNED)
    keys, wide = torch.empty_like(steps), torch.empty_like(steps)
    for begin in range(0, flat.numel(), run or 1):
        bits = flat[begin : begin + run]
        size = bits.numel()
        key, scratch = keys[:size], wide[:size]
        torch.add(steps[:size], _signed(seed + (start + begin) * _GOLDEN), out=key)
        total += _mixed_(key, bits, scratch).sum()
    return total


def digest_moved(old: torch.Tensor, new: torch.Tensor, where: torch.Tensor, seed: int, start: int) -> torch.Tensor:
    """Digest of new bits minus that of the old ones; one signed number, not waited for. DIG-3

    Args:
        old: flat, shape (changed,).
        new: likewise.
        where: int64, shape (changed,): flat index of each, less ``start``.
        seed: of the tensor.
        start: flat index of the first element that could be in it.
    """
    bits = torch.stack((old, new))
    key = torch.empty(bits.shape, dtype=torch.int64, device=bits.device)
    torch.mul(where, _GOLDEN_SIGNED, out=key[0]).add_(_signed(seed + start * _GOLDEN))
    key[1] = key[0]
    sums = _mixed_(key, bits, torch.empty_like(key)).sum(1)
    return sums[1] - sums[0]


def _mixed_(key: torch.Tensor, bits: torch.Tensor, scratch: torch.Tensor) -> torch.Tensor:
    """Mix bits into their keys, in place: the output function of SplitMix64."""
    scratch.copy_(bits)
    if bits.element_size() in {2, 4}:
        scratch &= (1 << (8 * bits.element_size())) - 1
    key ^= scratch
    _xor_shifted_(key, 30, scratch).mul_(_MIX_1)
    _xor_shifted_(key, 27, scratch).mul_(_MIX_2)
    return _xor_shifted_(key, 31, scratch)


def _xor_shifted_(x: torch.Tensor, by: int, scratch: torch.Tensor) -> torch.Tensor:
    torch.bitwise_right_shift(x, by, out=scratch)
    scratch &= (1 << (64 - by)) - 1
    x ^= scratch
    return x
