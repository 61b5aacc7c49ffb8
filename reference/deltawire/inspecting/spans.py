"""Holding the record of a span to the versions at its ends and between them (SPEC.md section 8.13)."""

from __future__ import annotations

from collections.abc import Mapping

from deltawire.errors import BrokenChainError, MalformedRecordError, WrongStreamError
from deltawire.format.records import SpanRecord, StreamRecord
from deltawire.reading.stream import Committed


def check_span_ours(span: SpanRecord, stream: StreamRecord, key: str, base: int, target: int) -> None:
    """A span must be of this stream and between the versions in its key. SPN-1, STR-2

    Raises:
        WrongStreamError, BrokenChainError: it is not.
    """
    if span.stream_id != stream.stream_id:
        raise WrongStreamError(f"{key} belongs to stream {span.stream_id}, not {stream.stream_id}")
    if (span.base, span.version) != (base, target):
        raise BrokenChainError(f"{key} is the record of a span from version {span.base} to {span.version}")


def check_span(span: SpanRecord, base: Committed, target: Committed) -> None:
    """A span must lead from the one record to the other. SPN-4. Raises BrokenChainError."""
    what = f"the span from version {base.record.version} to {target.record.version}"
    if span.base_digest != base.digest or span.version_digest != target.digest:
        raise BrokenChainError(f"{what} was made of other records")
    if {base.record.tensors.digest, target.record.tensors.digest} != {span.tensors.digest}:
        raise BrokenChainError(f"{what} does not have their tensor table")
    if target.record.epoch < base.record.epoch:
        raise BrokenChainError(f"{what} leads to epoch {target.record.epoch}, below its base's {base.record.epoch}")
    change = int(span.delta.digest_after, 16) - int(span.delta.digest_before, 16)
    follows = (int(base.record.state_digest, 16) + change) % (1 << 64)
    if not follows == int(target.record.state_digest, 16) == int(span.state_digest, 16):
        raise BrokenChainError(
            f"{what}: the state digest of its target does not follow from its base's and its delta's"
        )


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
