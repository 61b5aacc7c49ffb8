"""``gap`` and ``gap-set``: changed positions as byte gaps (SPEC.md sections 9.1 to 9.4)."""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt

from deltawire.codecs.base import (
    Base,
    BoxChange,
    Codec,
    Patch,
    Positions,
    Stream,
    Streams,
    join,
    plane_names,
    planes_of,
)
from deltawire.errors import MalformedRowError
from deltawire.format.dtypes import Dtype
from deltawire.kernels.gap_rows import decode_row
from deltawire.kernels.gaps import decode_gaps, encode_gaps, max_gap_bytes
from deltawire.kernels.many import Ends, encode_gap_rows, encode_value_rows
from deltawire.kernels.scan import Changes
from deltawire.kernels.values import decode_differences, encode_differences, join_planes, split_planes


def decode_positions(codec: str, stream: Stream, elements: int, changed: int) -> Positions:
    """Read the ``positions`` stream of a row.

    Raises:
        MalformedRowError: it does not hold exactly ``changed`` positions within the box. GAP-2
    """
    positions = decode_gaps(stream, elements, changed) if _may_hold(stream, elements, changed) else None
    if positions is None:
        raise MalformedRowError(f"{codec}: positions are not {changed:,} ascending positions below {elements:,}")
    return positions


def _may_hold(stream: Stream, elements: int, changed: int) -> bool:
    """Whether the length is possible, which bounds what is allocated for the positions. GAP-2, LIM-3"""
    return changed <= len(stream) <= max_gap_bytes(changed, elements)


class GapCodec(Codec):
    """Differences from the base."""

    name = "gap"
    needs_base = True

    def streams(self, dtype: Dtype) -> tuple[str, ...]:
        return ("positions", "signs", *plane_names("diff", dtype))

    def encode(self, change: BoxChange, dtype: Dtype) -> dict[str, Stream]:
        changes = change.changes
        signs, planes = encode_differences(changes.old, changes.new, dtype)
        gaps = encode_gaps(changes.positions, change.elements)
        return dict(zip(self.streams(dtype), (gaps, signs, *planes), strict=True))

    def decode(self, streams: Streams, dtype: Dtype, elements: int, changed: int, base: Base | None) -> Patch:
        if base is None:
            raise MalformedRowError("gap: differences cannot be read without a base")
        stream, signs = streams["positions"], streams["signs"]
        if len(signs) != (changed + 7) // 8 or (changed % 8 and signs[-1] >> (changed % 8)):
            raise MalformedRowError(f"gap: signs are not {changed:,} bits and zero padding")  # VAL-1
        planes = planes_of(streams, plane_names("diff", dtype), changed, self.name)
        window = base.window
        if window is not None and _may_hold(stream, elements, changed):
            row = decode_row(window.bits, stream, signs, planes, dtype, seed=window.seed, first=window.first)
            if row is not None:
                return Patch(row.positions, row.new, row.old, (row.before, row.after))
        # The long way, for bits that lie elsewhere; it also finds out what is wrong with a row that is no good.
        positions = decode_positions(self.name, stream, elements, changed)
        old = base.gather(positions)
        bits = decode_differences(old, signs, np.stack(planes), dtype)
        if bits is None:
            raise MalformedRowError("gap: a difference is out of range")  # VAL-3
        return Patch(positions, bits, old)


def encode_rows(
    changes: Changes, ends: Ends, *, firsts: npt.NDArray[np.uint32], dtype: Dtype
) -> list[dict[str, Stream]]:
    """What ``GapCodec.encode`` makes of each of several boxes that lie end to end.

    Args:
        changes: of all boxes.
        ends: where in these the changes of each box end; each has some.
        firsts: positions of the first elements of the boxes.
        dtype: of all of them.
    """
    gaps, gap_ends = encode_gap_rows(changes.positions, ends, firsts=firsts)
    signs, sign_ends, planes = encode_value_rows(changes.old, changes.new, ends, dtype)
    names = ("positions", "signs", *plane_names("diff", dtype))
    pieces = [_cut(gaps, gap_ends), _cut(signs, sign_ends), *(_cut(plane, ends) for plane in planes)]
    return [dict(zip(names, streams, strict=True)) for streams in zip(*pieces, strict=True)]


def _cut(data: Stream, ends: Ends) -> list[Stream]:
    stops = ends.tolist()
    return [data[start:stop] for start, stop in itertools.pairwise([0, *stops])]


class GapSetCodec(Codec):
    """The same positions with absolute values: needs no base."""

    name = "gap-set"
    needs_base = False

    def streams(self, dtype: Dtype) -> tuple[str, ...]:
        return ("positions", *plane_names("value", dtype))

    def encode(self, change: BoxChange, dtype: Dtype) -> dict[str, Stream]:
        gaps = encode_gaps(change.changes.positions, change.elements)
        return dict(zip(self.streams(dtype), (gaps, *split_planes(change.changes.new)), strict=True))

    def decode(self, streams: Streams, dtype: Dtype, elements: int, changed: int, base: Base | None) -> Patch:
        positions = decode_positions(self.name, streams["positions"], elements, changed)
        return Patch(positions, join_planes(join(streams, plane_names("value", dtype), changed, self.name), dtype))
