"""A tensor of the base and the same tensor of a state to publish, compared where they are (SPEC.md section 11.2)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from deltawire.codecs.base import BoxChange
from deltawire.format.dtypes import Bits
from deltawire.format.tensors import Tensor
from deltawire.kernels.access import put
from deltawire.kernels.digest import digest_changes, digest_range
from deltawire.kernels.merge import Ascending
from deltawire.kernels.scan import Room, find_changes

CHUNK = 1 << 22
"""Elements that are copied at once between a device and the CPU."""

KeepOld = Callable[[Ascending, Bits], None]
"""Takes flat indices and the old bits there, both its own."""


def flat_indices_of(positions: npt.NDArray[np.uint32], start: int, elements: int) -> Ascending:
    """Flat indices, in as few bits as a tensor of so many elements needs, of positions that count from ``start``."""
    kind = np.dtype(np.uint32 if elements < 1 << 32 else np.uint64)
    return positions.astype(kind) + kind.type(start)


class HeldTensor(ABC):
    """One tensor of the base, flat, as bit patterns, wherever it is."""

    elements: int
    storage: np.dtype[np.unsignedinteger]

    @abstractmethod
    def read(self, start: int, stop: int) -> Bits:
        """Elements on the CPU: a view, valid until the base advances, or a copy."""

    @abstractmethod
    def digest(self, tensor: Tensor) -> int:
        """Its share of the state digest, computed where it is (DIG-2)."""

    @property
    def nbytes(self) -> int:
        """Size in memory."""
        return self.elements * self.storage.itemsize

    def copy(self) -> Bits:
        """All of it as a new array on the CPU."""
        return _copied(self)


class SourceTensor(ABC):
    """One tensor of a state to publish, flat, as bit patterns, wherever it is."""

    elements: int
    storage: np.dtype[np.unsignedinteger]

    @abstractmethod
    def read(self, start: int, stop: int) -> Bits:
        """Elements on the CPU: a view of the caller's memory, or a copy."""

    def hold(self) -> HeldTensor:
        """A copy of it for a new base, where ``beside`` would have it."""
        return HeldArray(_copied(self))

    def beside(self, held: HeldTensor) -> TensorPair:
        """Compare it with what the base holds of it, which may have to be moved for that."""
        return ArrayPair(held if isinstance(held, HeldArray) else HeldArray(held.copy()), self)


class TensorPair(ABC):
    """What the base holds of one tensor, and what it may become. Several boxes may be compared at once."""

    held: HeldTensor
    place: Hashable
    """Pairs of one dtype that have this in common can be brought ``end_to_end``."""

    @classmethod
    @abstractmethod
    def end_to_end(cls, pairs: Sequence[Any]) -> tuple[Bits, Bits]:
        """All old and all new bits of several small tensors of one place and dtype, on the CPU, as new arrays."""

    @abstractmethod
    def overwrite(self, bits: Bits) -> None:
        """Make these bits, of all of the tensor, the ones that are held."""

    @abstractmethod
    def change(self, start: int, stop: int, room: Room, *, whole_from: float) -> BoxChange | None:
        """What differs in a run of elements; None if nothing does.

        Every new element that is looked at is read once, so that what is found agrees with itself even if the source
        changes meanwhile.

        Args:
            start: first flat index, of fewer than 2^31.
            stop: index after the last.
            room: where the changes may lie, until it is used again.
            whole_from: number of changed elements from which the new bits of all of them must stay as they were read.
        """

    @abstractmethod
    def advance(self, tensor: Tensor, *, run: int, keep: KeepOld | None) -> int:
        """Overwrite what is held by the new bits.

        Args:
            tensor: which it is.
            run: elements to take at a time.
            keep: is given what is overwritten by something else.

        Returns:
            Digest of the new bits minus that of the old ones, modulo 2^64.
        """


class HeldArray(HeldTensor):
    """A tensor of the base on the CPU."""

    def __init__(self, bits: Bits) -> None:
        self.bits = bits
        self.elements, self.storage = bits.size, bits.dtype

    def read(self, start: int, stop: int) -> Bits:
        return self.bits[start:stop]

    def digest(self, tensor: Tensor) -> int:
        return int(digest_range(self.bits, np.uint64(tensor.seed), np.uint64(0)))


class SourceArray(SourceTensor):
    """A tensor to publish that is on the CPU."""

    def __init__(self, bits: Bits) -> None:
        self._bits = bits
        self.elements, self.storage = bits.size, bits.dtype

    def read(self, start: int, stop: int) -> Bits:
        return self._bits[start:stop]


class ArrayPair(TensorPair):
    """Compares on the CPU; a source that is elsewhere is copied over as it is read."""

    place = "cpu"

    def __init__(self, held: HeldArray, new: SourceTensor) -> None:
        self.held: HeldArray = held
        self._new = new

    @classmethod
    def end_to_end(cls, pairs: Sequence[Self]) -> tuple[Bits, Bits]:
        news = [pair._new.read(0, pair.held.elements) for pair in pairs]  # noqa: SLF001 - of the same class
        return np.concatenate([pair.held.bits for pair in pairs]), np.concatenate(news)

    def overwrite(self, bits: Bits) -> None:
        np.copyto(self.held.bits, bits)

    def change(self, start: int, stop: int, room: Room, *, whole_from: float) -> BoxChange | None:
        before, after = self.held.read(start, stop), self._new.read(start, stop)
        changes = find_changes(before, after, room)
        if len(changes.positions) >= whole_from:
            after = after.copy()
            changes = find_changes(before, after, room)
        return BoxChange(before, after, changes) if len(changes.positions) else None

    def advance(self, tensor: Tensor, *, run: int, keep: KeepOld | None) -> int:
        room = Room(min(run, tensor.elements))
        seed = np.uint64(tensor.seed)
        moved = 0
        for start in range(0, tensor.elements, run):
            stop = min(start + run, tensor.elements)
            before = self.held.read(start, stop)
            found = find_changes(before, self._new.read(start, stop), room)
            if not len(found.positions):
                continue
            first = np.uint64(start)
            if keep is not None:
                keep(flat_indices_of(found.positions, start, tensor.elements), found.old.copy())
            put(before, found.positions, found.new)
            was, became = digest_changes(found.old, found.new, found.positions, seed, first)
            moved += int(became) - int(was)
        return moved & ((1 << 64) - 1)


def _copied(tensor: HeldTensor | SourceTensor) -> Bits:
    copy = np.empty(tensor.elements, tensor.storage)
    for start in range(0, tensor.elements, CHUNK):
        stop = min(start + CHUNK, tensor.elements)
        copy[start:stop] = tensor.read(start, stop)
    return copy
