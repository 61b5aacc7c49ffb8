"""What has changed in a tensor since a version, however many steps it took (SPEC.md section 11.12). Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from deltawire.format.dtypes import Bits
from deltawire.format.tensors import Tensor
from deltawire.kernels.access import put, take
from deltawire.kernels.merge import Ascending, merge_first_wins
from deltawire.targets.base import Change


@dataclass(frozen=True, slots=True)
class Undo:
    """Elements that were written, and their bits before."""

    where: Ascending
    """Flat indices, ascending; uint32 if the tensor has fewer than 2^32 elements, else uint64."""
    bits: Bits

    @property
    def nbytes(self) -> int:
        """Memory that it takes."""
        return self.where.nbytes + self.bits.nbytes


def undo_of(tensor: Tensor, changes: Sequence[Change]) -> Undo:
    """What one step changed in a tensor, from verified changes that do not cover an element twice.

    Elements that are covered but keep their bits, as in a ``dense`` row, are left out.
    """
    index = np.dtype(np.uint32 if tensor.elements < 1 << 32 else np.uint64)
    places, olds = [], []
    for change in changes:
        if isinstance(change.where, slice):
            found = np.flatnonzero(change.old != change.new).astype(index)
            places.append(found + index.type(change.where.start))
            olds.append(take(change.old, found))
        else:
            differ = change.old != change.new
            every = bool(differ.all())
            places.append((change.where if every else change.where[differ]).astype(index, copy=False))
            olds.append(change.old if every else change.old[differ])
    if not places:
        return Undo(np.empty(0, index), np.empty(0, tensor.dtype.storage))
    if len(places) == 1:
        return Undo(places[0], olds[0])
    where, old = np.concatenate(places), np.concatenate(olds)
    if not (where[1:] > where[:-1]).all():  # boxes in another order, or interleaved
        order = np.argsort(where, kind="stable")
        where, old = where[order], old[order]
    return Undo(where, old)


class Earlier:
    """The bits that a tensor had at one version, kept by what has been written since.

    Takes no more memory than the tensor itself, however many steps are noted: notes that outweigh it become a copy of
    the tensor as it was. Notes are merged with others of about their size, so that each element is merged about
    log2(steps) times.
    """

    def __init__(self) -> None:
        self._undos: list[Undo] = []
        """Oldest first, each larger than twice the next."""
        self.copy: Bits | None = None
        """All bits as they were, in place of the notes."""

    @property
    def nbytes(self) -> int:
        """Memory that it takes."""
        return sum(undo.nbytes for undo in self._undos) + (0 if self.copy is None else self.copy.nbytes)

    def note(self, undo: Undo, now: Bits) -> None:
        """Take note of a further step.

        Args:
            undo: what it changed.
            now: flat bits of the whole tensor after it, or between before and after.
        """
        if self.copy is not None or not undo.where.size:
            return
        self._undos.append(undo)
        while len(self._undos) > 1 and self._undos[-2].where.size <= 2 * self._undos[-1].where.size:
            self._merge_last()
        if self.nbytes > now.nbytes:
            self._merge_all()
        if self.nbytes > now.nbytes:
            self.copy = now.copy()
            self._restore(self.copy)

    def absorb(self, later: Earlier, now: Bits) -> None:
        """Take note of all that was noted by one that began when this one had noted all before; it is used up.

        Args:
            later: what to take in.
            now: flat bits of the whole tensor as it is.
        """
        if self.copy is not None:
            return
        if later.copy is not None:
            self.copy, later.copy = later.copy, None
            self._restore(self.copy)
        else:
            later._merge_all()
            for undo in later._undos:
                self.note(undo, now)

    def changed(self, now: Bits) -> Undo:
        """Elements whose bits are not what they were, while there is no copy; others are noted no more.

        Args:
            now: flat bits of the whole tensor as it is.
        """
        if not self._undos:
            return Undo(np.empty(0, np.uint32), np.empty(0, now.dtype))
        self._merge_all()
        merged = self._undos[0]
        differ = take(now, merged.where) != merged.bits
        if not bool(differ.all()):
            merged = self._undos[0] = Undo(merged.where[differ], merged.bits[differ])
        return merged

    def _merge_all(self) -> None:
        while len(self._undos) > 1:
            self._merge_last()

    def _merge_last(self) -> None:
        after, before = self._undos.pop(), self._undos.pop()
        self._undos.append(Undo(*merge_first_wins(before.where, before.bits, after.where, after.bits)))

    def _restore(self, copy: Bits) -> None:
        """Write all that is noted into a copy, the oldest last; nothing is noted any more."""
        for undo in reversed(self._undos):
            put(copy, undo.where, undo.bits)
        self._undos = []
