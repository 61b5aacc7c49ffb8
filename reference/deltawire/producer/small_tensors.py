"""Small tensors are compared many at once: copying them costs less than looking at each by itself."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from deltawire.codecs.base import BoxChange
from deltawire.format.dtypes import Bits
from deltawire.format.tensors import Tensor
from deltawire.kernels.many import digests_of_changes
from deltawire.kernels.scan import Changes, Room, find_changes
from deltawire.producer.comparing import TensorPair

SMALL_ELEMENTS = 1 << 15
"""Up to this size a tensor is small."""
GROUP_ELEMENTS = 1 << 18
"""A group is closed at this size, so that it stays in a cache."""
GROUP_TENSORS = 4096

SmallPair = tuple[Tensor, TensorPair]
"""A tensor with its two states."""


class Group:
    """Small tensors that follow each other, until there are enough of them to be compared at once.

    Args:
        elements: that it holds at most.
    """

    def __init__(self, elements: int) -> None:
        self.pairs: list[SmallPair] = []
        self._left = elements

    def takes(self, tensor: Tensor) -> bool:
        """Whether there is room for a further tensor."""
        return tensor.elements <= self._left and len(self.pairs) < GROUP_TENSORS

    def add(self, pair: SmallPair) -> None:
        """Add a tensor that it takes."""
        self.pairs.append(pair)
        self._left -= pair[0].elements


def groups(pairs: Iterable[SmallPair]) -> Iterator[list[SmallPair]]:
    """Cut small tensors into groups of at most ``GROUP_ELEMENTS``."""
    group = Group(GROUP_ELEMENTS)
    for pair in pairs:
        if not group.takes(pair[0]):
            yield group.pairs
            group = Group(GROUP_ELEMENTS)
        group.add(pair)
    if group.pairs:
        yield group.pairs


@dataclass(frozen=True, slots=True)
class SmallChanges:
    """What differs in small tensors of one dtype, each of which changed somewhere."""

    tensors: Sequence[Tensor]
    changes: Changes
    """Of all of them, as if they lay end to end; overwritten by the next comparison."""
    ends: npt.NDArray[np.int64]
    """Where in these those of each tensor end."""
    firsts: npt.NDArray[np.uint32]
    """The position of the first element of each."""
    before: Sequence[int]
    """Digest of the old bits of each one's changed elements."""
    after: Sequence[int]
    """Digest of their new bits."""
    _old: Bits
    _new: Bits

    def counts(self) -> list[int]:
        """How many elements of each changed."""
        counts: list[int] = np.diff(self.ends, prepend=0).tolist()
        return counts

    def new_bits(self, at: int) -> Bits:
        """All new bits of a tensor, as they were when they were compared."""
        first = int(self.firsts[at])
        return self._new[first : first + self.tensors[at].elements]

    def change(self, at: int) -> BoxChange:
        """What differs in a tensor."""
        first, size = int(self.firsts[at]), self.tensors[at].elements
        place = slice(int(self.ends[at - 1]) if at else 0, int(self.ends[at]))
        inside = self.changes.positions[place] - np.uint32(first)
        own = Changes(inside, self.changes.old[place], self.changes.new[place])
        return BoxChange(self._old[first : first + size], self._new[first : first + size], own)


def compare_small(pairs: Sequence[SmallPair], room: Room) -> Iterator[SmallChanges]:
    """What differs in the small tensors of a group, of any dtypes; nothing of those in which nothing does.

    Each new element is read once, so that what is found agrees with itself even if the source changes meanwhile.

    Args:
        pairs: the group.
        room: for as many elements as the group has.
    """
    by_kind: dict[Hashable, list[SmallPair]] = {}
    for tensor, pair in pairs:
        by_kind.setdefault((tensor.dtype.name, pair.place), []).append((tensor, pair))
    for alike in by_kind.values():
        first = alike[0][1]
        before, after = first.end_to_end([pair for _, pair in alike])
        changes = find_changes(before, after, room)
        if not len(changes.positions):
            continue
        sizes = np.array([tensor.elements for tensor, _ in alike], np.uint32)
        stops = np.cumsum(sizes, dtype=np.uint32)
        ends = np.searchsorted(changes.positions, stops)
        changed = np.flatnonzero(np.diff(ends, prepend=0))
        tensors = [alike[index][0] for index in changed.tolist()]
        ends, firsts = ends[changed], (stops - sizes)[changed]
        seeds = np.fromiter((tensor.seed for tensor in tensors), np.uint64, len(tensors))
        digests = digests_of_changes(changes.old, changes.new, changes.positions, ends, firsts=firsts, seeds=seeds)
        yield SmallChanges(tensors, changes, ends, firsts, digests[0].tolist(), digests[1].tolist(), before, after)
