"""What a follower needs from the place that holds the state (SPEC.md sections 11.6 and 11.7)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from deltawire.format.dtypes import Bits
from deltawire.format.tensors import Tensor, TensorTable
from deltawire.stream import Committed

Indices = npt.NDArray[np.unsignedinteger]
"""Flat indices of stored elements: uint32 or uint64, unique."""


class TensorBits(ABC):
    """The stored elements of one tensor, flat, as bit patterns, wherever they are."""

    @abstractmethod
    def gather(self, where: Indices | slice) -> Bits:
        """A copy or a read-only view of elements."""

    @abstractmethod
    def scatter(self, where: Indices | slice, bits: Bits) -> None:
        """Overwrite elements."""


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
        """The state written since ``begin_snapshot`` is verified: show it."""

    @abstractmethod
    def abort_snapshot(self) -> None:
        """The state written since ``begin_snapshot`` is no good: drop it."""

    @abstractmethod
    def apply(self, changes: Sequence[Change], held: Held) -> None:
        """Write changes and become another version; on any failure be the old one again, or finish at next start."""

    def close(self) -> None:  # noqa: B027 - most targets hold nothing
        """Release files and locks."""


def apply_in_memory(target: Target, changes: Sequence[Change]) -> None:
    """Write changes, and undo them if writing stops half-way, whatever stopped it. APL-4"""
    done = 0
    try:
        for change in changes:
            done += 1
            target.bits(change.tensor).scatter(change.where, change.new)
    except BaseException:
        for change in changes[:done]:
            target.bits(change.tensor).scatter(change.where, change.old)
        raise
