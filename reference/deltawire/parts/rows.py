"""A row of a delta and the Arrow schema that all rows share (SPEC.md section 8.6)."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from deltawire.codecs.base import Streams
from deltawire.format.boxes import Box


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What happened to one box of one tensor."""

    tensor: int
    """Ordinal in the tensor table."""
    box: Box
    codec: str
    changed: int
    """Elements of the box whose bits differ."""
    digest_before: int
    """Sum of the old contributions of the covered elements, modulo 2^64."""
    digest_after: int
    """Sum of their new contributions."""
    streams: Streams
    """Those of its codec."""


FIXED_FIELDS = (
    pa.field("tensor", pa.uint32(), nullable=False),
    pa.field("box_start", pa.list_(pa.field("item", pa.uint64(), nullable=False)), nullable=False),
    pa.field("box_shape", pa.list_(pa.field("item", pa.uint64(), nullable=False)), nullable=False),
    pa.field("codec", pa.utf8(), nullable=False),
    pa.field("changed", pa.uint64(), nullable=False),
    pa.field("digest_before", pa.uint64(), nullable=False),
    pa.field("digest_after", pa.uint64(), nullable=False),
)


def part_schema(streams: tuple[str, ...]) -> pa.Schema:
    """The schema of a part with these stream columns: the fixed fields, then one large_binary each (PRT-2).

    One column a stream, because Arrow compresses each buffer on its own and a buffer holds a whole column of a batch.
    """
    return pa.schema([*FIXED_FIELDS, *(pa.field(name, pa.large_binary(), nullable=False) for name in streams)])
