"""Holding the record of a span to the versions that it leads over (SPEC.md section 8.13)."""

from __future__ import annotations

from collections.abc import Mapping

from deltawire.errors import BrokenChainError, MalformedRecordError
from deltawire.format.records import SpanRecord
from deltawire.reading.stream import Committed


def check_replaced(span: SpanRecord, versions: Mapping[int, Committed]) -> None:
    """A span must stand for deltas alone, and say how large they are. SPN-2, SPN-3

    Args:
        span: its record, which fulfils SPN-4.
        versions: the records that are there; what can be said without the others is said.

    Raises:
        BrokenChainError: it leads over a rebase.
        MalformedRecordError: ``replaces_bytes`` is not the size of the deltas.
    """
    what = f"the span from version {span.base} to {span.version}"
    between = [versions[number].record for number in range(span.base + 1, span.version + 1) if number in versions]
    deltas = [record.delta for record in between if record.delta is not None]
    if len(deltas) < len(between):
        raise BrokenChainError(f"{what} leads over a version that does not come from a delta")
    size = sum(part.bytes for delta in deltas for part in delta.parts)
    if size > span.replaces_bytes or (len(deltas) == span.version - span.base and size != span.replaces_bytes):
        raise MalformedRecordError(f"{what} says that it replaces {span.replaces_bytes:,} bytes, not {size:,}")
