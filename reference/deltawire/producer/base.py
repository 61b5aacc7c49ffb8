"""The producer's base: the bits of the last committed version, and what an anchor being written still needs of them."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from deltawire.errors import SourceChangedError
from deltawire.format.dtypes import Bits
from deltawire.format.tensors import Tensor, TensorTable
from deltawire.kernels.merge import Ascending
from deltawire.kernels.scan import Room
from deltawire.producer.comparing import CHUNK, HeldTensor, KeepOld, SourceTensor, TensorPair, flat_indices_of
from deltawire.producer.deltas import Sums
from deltawire.producer.encoding import BOX_ELEMENTS
from deltawire.producer.small_tensors import SmallPair, compare_small

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
    undo: dict[int, list[tuple[Ascending, Bits]]] = field(default_factory=dict)
    """Flat indices, ascending, and old bits of what has changed since, by ordinal."""
    copies: dict[int, Bits] = field(default_factory=dict)
    """Tensors as they were, by ordinal, in place of what would undo their changes."""

    def restored(self, ordinal: int, now: HeldTensor, start: int, stop: int) -> Bits:
        """Elements of a tensor as they were, from what it is now, wherever that is; not to be written to."""
        kept = self.copies.get(ordinal)
        if kept is not None:
            return kept[start:stop]
        copy = np.array(now.read(start, stop))
        for indices, old in reversed(self.undo.get(ordinal, [])):
            first, last = np.searchsorted(indices, np.array([start, stop], indices.dtype))
            copy[indices[first:last] - indices.dtype.type(start)] = old[first:last]
        return copy

    def keep_whole(self, ordinal: int, now: HeldTensor) -> None:
        """Keep a copy of a tensor as it was, in place of what would undo its changes."""
        copy = np.empty(now.elements, now.storage)
        for start in range(0, now.elements, CHUNK):
            stop = min(start + CHUNK, now.elements)
            copy[start:stop] = self.restored(ordinal, now, start, stop)
        self.copies[ordinal] = copy
        self.undo.pop(ordinal, None)

    def end(self, ordinal: int) -> None:
        """A tensor was read: nothing of it is needed any more."""
        self.waiting.discard(ordinal)
        self.undo.pop(ordinal, None)
        self.copies.pop(ordinal, None)

    def undo_bytes(self, ordinal: int) -> int:
        """Memory that is kept to undo the changes of a tensor."""
        return sum(indices.nbytes + old.nbytes for indices, old in self.undo.get(ordinal, ()))


class BaseState:
    """Every tensor of a table, with each tensor's digest kept up to date in O(changed)."""

    def __init__(self, table: TensorTable, held: Sequence[HeldTensor]) -> None:
        self.table = table
        self._held = list(held)
        self._lock = threading.Lock()
        self._freeze: Freeze | None = None
        self.digests = [held[tensor.ordinal].digest(tensor) for tensor in table.tensors]

    @property
    def digest(self) -> int:
        """State digest of the base."""
        return sum(self.digests) & _MASK

    def pair(self, tensor: Tensor, new: SourceTensor) -> TensorPair:
        """Bring together what is held of a tensor and a new state of it: where that is, to which the base may move."""
        pair = new.beside(self._held[tensor.ordinal])
        self._held[tensor.ordinal] = pair.held  # whoever reads the other copy reads the same bits
        return pair

    def advance(self, tensor: Tensor, new: SourceTensor, *, before: int, after: int) -> None:
        """Take over the new bits of a tensor that was just committed.

        Args:
            tensor: which.
            new: its new state, unchanged since it was encoded.
            before: digest of the old bits of the changed elements, as committed.
            after: digest of their new bits, as committed.

        Raises:
            SourceChangedError: ``new`` no longer is what was committed; the base is now useless.
        """
        pair = self.pair(tensor, new)
        with self._lock:
            keep = self._keeper(tensor.ordinal)
            moved = pair.advance(tensor, run=BOX_ELEMENTS, keep=keep)
        self.digests[tensor.ordinal] = (self.digests[tensor.ordinal] + moved) & _MASK
        if moved != (after - before) & _MASK:
            raise SourceChangedError(f"{tensor.name!r} was changed while it was being published")

    def advance_small(self, group: Sequence[SmallPair], sums: Mapping[int, Sums], room: Room) -> None:
        """The same for many small tensors.

        Args:
            group: each brought together with its new state by ``pair``.
            sums: of their rows, as committed, by ordinal.
            room: for as many elements as the group has.

        Raises:
            SourceChangedError: as ``advance``.
        """
        pairs = {tensor.ordinal: pair for tensor, pair in group}
        moved = dict.fromkeys(pairs, 0)
        with self._lock:
            for found in compare_small(group, room):
                for at, tensor in enumerate(found.tensors):
                    keep = self._keeper(tensor.ordinal)
                    if keep is not None:
                        changes = found.change(at).changes
                        keep(flat_indices_of(changes.positions, 0, tensor.elements), changes.old.copy())
                    pairs[tensor.ordinal].overwrite(found.new_bits(at))
                    moved[tensor.ordinal] = found.after[at] - found.before[at]
        for tensor, _ in group:
            by, committed = moved[tensor.ordinal], sums[tensor.ordinal]
            self.digests[tensor.ordinal] = (self.digests[tensor.ordinal] + by) & _MASK
            if (by - committed.after + committed.before) & _MASK:
                raise SourceChangedError(f"{tensor.name!r} was changed while it was being published")

    def _keeper(self, ordinal: int) -> KeepOld | None:
        """What notes the changes of a tensor, to be undone for the freeze; notes that outweigh it end here."""
        freeze = self._freeze
        if freeze is None or ordinal not in freeze.waiting or ordinal in freeze.copies:
            return None
        own = self._held[ordinal]
        if freeze.undo_bytes(ordinal) < own.nbytes:
            notes = freeze.undo.setdefault(ordinal, [])
            return lambda indices, old: notes.append((indices, old))
        freeze.keep_whole(ordinal, own)
        return None

    def read(self, tensor: Tensor) -> Iterator[memoryview]:
        """Bytes of a tensor in chunks, while nothing advances the base."""
        held = self._held[tensor.ordinal]
        for start in range(0, held.elements, CHUNK):
            yield _bytes(held.read(start, min(start + CHUNK, held.elements)))

    def freeze(self) -> Freeze:
        """Begin to read the base as it is now; one at a time."""
        with self._lock:
            self._freeze = Freeze(list(self.digests), {tensor.ordinal for tensor in self.table.tensors})
            return self._freeze

    def read_frozen(self, freeze: Freeze, tensor: Tensor) -> Iterator[memoryview]:
        """Bytes of a tensor as it was at the freeze, in chunks, of which it holds one."""
        for start in range(0, tensor.elements, CHUNK):
            stop = min(start + CHUNK, tensor.elements)
            with self._lock:
                chunk = freeze.restored(tensor.ordinal, self._held[tensor.ordinal], start, stop)
            yield _bytes(chunk)
        with self._lock:
            freeze.end(tensor.ordinal)

    def release(self) -> None:
        """End the freeze."""
        with self._lock:
            self._freeze = None


def _bytes(bits: Bits) -> memoryview:
    return bits.view(np.uint8).data
