"""What a follower needs from the place that holds the state (SPEC.md sections 11.6 and 11.7)."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from deltawire.errors import TargetMismatchError
from deltawire.format.dtypes import Bits
from deltawire.format.tensors import Tensor, TensorTable
from deltawire.kernels.digest import digest_range
from deltawire.reading.stream import Committed
from deltawire.targets.swapping import write_changes

Indices = npt.NDArray[np.unsignedinteger]
"""Flat indices of stored elements: uint32 or uint64, unique."""


class TensorBits(ABC):
    """The stored elements of one tensor, flat, as bit patterns, wherever they are."""

    concurrent: bool = False
    """Whether threads other than the caller's may read it and write to it, each to elements of its own."""

    @property
    def in_memory(self) -> Bits | None:
        """All of them, to be read and not written, if they lie in memory that NumPy can see."""
        return None

    @abstractmethod
    def gather(self, where: Indices | slice) -> Bits:
        """A copy or a read-only view of elements."""

    @abstractmethod
    def scatter(self, where: Indices | slice, bits: Bits) -> None:
        """Overwrite elements."""

    def digest(self, start: int, stop: int, seed: int) -> int:
        """Digest of consecutive elements of a tensor with this seed, computed where they are (DIG-2)."""
        return int(digest_range(self.gather(slice(start, stop)), np.uint64(seed), np.uint64(start)))


_RUN = 1 << 22


@dataclass(frozen=True, slots=True)
class Change:
    """Verified new bits of one tensor, and the old ones in case the swap must be undone."""

    tensor: Tensor
    where: Indices | slice
    new: Bits
    old: Bits


@dataclass(frozen=True, slots=True)
class Held:
    """What a target holds."""

    committed: Committed
    table: TensorTable
    tensors: tuple[Tensor, ...]
    """The selected tensors, in table order."""
    digest: int
    """State digest of the selected tensors, carried along in O(changed)."""


class Target(ABC):
    """Holds one state, and the version it is; changes from one to the next all or nothing (APL-4)."""

    wants_files: bool = False
    """Whether auxiliary files belong to the state."""

    @property
    @abstractmethod
    def held(self) -> Held | None:
        """What is there; None while nothing complete is."""

    @abstractmethod
    def bits(self, tensor: Tensor) -> TensorBits:
        """The elements of a tensor of the table last begun or held."""

    def stage_files(self, files: Mapping[str, bytes]) -> None:  # noqa: B027 - most targets keep no files
        """Auxiliary files that are new or changed in the version that comes next."""

    @abstractmethod
    def begin_snapshot(self, table: TensorTable, selected: Sequence[Tensor]) -> None:
        """Make room for a whole state, to be written through ``bits``; what was held stays until ``end_snapshot``.

        Raises:
            TargetMismatchError: the target's tensors are not those of the table.
        """

    @abstractmethod
    def end_snapshot(self, held: Held) -> None:
        """The state written since ``begin_snapshot`` is verified: show it; fails as ``apply`` does."""

    @abstractmethod
    def abort_snapshot(self) -> None:
        """The state written since ``begin_snapshot`` is no good: drop it."""

    @abstractmethod
    def apply(self, changes: Sequence[Change], held: Held) -> None:
        """Write changes and become another version; on any failure be the old one again, or finish at next start."""

    def close(self) -> None:  # noqa: B027 - most targets hold nothing
        """Release files and locks."""


def check_apart(places: Iterable[tuple[int, int, str]]) -> None:
    """Tensors that the stream keeps apart must not share memory here: the last one written would win.

    Args:
        places: address, size in bytes and name of each tensor's contiguous memory.

    Raises:
        TargetMismatchError: two of them overlap.
    """
    ordered = sorted(place for place in places if place[1])
    for (start, size, name), (after, _, other) in itertools.pairwise(ordered):
        if after < start + size:
            raise TargetMismatchError(f"{[name, other]} share memory in the target, but are two tensors in the stream")


class InMemoryTarget(Target):
    """What arrays and torch tensors have in common: a change is undone if writing it stops half-way."""

    def __init__(self) -> None:
        self._held: Held | None = None

    @property
    def held(self) -> Held | None:
        return self._held

    def apply(self, changes: Sequence[Change], held: Held) -> None:
        before, self._held = self._held, None  # nothing complete is there for the moment
        failure = self._write(changes)
        self._held = before if failure else held
        if failure:
            raise failure

    def _write(self, changes: Sequence[Change]) -> BaseException | None:
        """Write changes, or undo them and return what stopped it; as ``write_changes``. APL-4"""
        return write_changes(changes, self.bits)


def exchange_in_memory(states: Iterable[tuple[TensorBits, Bits]], *, keep: bool) -> BaseException | None:
    """Overwrite tensors with whole new states; undoes and fails as ``InMemoryTarget.apply`` does.

    Args:
        states: tensors and their new bits.
        keep: whether what is there is a state worth undoing for. If so, it takes the place of the new bits, so that it
            needs no memory of its own.
    """
    undo: list[tuple[TensorBits, slice, Bits]] = []
    try:
        for own, new in states:
            for start in range(0, new.size, _RUN):
                where = slice(start, min(start + _RUN, new.size))
                if not keep:
                    own.scatter(where, new[where])
                    continue
                old = np.array(own.gather(where))
                undo.append((own, where, old))
                own.scatter(where, new[where])
                new[where] = old
                undo[-1] = own, where, new[where]
    except BaseException as error:  # noqa: BLE001 - returned
        for own, where, old in undo:
            own.scatter(where, old)
        return error
    return None
