"""The rows of a batch as columns: what is looked at together costs next to nothing a row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from deltawire.codecs.base import Stream
from deltawire.codecs.registry import CODECS, codec_of
from deltawire.format.boxes import Box, Lists
from deltawire.format.tensors import TensorTable
from deltawire.parts.rows import FIXED_FIELDS, Row

_RUN = 4096
Number = TypeVar("Number", np.uint32, np.uint64)
Indices = npt.NDArray[np.int64]


class StreamColumn:
    """The streams of one name, a row each."""

    def __init__(self, column: pa.LargeBinaryArray) -> None:
        _, offsets, data = column.buffers()
        self.offsets = np.frombuffer(offsets, np.int64, len(column) + 1, 8 * column.offset)
        self.data = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)

    def __getitem__(self, index: int) -> Stream:
        return self.data[self.offsets[index] : self.offsets[index + 1]]


class Columns:
    """The columns of a batch that Arrow found valid and whose boxes have no more dimensions than a tensor may have.

    Args:
        record_batch: of the part's schema.
        streams: names of its stream columns.
        table: of the state that the rows are about.
    """

    def __init__(self, record_batch: pa.RecordBatch, streams: Sequence[str], table: TensorTable) -> None:
        self._table = table
        self.ordinals = _values(record_batch.column(0), np.uint32)
        self._start, self._shape = (_lists(record_batch.column(at)) for at in (1, 2))
        codecs = record_batch.column(3).dictionary_encode()
        self._codecs: list[str] = codecs.dictionary.to_pylist()
        self._codec_of: npt.NDArray[np.int32] = codecs.indices.to_numpy()
        self._changed, self._before, self._after = (_values(record_batch.column(at), np.uint64) for at in (4, 5, 6))
        self.streams = {
            name: StreamColumn(record_batch.column(len(FIXED_FIELDS) + at)) for at, name in enumerate(streams)
        }
        self.filled = np.zeros(len(self.ordinals), np.uint32)
        """Streams of each row that are not empty."""
        for column in self.streams.values():
            self.filled += np.diff(column.offsets) > 0
        known = self.ordinals < len(table.tensors)
        self._tensor = np.where(known, self.ordinals, 0)
        # A box that is not known to be good counts as one without elements, in which nothing can change.
        self._elements = table.shapes.fitting(self._tensor, self._start, self._shape) * known

    def box(self, index: int) -> Box:
        """The box of a row, whatever it is."""
        return Box(self._start[index], self._shape[index])

    def codec(self, index: int) -> str:
        """The codec that a row names."""
        return self._codecs[int(self._codec_of[index])]

    def changed(self, index: int) -> int:
        """How many changes a row counts."""
        return int(self._changed[index])

    def suspects(self) -> list[int]:
        """Rows, ascending, that are not proven good here: they need to be checked one by one. ROW-1 to ROW-3"""
        good = (self._changed >= 1) & (self._changed <= self._elements)
        filled = np.zeros(len(good), np.uint32)
        readable = np.zeros(len(good), np.bool_)
        for names, rows in self._kinds():
            if all(name in self.streams for name in names):
                readable[rows] = True
                for name in names:
                    offsets = self.streams[name].offsets
                    filled[rows] += offsets[rows + 1] > offsets[rows]
        return np.flatnonzero(~(good & readable & (filled == self.filled))).tolist()

    def _kinds(self) -> Iterator[tuple[tuple[str, ...], Indices]]:
        """Names of the streams that rows of one codec and dtype have, and which rows those are."""
        dtypes, dtype_of = self._table.dtype_numbers
        kinds = self._codec_of.astype(np.int64) * len(dtypes) + dtype_of[self._tensor]
        for number, codec in enumerate(self._codecs):
            if codec in CODECS:
                for at, dtype in enumerate(dtypes):
                    rows = np.flatnonzero(kinds == number * len(dtypes) + at)
                    if len(rows):
                        yield CODECS[codec].streams(dtype), rows

    def rows(self, indices: Indices) -> list[Row]:
        """Some rows, all of which are known to be good.

        A view takes more memory than an empty stream, and a hostile part has many of those: rows have the streams of
        their codec only.
        """
        # In runs, because a list of Python's takes many times the memory of a column.
        return [row for begin in range(0, len(indices), _RUN) for row in self._run(indices[begin : begin + _RUN])]

    def _run(self, indices: Indices) -> Iterator[Row]:
        dtypes, dtype_of = self._table.dtype_numbers
        tensors, codecs = self._tensor[indices], self._codec_of[indices]
        kinds = [*zip(codecs.tolist(), dtype_of[tensors].tolist(), strict=True)]
        names = {kind: codec_of(self._codecs[kind[0]]).streams(dtypes[kind[1]]) for kind in {*kinds}}
        views = {name: self._view(name, indices) for each in names.values() for name in each}
        streams = {kind: [(name, *views[name]) for name in each] for kind, each in names.items()}
        whole = self._elements[indices] == self._table.shapes.elements[tensors]
        fixed = tensors, indices, whole, self._changed[indices], self._before[indices], self._after[indices]
        lists = (column.tolist() for column in fixed)
        for at, (tensor, index, all_of_it, changed, before, after) in enumerate(zip(*lists, strict=True)):
            kind = kinds[at]
            yield Row(
                tensor=tensor,
                box=self._table.tensors[tensor].whole if all_of_it else self.box(index),
                codec=self._codecs[kind[0]],
                changed=changed,
                digest_before=before,
                digest_after=after,
                streams={name: data[first[at] : end[at]] for name, data, first, end in streams[kind]},
            )

    def _view(self, name: str, indices: Indices) -> tuple[Stream, list[int], list[int]]:
        """The bytes of a stream column, and where in them the streams of some rows begin and end."""
        column = self.streams[name]
        return column.data, column.offsets[indices].tolist(), column.offsets[indices + 1].tolist()


def _lists(column: pa.ListArray) -> Lists:
    offsets = column.offsets.to_numpy().astype(np.int64)
    return Lists(_values(column.values, np.uint64), offsets)


def _values(column: pa.Array, kind: type[Number]) -> npt.NDArray[Number]:
    """What a column of numbers holds; the bits of validity say nothing where no null is counted. PRT-5"""
    if not len(column):
        return np.empty(0, kind)
    return np.frombuffer(column.buffers()[1], kind, len(column), column.offset * np.dtype(kind).itemsize)
