"""From two states to rows: scan, choose a codec, encode (SPEC.md section 11.2)."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from deltawire.codecs.base import BoxChange, Codec, LazyBoxChange, Stream
from deltawire.codecs.gap import GapCodec, encode_rows
from deltawire.codecs.registry import CODECS
from deltawire.format.boxes import Box, flat_range, split
from deltawire.format.dtypes import Bits, Dtype
from deltawire.format.tensors import Tensor
from deltawire.kernels.access import put, take
from deltawire.kernels.digest import digest_changes, digest_range
from deltawire.kernels.scan import Changes, Room
from deltawire.limits import MIB
from deltawire.parts.rows import Row
from deltawire.producer.comparing import ArrayPair, HeldArray, SourceArray, TensorPair
from deltawire.producer.small_tensors import (
    GROUP_ELEMENTS,
    SMALL_ELEMENTS,
    Group,
    SmallChanges,
    SmallPair,
    compare_small,
)

BOX_ELEMENTS = 1 << 22
"""Boxes are cut at this size, so that a batch stays small even when all of a box changed."""
BOX_BYTES = 8 * MIB
"""And at this one: up to 16 MiB a batch may shrink as far as it will, which one that changes evenly does. LIM-2"""
DENSE_FRACTION = 0.25
"""Below this changed fraction positions and differences are always smaller than all elements: not even tried."""

_ALL = pa.Codec("zstd", 1)


@dataclass(frozen=True, slots=True)
class Encoder:
    """Finds what changed in a tensor and writes it as rows."""

    absolute: bool = False
    """Use only codecs that need no base (feature ``absolute``)."""
    ranked: bool = False
    """Use the codec ``ranked`` for floats (feature ``ranked``)."""

    @classmethod
    def of(cls, features: Collection[str]) -> Self:
        """The encoder for a stream with these writer features."""
        absolute = "absolute" in features
        return cls(absolute=absolute, ranked="ranked" in features and not absolute)  # COD-2, COD-4

    def _sparse(self, dtype: Dtype) -> Codec:
        """The codec for boxes of which little changed."""
        if self.absolute:
            return CODECS["gap-set"]
        return CODECS["ranked" if self.ranked and dtype.order == "float" else "gap"]

    def rows(self, tensor: Tensor, old: Bits, new: Bits, room: Room) -> Iterator[Row]:
        """Rows of one tensor: none for boxes in which nothing changed (DLT-2).

        Args:
            tensor: what the bits are of.
            old: flat bits of the base.
            new: flat bits to publish.
            room: for scans of ``BOX_ELEMENTS``.
        """
        pair = ArrayPair(HeldArray(old), SourceArray(new))
        for box in split(tensor.storage_shape, _box_elements(tensor)):
            row = self.row(tensor, box, pair, room)
            if row is not None:
                yield row

    def row(self, tensor: Tensor, box: Box, pair: TensorPair, room: Room) -> Row | None:
        """The row of one contiguous box of a tensor; None if nothing changed in it."""
        place = flat_range(box, tensor.storage_shape)
        assert place is not None  # noqa: S101 - split makes contiguous boxes
        start, length = place
        # Of a dense box every element may be written, and the streams must be what their digest says even if the
        # source changes meanwhile.
        change = pair.change(start, start + length, room, whole_from=DENSE_FRACTION * length)
        return None if change is None else self._row(tensor, box, start, change)

    def small_rows(self, group: Sequence[SmallPair], room: Room) -> list[Row]:
        """The rows of several small tensors of any dtypes, in table order; of what did not change nothing is made.

        Args:
            group: tensors in table order with their two states, of at most ``BOX_ELEMENTS`` together.
            room: for scans of ``BOX_ELEMENTS``.
        """
        rows = [row for found in compare_small(group, room) for row in self._small_rows(found)]
        return sorted(rows, key=lambda row: row.tensor)

    def _small_rows(self, found: SmallChanges) -> Iterator[Row]:
        dtype = found.tensors[0].dtype
        gaps = self._sparse(dtype).name == GapCodec.name
        sparse = encode_rows(found.changes, found.ends, firsts=found.firsts, dtype=dtype) if gaps else None
        for at, (tensor, changed) in enumerate(zip(found.tensors, found.counts(), strict=True)):
            digests = found.before[at], found.after[at]
            if sparse is None or changed >= DENSE_FRACTION * tensor.elements:
                yield self._row(tensor, tensor.whole, 0, found.change(at), digests)
            else:
                yield Row(
                    tensor=tensor.ordinal,
                    box=tensor.whole,
                    codec=GapCodec.name,
                    changed=changed,
                    digest_before=digests[0],
                    digest_after=digests[1],
                    streams=sparse[at],
                )

    def changed_rows(
        self, tensor: Tensor, positions: npt.NDArray[np.unsignedinteger], old: Bits, new: Bits
    ) -> Iterator[Row]:
        """The same rows where it is known already what changed; nothing else of the tensor is read, but for ``dense``.

        Args:
            tensor: what the bits are of.
            positions: flat indices of the elements whose bits differ, ascending.
            old: their old bits.
            new: flat new bits of the whole tensor, which stay as they are meanwhile.
        """
        for box in split(tensor.storage_shape, _box_elements(tensor)):
            place = flat_range(box, tensor.storage_shape)
            assert place is not None  # noqa: S101 - split makes contiguous boxes
            start, length = place
            first, last = np.searchsorted(positions, np.array([start, start + length], positions.dtype))
            if first < last:
                after = new[start : start + length]
                inside = (positions[first:last] - positions.dtype.type(start)).astype(np.uint32, copy=False)
                changes = Changes(inside, old[first:last], take(after, inside))
                yield self._row(tensor, box, start, _known_change(after, changes))

    def _row(
        self, tensor: Tensor, box: Box, start: int, change: BoxChange, digests: tuple[int, int] | None = None
    ) -> Row:
        """The row of a change; ``digests`` are those of the changed elements, if they are known already."""
        codec, streams = self._encode(tensor, change)
        seed, first, changes = np.uint64(tensor.seed), np.uint64(start), change.changes
        if codec.name == "dense":  # covers every element, changed or not. DEN-2
            digests = digest_range(change.old, seed, first), digest_range(change.new, seed, first)
        elif digests is None:
            digests = digest_changes(changes.old, changes.new, changes.positions, seed, first)
        return Row(
            tensor=tensor.ordinal,
            box=box,
            codec=codec.name,
            changed=len(changes.positions),
            digest_before=int(digests[0]),
            digest_after=int(digests[1]),
            streams=streams,
        )

    def _encode(self, tensor: Tensor, change: BoxChange) -> tuple[Codec, dict[str, Stream]]:
        sparse = self._sparse(tensor.dtype)
        streams = sparse.encode(change, tensor.dtype)
        if len(change.changes.positions) < DENSE_FRACTION * change.elements:
            return sparse, streams
        dense = CODECS["dense"]
        every = dense.encode(change, tensor.dtype)
        return (dense, every) if _compressed(every) < _compressed(streams) else (sparse, streams)


def _known_change(new: Bits, changes: Changes) -> BoxChange:
    def old() -> Bits:
        before = new.copy()
        put(before, changes.positions, changes.old)
        return before

    return LazyBoxChange(changes, new.size, old=old, new=lambda: new)


def _compressed(streams: dict[str, Stream]) -> int:
    return sum(_ALL.compress(stream, asbytes=True).__len__() for stream in streams.values())


def _box_elements(tensor: Tensor) -> int:
    return min(BOX_ELEMENTS, BOX_BYTES // tensor.dtype.width)


class EncodingPool:
    """Encodes boxes on several threads and gives their rows back in table order."""

    def __init__(self, encoder: Encoder, *, workers: int) -> None:
        self._encoder = encoder
        self._workers = workers
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="deltawire-encode")
        self._local = threading.local()

    def close(self) -> None:
        """Release the threads."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def encode(self, tensors: tuple[Tensor, ...], pair_of: Callable[[Tensor], TensorPair]) -> Iterator[Row]:
        """Rows of all tensors; only a few boxes are ahead of what was taken, however large a tensor is."""
        pending: deque[Future[list[Row]]] = deque()
        try:
            for task in self._tasks(tensors, pair_of):
                pending.append(self._pool.submit(task))
                if len(pending) > self._workers + 1:
                    yield from pending.popleft().result()
            while pending:
                yield from pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()

    def _tasks(
        self, tensors: tuple[Tensor, ...], pair_of: Callable[[Tensor], TensorPair]
    ) -> Iterator[Callable[[], list[Row]]]:
        """A box each of large tensors; small ones together, because a task costs more than many of them."""
        limit = min(GROUP_ELEMENTS, BOX_ELEMENTS)
        group = Group(limit)
        for tensor in tensors:
            pair = pair_of(tensor)
            small = tensor.elements <= min(SMALL_ELEMENTS, limit)
            if group.pairs and not (small and group.takes(tensor)):
                yield partial(self._small, group.pairs)
                group = Group(limit)
            if small:
                group.add((tensor, pair))
                continue
            for box in split(tensor.storage_shape, _box_elements(tensor)):
                yield partial(self._one, tensor, box, pair)
        if group.pairs:
            yield partial(self._small, group.pairs)

    def _small(self, group: list[SmallPair]) -> list[Row]:
        return self._encoder.small_rows(group, self._room())

    def _one(self, tensor: Tensor, box: Box, pair: TensorPair) -> list[Row]:
        row = self._encoder.row(tensor, box, pair, self._room())
        return [] if row is None else [row]

    def _room(self) -> Room:
        room: Room | None = getattr(self._local, "room", None)
        if room is None:
            room = self._local.room = Room(BOX_ELEMENTS)
        return room
