"""From rows to verified absolute changes, with nothing written yet (SPEC.md section 11.6)."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from deltawire.codecs.base import Base, Positions, Window
from deltawire.codecs.registry import codec_of
from deltawire.errors import MalformedRowError, StateMismatchError, WrongBaseError
from deltawire.format.boxes import Box, flat_indices, flat_range
from deltawire.format.dtypes import Bits
from deltawire.format.records import Delta
from deltawire.format.tensors import Tensor, TensorTable
from deltawire.kernels.digest import digest_at, digest_range
from deltawire.parts.rows import Row
from deltawire.targets.base import Change, Indices, TensorBits

_MASK = (1 << 64) - 1


class _BoxBase(Base):
    """Old bits of a box within a target's tensor."""

    def __init__(self, bits: TensorBits, tensor: Tensor, box: Box) -> None:
        self._bits = bits
        self._tensor = tensor
        self._shape = tensor.storage_shape
        self._box = box
        self._range = flat_range(box, self._shape)

    def where(self, positions: Positions | None) -> Indices | slice:
        """Flat indices in the tensor of positions in the box."""
        if self._range is not None:
            offset, length = self._range
            if positions is None:
                return slice(offset, offset + length)
            if offset == 0:
                return positions
            if offset + length <= 1 << 32:
                return positions + np.uint32(offset)
            return positions + np.uint64(offset)
        if positions is None:
            positions = np.arange(self._box.elements, dtype=np.uint32)
        return flat_indices(self._box, self._shape, positions)

    def gather(self, positions: Positions | None) -> Bits:
        return self._bits.gather(self.where(positions))

    @property
    def window(self) -> Window | None:
        flat = self._bits.in_memory
        if flat is None or self._range is None:
            return None
        offset, length = self._range
        return Window(flat[offset : offset + length], self._tensor.seed, offset)


@dataclass
class Totals:
    """What the rows staged so far add up to, to be held against the record."""

    changed: int = 0
    before: int = 0
    after: int = 0
    covered: dict[int, int] = field(default_factory=dict)
    """Elements covered so far, by tensor."""
    looked_at: dict[int, int] = field(default_factory=dict)
    """Elements of boxes that had to be looked at whole, by tensor."""


def stage_row(row: Row, tensor: Tensor, bits: TensorBits, totals: Totals) -> Change:
    """Decode one row against the bits held of its tensor and verify both of its digests. DIG-4, DIG-5

    Raises:
        WrongBaseError: the old bits are not those the delta was made from.
        StateMismatchError: the new bits are not those the producer meant.
        MalformedRowError: the streams do not decode, or rows cover more than the whole tensor.
    """
    base = _BoxBase(bits, tensor, row.box)
    check_looks(row, tensor, totals)
    patch = codec_of(row.codec).decode(row.streams, tensor.dtype, row.box.elements, row.changed, base)
    where = base.where(patch.positions)
    old = patch.old if patch.old is not None else np.array(bits.gather(where))
    before, after = patch.digests or (_digest(old, where, tensor), _digest(patch.bits, where, tensor))
    if before != row.digest_before:
        raise WrongBaseError(f"the bits held of {tensor.name[:80]!r} are not those that the delta was made from")
    if after != row.digest_after:
        raise StateMismatchError(f"the new bits of {tensor.name[:80]!r} are not those that the producer wrote")
    if int(np.count_nonzero(old != patch.bits)) != row.changed:
        raise MalformedRowError(f"a row of {tensor.name[:80]!r} does not change the elements it counts")  # ROW-2
    count_row(row, tensor, patch.bits.size, totals)
    return Change(tensor, where, patch.bits, old)


def count_row(row: Row, tensor: Tensor, elements: int, totals: Totals) -> None:
    """Add a row that is verified and covers so many elements.

    Raises:
        MalformedRowError: rows cover more than the whole tensor.
    """
    _cover(totals, tensor, elements)  # at once, because what is staged is held in memory. ROW-4
    totals.changed += row.changed
    totals.before = (totals.before + row.digest_before) & _MASK
    totals.after = (totals.after + row.digest_after) & _MASK


def add_totals(totals: Totals, further: Totals, table: TensorTable) -> None:
    """Add what other rows of the same delta add up to.

    Raises:
        MalformedRowError: together they cover more than a whole tensor. ROW-4
    """
    for ordinal, elements in further.covered.items():
        _cover(totals, table.tensors[ordinal], elements)
    totals.changed += further.changed
    totals.before = (totals.before + further.before) & _MASK
    totals.after = (totals.after + further.after) & _MASK


def _cover(totals: Totals, tensor: Tensor, elements: int) -> None:
    covered = totals.covered[tensor.ordinal] = totals.covered.get(tensor.ordinal, 0) + elements
    if covered > tensor.elements:
        raise MalformedRowError(f"rows cover more elements of {tensor.name[:80]!r} than it has")


def check_looks(row: Row, tensor: Tensor, totals: Totals) -> None:
    """Count the elements that must be looked at to read a row whose codec needs the whole box.

    Raises:
        MalformedRowError: with the rows before they are more than the tensor has.
    """
    if not codec_of(row.codec).needs_box:
        return
    looked_at = totals.looked_at[tensor.ordinal] = totals.looked_at.get(tensor.ordinal, 0) + row.box.elements
    if looked_at > tensor.elements:  # many rows of a few bytes could look at a large tensor again and again. RNK-5
        raise MalformedRowError(f"rows look at more elements of {tensor.name[:80]!r} than it has")


def check_totals(totals: Totals, delta: Delta) -> None:
    """Hold the sum of all rows against the record. DLT-3

    Raises:
        StateMismatchError: they differ.
    """
    recorded = (delta.changed_elements, int(delta.digest_before, 16), int(delta.digest_after, 16))
    if (totals.changed, totals.before, totals.after) != recorded:
        raise StateMismatchError("the delta's rows do not add up to what its record says")


def check_disjoint(changes: Iterable[Change]) -> None:
    """No element may be covered twice. ROW-4

    Raises:
        MalformedRowError: one is.
    """
    by_tensor: dict[int, list[Change]] = {}
    for change in changes:
        by_tensor.setdefault(change.tensor.ordinal, []).append(change)
    for group in by_tensor.values():
        if len(group) > 1 and _overlap(group):
            raise MalformedRowError(f"two rows cover the same elements of {group[0].tensor.name[:80]!r}")


def _overlap(group: list[Change]) -> bool:
    spans = sorted(_span(change) for change in group)
    if all(before[1] <= after[0] for before, after in itertools.pairwise(spans)):
        return False
    every = np.concatenate([_indices(change) for change in group])
    return len(np.unique(every)) != len(every)


def _span(change: Change) -> tuple[int, int]:
    if isinstance(change.where, slice):
        return change.where.start, change.where.stop
    return int(change.where[0]), int(change.where[-1]) + 1  # ascending, as positions in a box are


def _indices(change: Change) -> Indices:
    if isinstance(change.where, slice):
        return np.arange(change.where.start, change.where.stop, dtype=np.uint64)
    return change.where


def _digest(bits: Bits, where: Indices | slice, tensor: Tensor) -> int:
    seed = np.uint64(tensor.seed)
    if isinstance(where, slice):
        return int(digest_range(bits, seed, np.uint64(where.start)))
    return int(digest_at(bits, where, seed, np.uint64(0)))
