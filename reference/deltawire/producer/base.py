"""The producer's base: the bits of the last committed version, and what an anchor being written still needs of them."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from deltawire.errors import SourceChangedError
from deltawire.format.dtypes import Bits
from deltawire.format.tensors import Tensor, TensorTable
from deltawire.kernels.access import put
from deltawire.kernels.digest import digest_changes, digest_range
from deltawire.kernels.scan import Room, find_changes
from deltawire.producer.deltas import Sums
from deltawire.producer.encoding import BOX_ELEMENTS
from deltawire.producer.small_tensors import TensorPair, compare_small

_CHUNK = 1 << 22
_MASK = (1 << 64) - 1


@dataclass
class Freeze:
    """A view of the base as it was when the freeze was made, while the base itself moves on.

    Costs memory only for elements that change in tensors not read yet: their old bits are kept aside, or the whole
    tensor once they would outweigh it, however many versions are published meanwhile.
    """

    digests: list[int]
    """Each tensor's share of the state digest at that time."""
    waiting: set[int]
    """Ordinals not read yet."""
    undo: dict[int, list[tuple[np.ndarray[tuple[int], np.dtype[np.uint64]], Bits]]] = field(default_factory=dict)
    """Flat indices and old bits of what has changed since, by ordinal."""
    copies: dict[int, Bits] = field(default_factory=dict)
    """Tensors as they were, by ordinal, in place of what would undo their changes."""

    def restored(self, ordinal: int, now: Bits) -> Bits:
        """A copy of a tensor as it was, from what it is now."""
        copy = self.copies.pop(ordinal, None)
        if copy is None:
            copy = now.copy()
            for indices, old in reversed(self.undo.pop(ordinal, [])):
                copy[indices] = old
        return copy

    def undo_bytes(self, ordinal: int) -> int:
        """Memory that is kept to undo the changes of a tensor."""
        return sum(indices.nbytes + old.nbytes for indices, old in self.undo.get(ordinal, ()))


class BaseState:
    """Flat bits of every tensor of a table, with each tensor's digest kept up to date in O(changed)."""

    def __init__(self, table: TensorTable, bits: list[Bits]) -> None:
        self.table = table
        self._bits = bits
        self._lock = threading.Lock()
        self._freeze: Freeze | None = None
        self.digests = [
            int(digest_range(bits[tensor.ordinal], np.uint64(tensor.seed), np.uint64(0))) for tensor in table.tensors
        ]

    @property
    def digest(self) -> int:
        """State digest of the base."""
        return sum(self.digests) & _MASK

    def bits(self, tensor: Tensor) -> Bits:
        """Flat bits of a tensor; only ``advance`` changes them."""
        return self._bits[tensor.ordinal]

    def advance(self, tensor: Tensor, new: Bits, *, before: int, after: int) -> None:
        """Take over the new bits of a tensor that was just committed.

        Args:
            tensor: which.
            new: its flat bits, unchanged since they were encoded.
            before: digest of the old bits of the changed elements, as committed.
            after: digest of their new bits, as committed.

        Raises:
            SourceChangedError: ``new`` no longer is what was committed; the base is now useless.
        """
        room = Room(min(BOX_ELEMENTS, tensor.elements))
        own = self._bits[tensor.ordinal]
        seed = np.uint64(tensor.seed)
        was = became = 0
        with self._lock:
            kept = self._freeze is not None and self._keeps(self._freeze, tensor.ordinal)
            for start in range(0, tensor.elements, BOX_ELEMENTS):
                run, new_run = own[start : start + BOX_ELEMENTS], new[start : start + BOX_ELEMENTS]
                found = find_changes(run, new_run, room)
                if not len(found.positions):
                    continue
                first = np.uint64(start)
                if kept and self._freeze is not None:
                    indices = found.positions.astype(np.uint64) + first
                    self._freeze.undo.setdefault(tensor.ordinal, []).append((indices, found.old.copy()))
                put(run, found.positions, found.new)
                shares = digest_changes(found.old, found.new, found.positions, seed, first)
                was, became = was + int(shares[0]), became + int(shares[1])
        self.digests[tensor.ordinal] = (self.digests[tensor.ordinal] + became - was) & _MASK
        if (became - was) & _MASK != (after - before) & _MASK:
            raise SourceChangedError(f"{tensor.name!r} was changed while it was being published")

    def advance_small(self, group: Sequence[TensorPair], sums: Mapping[int, Sums], room: Room) -> None:
        """The same for many small tensors.

        Args:
            group: each with its own bits here and its new ones.
            sums: of their rows, as committed, by ordinal.
            room: for as many elements as the group has.

        Raises:
            SourceChangedError: as ``advance``.
        """
        moved = {tensor.ordinal: 0 for tensor, _, _ in group}
        with self._lock:
            for found in compare_small(group, room):
                for at, tensor in enumerate(found.tensors):
                    if self._freeze is not None and self._keeps(self._freeze, tensor.ordinal):
                        changes = found.change(at).changes
                        undo = changes.positions.astype(np.uint64), changes.old.copy()
                        self._freeze.undo.setdefault(tensor.ordinal, []).append(undo)
                    np.copyto(self._bits[tensor.ordinal], found.new_bits(at))
                    moved[tensor.ordinal] = found.after[at] - found.before[at]
        for tensor, _, _ in group:
            by, committed = moved[tensor.ordinal], sums[tensor.ordinal]
            self.digests[tensor.ordinal] = (self.digests[tensor.ordinal] + by) & _MASK
            if (by - committed.after + committed.before) & _MASK:
                raise SourceChangedError(f"{tensor.name!r} was changed while it was being published")

    def _keeps(self, freeze: Freeze, ordinal: int) -> bool:
        """Whether changes of a tensor must be noted, to be undone for the freeze; notes that outweigh it end here."""
        if ordinal not in freeze.waiting or ordinal in freeze.copies:
            return False
        own = self._bits[ordinal]
        if freeze.undo_bytes(ordinal) < own.nbytes:
            return True
        freeze.copies[ordinal] = freeze.restored(ordinal, own)
        return False

    def read(self, tensor: Tensor) -> Iterator[memoryview]:
        """Bytes of a tensor in chunks, while nothing advances the base."""
        return _chunks(self._bits[tensor.ordinal])

    def freeze(self) -> Freeze:
        """Begin to read the base as it is now; one at a time."""
        with self._lock:
            self._freeze = Freeze(list(self.digests), {tensor.ordinal for tensor in self.table.tensors})
            return self._freeze

    def read_frozen(self, freeze: Freeze, tensor: Tensor) -> Iterator[memoryview]:
        """Bytes of a tensor as it was at the freeze, in chunks; holds one copy of it meanwhile."""
        with self._lock:
            copy = freeze.restored(tensor.ordinal, self._bits[tensor.ordinal])
            freeze.waiting.discard(tensor.ordinal)
        yield from _chunks(copy)

    def release(self) -> None:
        """End the freeze."""
        with self._lock:
            self._freeze = None


def _chunks(bits: Bits) -> Iterator[memoryview]:
    for start in range(0, bits.size, _CHUNK):
        yield bits[start : start + _CHUNK].view(np.uint8).data
