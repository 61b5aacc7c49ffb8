"""Rules between records that readers do not check, but a bucket shows."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import TypeVar

from deltawire.errors import PathLostError
from deltawire.format import keys
from deltawire.format.records import (
    JSON_TYPE,
    AnchorRecord,
    Delta,
    Descriptor,
    Envelope,
    HeadRecord,
    PinRecord,
    RetentionRecord,
    Snapshot,
    SpanRecord,
    StreamRecord,
    VersionRecord,
)
from deltawire.limits import MIB
from deltawire.reading.planner import Edge, plan
from deltawire_conformance.checking.findings import Finding, Severity

R = TypeVar("R", bound=Envelope)
Records = dict[str, Envelope]

_LARGE_BATCH, _LARGE_PART = 16 * MIB, 256 * MIB
"""Four times what PRT-7 calls about right: what is beyond is not about right."""
_LEAST = 16 * MIB
"""Deltas that are smaller together are no burden to anyone, whatever the state weighs."""


def line_findings(records: Records) -> Iterator[Finding]:
    """Hold the records of a stream to each other.

    Args:
        records: those that are good, by key; that of the stream among them.
    """
    stream = records.get(keys.STREAM)
    if isinstance(stream, StreamRecord):
        ours = {key: record for key, record in records.items() if record.stream_id == stream.stream_id}
        for key, record in ours.items():
            yield from _envelope(key, record, stream)
        yield from _epochs(ours)
        yield from _commit_ids(ours)
        for key, record in ours.items():
            yield from _of_kind(key, record, ours, stream)
        yield from _head(ours)
        yield from _anchoring(ours)


def _say(requirement: str, severity: Severity, key: str, message: str) -> Finding:
    return Finding(requirement=requirement, severity=severity, key=key, message=message)


def _of(records: Records, kind: type[R]) -> list[tuple[str, R]]:
    return [(key, record) for key, record in records.items() if isinstance(record, kind)]


def _version(records: Records, number: int) -> VersionRecord | None:
    found = records.get(keys.version_key(number))
    return found if isinstance(found, VersionRecord) else None


def _envelope(key: str, record: Envelope, stream: StreamRecord) -> Iterator[Finding]:
    signed = isinstance(record, StreamRecord | VersionRecord | AnchorRecord | SpanRecord)
    if stream.signing_keys and signed and record.signature is None:
        yield _say("SIG-2", "error", key, "the stream is signed, but this record is not")
    if record.signature is not None and not (stream.signing_keys and signed):
        why = "records of this kind are not signed" if stream.signing_keys else "the stream is not signed"
        yield _say("SIG-2", "error", key, f"it has a signature, but {why}")
    # A pin is written by a consumer, of which no writer feature asks anything.
    for of, own, all_of in (
        ("reader", record.reader_features, stream.reader_features),
        ("writer", record.writer_features, stream.writer_features),
    ):
        missing = sorted(set(all_of) - set(own))
        if missing and not isinstance(record, PinRecord):
            yield _say("STR-4", "error", key, f"it lacks the {of} feature {missing[0]} of {keys.STREAM}")
    for name in record.writer_features:
        if name.endswith("-dev"):
            yield _say("VER-7", "note", key, f"the feature {name} is under trial")


def _epochs(records: Records) -> Iterator[Finding]:
    """REC-6."""
    for key, record in records.items():
        expected: int | None = None
        if isinstance(record, StreamRecord | PinRecord | RetentionRecord):
            expected = 0
        elif isinstance(record, AnchorRecord | SpanRecord | HeadRecord):
            version = _version(records, record.version)
            expected = None if version is None else version.epoch
        if expected is not None and record.epoch != expected:
            yield _say("REC-6", "error", key, f"its epoch is {record.epoch}, and must be {expected}")


def _commit_ids(records: Records) -> Iterator[Finding]:
    """Every logical write has an identity of its own. REC-4"""
    seen: dict[str, str] = {}
    for key, record in records.items():
        first = seen.setdefault(record.commit_id, key)
        if first != key:
            yield _say("REC-4", "error", key, f"it has the commit_id of {first}")


def _of_kind(key: str, record: Envelope, records: Records, stream: StreamRecord) -> Iterator[Finding]:
    ranked = "ranked" in stream.reader_features and "ranked" in record.reader_features
    has = {"absolute": "absolute" in stream.writer_features, "ranked": ranked}
    if isinstance(record, VersionRecord):
        yield from _table(key, record, records)
        yield from _snapshot(key, record.snapshot)
        yield from _delta(key, record.delta, **has)
    elif isinstance(record, AnchorRecord):
        yield from _snapshot(key, record.snapshot)
        yield from _copies(key, record, records)
    elif isinstance(record, SpanRecord):
        yield from _delta(key, record.delta, **has)
        yield from _worth(key, record, records)


def _table(key: str, record: VersionRecord, records: Records) -> Iterator[Finding]:
    """Which table a version names, and where it is. TAB-1"""
    parent = _version(records, record.version - 1)
    inherited = parent is not None and record.tensors == parent.tensors
    own = record.tensors.key == keys.table_key(record.version, record.commit_id)
    if record.delta is not None and parent is not None and not inherited:
        yield _say("TAB-1", "error", key, "it has a delta, but does not name its table by its parent's descriptor")
    if record.snapshot is not None and not own and not inherited and (parent is not None or record.version == 0):
        yield _say("TAB-1", "error", key, f"its table is {record.tensors.key}, not tensors/table.json in its folder")
    yield from _media_type(key, record.tensors, "tensor table")


def _media_type(key: str, descriptor: Descriptor, what: str) -> Iterator[Finding]:
    if descriptor.media_type != JSON_TYPE:
        yield _say("section 16.5", "error", key, f"the media type of the {what} is {descriptor.media_type[:80]!r}")


def _snapshot(key: str, snapshot: Snapshot | None) -> Iterator[Finding]:
    if snapshot is not None:
        yield from _media_type(key, snapshot.index, "index")


def _delta(key: str, delta: Delta | None, *, absolute: bool, ranked: bool) -> Iterator[Finding]:
    for part in () if delta is None else delta.parts:
        name = part.key.rpartition("/")[2]
        of_ranked = any(stream in {"classes", "items"} for stream in part.streams)
        if absolute and (of_ranked or any(stream == "signs" or stream.startswith("diff_") for stream in part.streams)):
            yield _say("COD-2", "error", key, f"{name} has streams of a codec that needs the base")
        if of_ranked and not ranked:
            yield _say(
                "COD-4", "error", key, f"{name} has streams of the codec ranked, without the feature of that name"
            )
        large = [batch for batch in part.batches if batch.decoded_bytes > _LARGE_BATCH and batch.rows > 1]
        if large:
            worst = max(batch.decoded_bytes for batch in large)
            yield _say("PRT-7", "should", key, f"{name} has a batch of {worst:,} bytes before compression")
        if part.bytes > _LARGE_PART and len(part.batches) > 1:
            yield _say("PRT-7", "should", key, f"{name} has {part.bytes:,} bytes")
        if any(two.first_tensor < one.last_tensor for one, two in itertools.pairwise(part.batches)):
            yield _say("PRT-7", "should", key, f"the batches of {name} are not in the order of their tensors")


def _copies(key: str, anchor: AnchorRecord, records: Records) -> Iterator[Finding]:
    """An anchor's folder loads as it is. SNP-6"""
    version = _version(records, anchor.version)
    if version is None:
        return
    wanted = {(file.name, file.digest) for file in version.files}
    copies = {(file.name, file.digest) for file in anchor.snapshot.files}
    for name, _ in sorted(wanted - copies):
        yield _say("SNP-6", "should", key, f"it has no copy of {name}, a file of its version")


def _worth(key: str, span: SpanRecord, records: Records) -> Iterator[Finding]:
    """A span is no longer than what it saves. SPN-3"""
    size = _bytes(span.delta.parts)
    edges = [
        Edge("span", other.base, other.version, _bytes(other.delta.parts))
        for _, other in _of(records, SpanRecord)
        if span.base <= other.base and other.version <= span.version and other is not span
    ]
    for number in range(span.base + 1, span.version + 1):
        version = _version(records, number)
        if version is None:
            break
        if version.delta is not None:
            edges.append(Edge("delta", number - 1, number, _bytes(version.delta.parts)))
    try:
        way = plan(edges, held=span.base, target=span.version)
    except PathLostError:
        return
    shortest = sum(edge.bytes for edge in way)
    if size > shortest:
        message = f"it has {size:,} bytes, and a way over deltas and shorter spans only {shortest:,}"
        yield _say("SPN-3", "should", key, message)


def _head(records: Records) -> Iterator[Finding]:
    """Whether the hint is there and can name a snapshot. HED-3"""
    head = records.get(keys.HEAD)
    if not isinstance(head, HeadRecord) or head.anchor is None:
        return
    version = _version(records, head.anchor)
    if keys.anchor_key(head.anchor) not in records and (version is None or version.snapshot is None):
        message = f"it names version {head.anchor} as the newest with a snapshot, which has none"
        yield _say("HED-1", "note", keys.HEAD, message)


def _anchoring(records: Records) -> Iterator[Finding]:
    """Whether the deltas since the last snapshot outweigh the state. ANC-5"""
    versions = sorted(record.version for _, record in _of(records, VersionRecord))
    since = 0
    for number in reversed(versions):
        version = _version(records, number)
        anchor = records.get(keys.anchor_key(number))
        snapshot = anchor.snapshot if isinstance(anchor, AnchorRecord) else version.snapshot if version else None
        if snapshot is not None:
            if since > max(_bytes(snapshot.shards), _LEAST):
                message = f"the deltas since the snapshot of version {number} have {since:,} bytes, more than the state"
                yield _say("ANC-5", "should", keys.version_key(versions[-1]), message)
            return
        since += _bytes(version.delta.parts) if version is not None and version.delta is not None else 0


def _bytes(descriptors: Iterable[Descriptor]) -> int:
    return sum(descriptor.bytes for descriptor in descriptors)
