"""Tensors on an accelerator, compared and copied there; only what changed comes to the CPU (SPEC.md section 11.2).

What lies on the device besides the caller's tensors: the base, which is as large as they are, and for each thread that
encodes a copy of one box with what is found in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Self

import numpy as np
import torch

from deltawire.codecs.base import BoxChange, LazyBoxChange
from deltawire.errors import InvalidStateError
from deltawire.format.dtypes import Bits
from deltawire.format.tensors import Tensor
from deltawire.kernels.scan import Changes, Room, find_changes
from deltawire.producer.comparing import CHUNK, HeldTensor, KeepOld, SourceTensor, TensorPair, flat_indices_of
from deltawire.torch_bits import copy_run, fetch, fetch_together, from_numpy, settle, strided_bits
from deltawire.torch_digest import digest_flat, digest_moved, digest_range

_MASK = (1 << 64) - 1
_FEW = 0.25
"""Below this changed fraction only what changed is digested, not all elements; also bounds the memory for it."""


class HeldOnDevice(HeldTensor):
    """A tensor of the base on a device."""

    def __init__(self, flat: torch.Tensor) -> None:
        self.flat = flat
        self.elements, self.storage = flat.numel(), _storage(flat)

    def read(self, start: int, stop: int) -> Bits:
        return fetch(self.flat[start:stop])

    def digest(self, tensor: Tensor) -> int:
        return digest_flat(self.flat, tensor.seed)


class SourceOnDevice(SourceTensor):
    """A tensor to publish that is on a device.

    Args:
        tensor: of any strides.
        device_base: whether the base is kept there too; else it is on the CPU, and so is every comparison.
    """

    def __init__(self, tensor: torch.Tensor, *, device_base: bool) -> None:
        self._bits = strided_bits(tensor)
        self._device_base = device_base
        self.elements, self.storage = self._bits.numel(), _storage(self._bits)

    def read(self, start: int, stop: int) -> Bits:
        return fetch(self.run(start, stop))

    def run(self, start: int, stop: int) -> torch.Tensor:
        """A copy of elements, flat, on the device."""
        return copy_run(self._bits, start, stop)

    def hold(self) -> HeldTensor:
        if not self._device_base:
            return super().hold()
        with _making_base():
            return HeldOnDevice(self.run(0, self.elements))

    def beside(self, held: HeldTensor) -> TensorPair:
        return TorchPair(self._near(held), self) if self._device_base else super().beside(held)

    def _near(self, held: HeldTensor) -> HeldOnDevice:
        device = self._bits.device
        if isinstance(held, HeldOnDevice) and held.flat.device == device:
            return held
        with _making_base():
            flat = torch.empty(self.elements, dtype=self._bits.dtype, device=device)
            for start in range(0, self.elements, CHUNK):
                stop = min(start + CHUNK, self.elements)
                flat[start:stop].copy_(from_numpy(held.read(start, stop)))
        settle([device])
        return HeldOnDevice(flat)


@contextmanager
def _making_base() -> Iterator[None]:
    try:
        # Not as an inference tensor, which could not be overwritten outside of that mode.
        with torch.inference_mode(mode=False):
            yield
    except torch.OutOfMemoryError as error:
        raise InvalidStateError(
            f"the device has no room for a copy of what is published: {error}",
            hint="with device_base=False the copy is kept on the CPU",
        ) from error


class TorchPair(TensorPair):
    """Compares on the device."""

    def __init__(self, held: HeldOnDevice, new: SourceOnDevice) -> None:
        self.held: HeldOnDevice = held
        self.place = held.flat.device
        self._new = new

    @classmethod
    def end_to_end(cls, pairs: Sequence[Self]) -> tuple[Bits, Bits]:
        if not any(pair.held.elements for pair in pairs):
            nothing = np.empty(0, pairs[0].held.storage)
            return nothing, nothing
        news = [pair._new.run(0, pair.held.elements) for pair in pairs]  # noqa: SLF001 - of the same class
        old, new = fetch_together(torch.cat([pair.held.flat for pair in pairs]), torch.cat(news))
        return old, new

    def overwrite(self, bits: Bits) -> None:
        with torch.inference_mode(mode=False):
            self.held.flat.copy_(from_numpy(bits))
        settle([self.held.flat.device])

    def change(self, start: int, stop: int, room: Room, *, whole_from: float) -> BoxChange | None:
        before, after = self.held.flat[start:stop], self._new.run(start, stop)
        where = _differing(before, after)
        if not where.numel():
            return None
        if where.numel() >= whole_from:  # all of it is copied anyway
            old, new = fetch(before), fetch(after)
            return BoxChange(old, new, find_changes(old, new, room))
        positions, olds, news = fetch_together(where.to(torch.int32), before[where], after[where])
        changes = Changes(positions, olds, news)
        return LazyBoxChange(changes, stop - start, old=lambda: fetch(before), new=lambda: fetch(after))

    def advance(self, tensor: Tensor, *, run: int, keep: KeepOld | None) -> int:
        with torch.inference_mode(mode=False):
            moved = torch.zeros((), dtype=torch.int64, device=self.held.flat.device)
            for start in range(0, tensor.elements, run):
                before = self.held.flat[start : start + run]
                after = self._new.run(start, start + before.numel())
                where = _differing(before, after)
                if not where.numel():
                    continue
                if keep is not None:
                    positions, old = fetch_together(where.to(torch.int32), before[where])
                    keep(flat_indices_of(positions, start, tensor.elements), old.copy())
                if where.numel() < _FEW * before.numel():
                    moved += digest_moved(before[where], after[where], where, tensor.seed, start)
                else:
                    moved += digest_range(after, tensor.seed, start) - digest_range(before, tensor.seed, start)
                before.copy_(after)
            return int(moved) & _MASK  # which waits: other threads may read the base then


def _differing(before: torch.Tensor, after: torch.Tensor) -> torch.Tensor:
    return torch.nonzero(before != after).view(-1)


def _storage(bits: torch.Tensor) -> np.dtype[np.unsignedinteger]:
    return np.dtype(f"<u{bits.element_size()}")
