"""Reading and writing elements of torch tensors on a device: indices and bits travel, in bounded groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from deltawire.format.dtypes import Bits
from deltawire.targets.base import Indices, TensorBits
from deltawire.torch_bits import fetch, from_numpy, settle, to_numpy
from deltawire.torch_digest import digest_range

RUN = 1 << 22
"""Elements that are gathered at a time."""
GROUP_BYTES = 32 << 20
"""Indices and bits that travel at a time, in one copy."""


class TorchBits(TensorBits):
    """Elements of a contiguous torch tensor on a device."""

    def __init__(self, flat: torch.Tensor) -> None:
        self.flat = flat

    def gather(self, where: Indices | slice) -> Bits:
        if isinstance(where, slice):
            return to_numpy(self.flat[where])
        if where.size <= RUN:
            return fetch(self._take(where))
        return np.concatenate([fetch(self._take(where[at : at + RUN])) for at in range(0, where.size, RUN)])

    def scatter(self, where: Indices | slice, bits: Bits) -> None:
        scatter_all([Write(self.flat, where, bits)])

    def digest(self, start: int, stop: int, seed: int) -> int:
        return int(digest_range(self.flat[start:stop], seed, start)) & ((1 << 64) - 1)

    def _take(self, where: Indices) -> torch.Tensor:
        return self.flat[_wide(from_numpy(where).to(self.flat.device))]


@dataclass(frozen=True, slots=True)
class Write:
    """New bits for some elements of a tensor."""

    flat: torch.Tensor
    where: Indices | slice
    bits: Bits


def scatter_all(writes: Iterable[Write]) -> None:
    """Overwrite elements of tensors, on one device each; all is done when this returns.

    A group costs one copy to its device, and each write one or two launches there; nothing is waited for but the end.
    """
    devices = set()
    for group in _groups(writes):
        device = group[0].flat.device
        devices.add(device)
        _scatter_group(group, device)
    settle(devices)


def _groups(writes: Iterable[Write]) -> Iterator[list[Write]]:
    """Cut writes to the size of a group, and put together neighbours of one device that fit in it."""
    group: list[Write] = []
    size = 0
    for write in writes:
        for piece in _pieces(write):
            cost = piece.bits.nbytes + (0 if isinstance(piece.where, slice) else piece.where.nbytes)
            if group and (size + cost > GROUP_BYTES or piece.flat.device != group[0].flat.device):
                yield group
                group, size = [], 0
            group.append(piece)
            size += cost
    if group:
        yield group


def _pieces(write: Write) -> Iterator[Write]:
    where, bits = write.where, write.bits
    width = bits.itemsize + (0 if isinstance(where, slice) else where.itemsize)
    run = max(GROUP_BYTES // width, 1)
    for at in range(0, bits.size, run):
        some = bits[at : at + run]
        if isinstance(where, slice):
            yield Write(write.flat, slice(where.start + at, where.start + at + some.size), some)
        else:
            yield Write(write.flat, where[at : at + run], some)


def _scatter_group(group: list[Write], device: torch.device) -> None:
    indices = [write.where for write in group if not isinstance(write.where, slice)]
    sent, places = _send([*indices, *(write.bits for write in group)], device)
    wide = _widened(sent, places[: len(indices)], indices)
    with torch.no_grad():
        for write, place in zip(group, places[len(indices) :], strict=True):
            bits = sent[place].view(write.flat.dtype)
            if isinstance(write.where, slice):
                write.flat[write.where].copy_(bits)
            else:
                write.flat[next(wide)] = bits


def _send(arrays: Sequence[Bits], device: torch.device) -> tuple[torch.Tensor, list[slice]]:
    """Arrays as bytes on a device, copied at once, and where each is: by falling width, else in the order given."""
    order = sorted(range(len(arrays)), key=lambda place: -arrays[place].itemsize)  # each at a multiple of its width
    # From pinned memory the device copies by itself, while the next group is put together.
    pinned = device.type == "cuda"
    size = sum(array.nbytes for array in arrays)
    packed = torch.empty(size, dtype=torch.uint8, device="cpu", pin_memory=pinned)
    data = packed.numpy()
    places, end = [slice(0, 0)] * len(arrays), 0
    for place in order:
        begin, end = end, end + arrays[place].nbytes
        data[begin:end] = arrays[place].view(np.uint8)
        places[place] = slice(begin, end)
    return packed.to(device, non_blocking=pinned), places


def _widened(sent: torch.Tensor, places: list[slice], indices: Sequence[Indices]) -> Iterator[torch.Tensor]:
    """Indices as torch wants them; those of 32 bits, which lie end to end, in one go."""
    narrow = [place for place, where in zip(places, indices, strict=True) if where.itemsize == 4]
    first = narrow[0].start if narrow else 0
    wide = _wide(sent[first : narrow[-1].stop].view(torch.int32)) if narrow else None
    for place, where in zip(places, indices, strict=True):
        if wide is not None and where.itemsize == 4:
            yield wide[(place.start - first) // 4 : (place.stop - first) // 4]
        else:
            yield sent[place].view(torch.int64)


def _wide(indices: torch.Tensor) -> torch.Tensor:
    """Unsigned indices, held as signed numbers of their width, as 64-bit ones."""
    return indices if indices.dtype == torch.int64 else indices.to(torch.int64) & 0xFFFFFFFF
