"""Short rows are decoded and verified many at once: what they cost by themselves is far more than their bytes do.

Nothing is refused here. A row that is not proven good together with others is staged by itself, which says what is
wrong with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from deltawire.consumer.staging import Totals, count_row, stage_row
from deltawire.format.dtypes import Dtype
from deltawire.format.tensors import Tensor, TensorTable
from deltawire.kernels.many import decode_gap_rows, decode_value_rows, digests_of_changes
from deltawire.parts.rows import Row
from deltawire.targets.base import Change, TensorBits

SHORT = 1 << 12
"""Changes up to which a row is short."""
AT_ONCE = 1 << 18
"""About as many changes are staged at once: what rows cover is counted only then. ROW-4"""
ROWS_AT_ONCE = 4096
_FEW = 4
"""Fewer short rows than that are staged one by one."""


def stage_rows(
    rows: Sequence[Row], table: TensorTable, bits_of: Callable[[Tensor], TensorBits], totals: Totals
) -> Iterator[Change]:
    """``stage_row`` for one row after the other. Raises what that does."""
    for run in _runs(rows):
        staged = _staged(run, table, bits_of)
        for at, row in enumerate(run):
            tensor = table.tensors[row.tensor]
            change = staged.get(at)
            if change is None:
                yield stage_row(row, tensor, bits_of(tensor), totals)
            else:
                count_row(row, tensor, change.new.size, totals)
                yield change


def _runs(rows: Sequence[Row]) -> Iterator[list[Row]]:
    run: list[Row] = []
    changes = 0
    for row in rows:
        run.append(row)
        changes += min(row.changed, SHORT)
        if changes >= AT_ONCE or len(run) >= ROWS_AT_ONCE:
            yield run
            run, changes = [], 0
    if run:
        yield run


def _staged(rows: Sequence[Row], table: TensorTable, bits_of: Callable[[Tensor], TensorBits]) -> dict[int, Change]:
    """Changes of rows that are short and good, by their place."""
    by_dtype: dict[str, list[int]] = {}
    for at, row in enumerate(rows):
        tensor = table.tensors[row.tensor]
        if row.codec == "gap" and row.changed <= SHORT and row.box is tensor.whole:
            by_dtype.setdefault(tensor.dtype.name, []).append(at)
    found: dict[int, Change] = {}
    for places in by_dtype.values():
        if len(places) >= _FEW:
            chosen = [rows[at] for at in places]
            tensors = [table.tensors[row.tensor] for row in chosen]
            changes = _stage_alike(chosen, tensors, tensors[0].dtype, bits_of)
            found |= {at: change for at, change in zip(places, changes, strict=True) if change is not None}
    return found


def _stage_alike(
    rows: Sequence[Row], tensors: Sequence[Tensor], dtype: Dtype, bits_of: Callable[[Tensor], TensorBits]
) -> list[Change | None]:
    """The change of each row of one dtype; None where it is not good."""
    counts = np.fromiter((row.changed for row in rows), np.int64, len(rows))
    positions, signs, *planes = ([row.streams[name] for row in rows] for name in rows[0].streams)
    expected = [(counts + 7) // 8, *(counts for _ in planes)]
    fit = np.ones(len(rows), np.bool_)
    for streams, lengths in zip((signs, *planes), expected, strict=True):
        fit &= _lengths(streams) == lengths
    if not fit.all():  # of such rows the streams would not lie end to end
        return [None] * len(rows)
    ends = np.cumsum(counts)
    elements = np.fromiter((tensor.elements for tensor in tensors), np.int64, len(rows))
    where, good = decode_gap_rows(np.concatenate(positions), np.cumsum(_lengths(positions)), elements, ends)
    if not good.all():
        return [None] * len(rows)
    stops = ends.tolist()
    places = [slice(stop - row.changed, stop) for row, stop in zip(rows, stops, strict=True)]
    each = [where[place] for place in places]
    old = np.concatenate([bits_of(tensor).gather(own) for tensor, own in zip(tensors, each, strict=True)])
    stacked = np.stack([np.concatenate(plane) for plane in planes])
    new, good = decode_value_rows(old, np.concatenate(signs), np.cumsum(_lengths(signs)), stacked, ends, dtype)
    seeds = np.fromiter((tensor.seed for tensor in tensors), np.uint64, len(rows))
    firsts = np.zeros(len(rows), np.uint32)
    before, after = digests_of_changes(old, new, where, ends, firsts=firsts, seeds=seeds)
    good &= before == np.fromiter((row.digest_before for row in rows), np.uint64, len(rows))
    good &= after == np.fromiter((row.digest_after for row in rows), np.uint64, len(rows))
    return [
        Change(tensor, own, new[place], old[place]) if ok else None
        for tensor, own, place, ok in zip(tensors, each, places, good.tolist(), strict=True)
    ]


def _lengths(streams: Sequence[npt.NDArray[np.uint8]]) -> npt.NDArray[np.int64]:
    return np.fromiter(map(len, streams), np.int64, len(streams))
