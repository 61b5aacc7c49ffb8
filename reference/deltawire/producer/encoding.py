"""From two states to rows: scan, choose a codec, encode (SPEC.md section 11.2)."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from deltawire.codecs.base import Codec, Positions, Stream
from deltawire.codecs.registry import CODECS
from deltawire.errors import SourceChangedError
from deltawire.format.boxes import Box, flat_range, split
from deltawire.format.dtypes import Bits
from deltawire.format.tensors import Tensor
from deltawire.kernels.digest import digest_changes, digest_range
from deltawire.kernels.scan import changed_positions, pick
from deltawire.parts.rows import Row

BOX_ELEMENTS = 1 << 22
"""Boxes are cut at this size, so that a batch stays small even when all of a box changed."""
DENSE_FRACTION = 0.25
"""Below this changed fraction positions and differences are always smaller than all elements: not even tried."""

_ALL = pa.Codec("zstd", 1)


@dataclass(frozen=True, slots=True)
class Encoder:
    """Finds what changed in a tensor and writes it as rows."""

    absolute: bool = False
    """Use only codecs that need no base (feature ``absolute``)."""

    def rows(
        self, tensor: Tensor, old: Bits, new: Bits, scratch: npt.NDArray[np.uint32], private: npt.NDArray[np.uint64]
    ) -> Iterator[Row]:
        """Rows of one tensor: none for boxes in which nothing changed (DLT-2).

        Args:
            tensor: what the bits are of.
            old: flat bits of the base.
            new: flat bits to publish.
            scratch: room for ``BOX_ELEMENTS`` positions.
            private: room for ``BOX_ELEMENTS`` elements of any dtype.

        Raises:
            SourceChangedError: ``new`` is not what it was a moment ago.
        """
        for box in split(tensor.storage_shape, BOX_ELEMENTS):
            place = flat_range(box, tensor.storage_shape)
            assert place is not None  # noqa: S101 - split makes contiguous boxes
            start, length = place
            before, after = old[start : start + length], new[start : start + length]
            positions = changed_positions(before, after, scratch)
            if not len(positions):
                continue
            # From here on only a copy is read: if the source changed between two looks at it, the streams would not be
            # what their digest says, and the version would be lost to every consumer.
            if len(positions) < DENSE_FRACTION * length:
                after = _picked(before, after, positions, private)
            else:
                after = after.copy()
                positions = changed_positions(before, after, scratch)
            if len(positions):
                yield self._row(tensor, box, start, before, after, positions)

    def _row(self, tensor: Tensor, box: Box, start: int, old: Bits, new: Bits, positions: Positions) -> Row:
        codec, streams = self._encode(tensor, old, new, positions)
        seed, first = np.uint64(tensor.seed), np.uint64(start)
        if codec.name == "dense":  # covers every element, changed or not. DEN-2
            digests = digest_range(old, seed, first), digest_range(new, seed, first)
        else:
            digests = digest_changes(old, new, positions, seed, first)
        return Row(
            tensor=tensor.ordinal,
            box=box,
            codec=codec.name,
            changed=len(positions),
            digest_before=int(digests[0]),
            digest_after=int(digests[1]),
            streams=streams,
        )

    def _encode(self, tensor: Tensor, old: Bits, new: Bits, positions: Positions) -> tuple[Codec, dict[str, Stream]]:
        sparse = CODECS["gap-set" if self.absolute else "gap"]
        streams = sparse.encode(old, new, positions, tensor.dtype)
        if len(positions) < DENSE_FRACTION * old.size:
            return sparse, streams
        dense = CODECS["dense"]
        every = dense.encode(old, new, positions, tensor.dtype)
        return (dense, every) if _compressed(every) < _compressed(streams) else (sparse, streams)


def _picked(old: Bits, new: Bits, positions: Positions, private: npt.NDArray[np.uint64]) -> Bits:
    """A box that holds the new bits at ``positions``, and nothing meaningful elsewhere."""
    picked = private.view(new.dtype)[: new.size]
    if not pick(old, new, positions, picked):
        raise SourceChangedError("the state was changed while it was being published")
    return picked


def _compressed(streams: dict[str, Stream]) -> int:
    return sum(_ALL.compress(stream, asbytes=True).__len__() for stream in streams.values())


class EncodingPool:
    """Encodes tensors on several threads and gives the rows back in table order."""

    def __init__(self, encoder: Encoder, *, workers: int) -> None:
        self._encoder = encoder
        self._workers = workers
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="deltawire-encode")
        self._local = threading.local()

    def close(self) -> None:
        """Release the threads."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def encode(
        self, tensors: tuple[Tensor, ...], old: Callable[[Tensor], Bits], new: Callable[[Tensor], Bits]
    ) -> Iterator[list[Row]]:
        """Rows of each tensor; at most a few tensors are ahead of what was taken."""

        def one(tensor: Tensor) -> list[Row]:
            return list(self._encoder.rows(tensor, old(tensor), new(tensor), *self._room()))

        pending: deque[Future[list[Row]]] = deque()
        try:
            for tensor in tensors:
                pending.append(self._pool.submit(one, tensor))
                if len(pending) > self._workers + 1:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()

    def _room(self) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint64]]:
        room: tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint64]] | None = getattr(self._local, "room", None)
        if room is None:
            room = self._local.room = np.empty(BOX_ELEMENTS, np.uint32), np.empty(BOX_ELEMENTS, np.uint64)
        return room
