"""A whole stream, held to everything that SPEC.md says and its bucket shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from deltawire.format import keys
from deltawire.format.records import AnchorRecord, Delta, Snapshot, SpanRecord, VersionRecord
from deltawire.inspecting.findings import Note, Trouble
from deltawire.inspecting.history import Advance, no_progress
from deltawire.inspecting.inventory import folder_version
from deltawire.inspecting.verification import Examination, examine_stream
from deltawire.reading.retention import Retention
from deltawire.store.base import Store
from deltawire_conformance.checking.findings import CheckReport, Finding, in_order
from deltawire_conformance.checking.layout import layout_findings
from deltawire_conformance.checking.lines import line_findings
from deltawire_conformance.checking.parts import file_findings, row_findings
from deltawire_conformance.checking.shapes import REQUIREMENTS, Shapes, read_shapes
from deltawire_conformance.checking.shards import snapshot_findings

if TYPE_CHECKING:
    from deltawire.ed25519 import PublicKeyLike

_OF_NOTES = {
    "head": "HED-3",
    "lease": "LSE-2",
    "member": "VER-4",
    "pin": "PIN-9",
    "signatures": "SIG-11",
}
_OF_SHAPE = {
    "malformed_record", "limit_exceeded", "unsupported_protocol", "unsupported_feature", "unsupported_dtype",
}  # fmt: skip
"""Codes of what shows in a record alone, where the look at its shape says more."""


def check_stream(
    store: Store,
    *,
    deep: bool = False,
    trust: Sequence[PublicKeyLike] | None = None,
    timeout: float | None = None,
    advance: Advance = no_progress,
) -> CheckReport:
    """Look at everything under a stream's prefix; changes nothing.

    Args:
        store: of the stream.
        deep: also load every snapshot, replay every delta and span, and look at every row. Holds up to two copies of
            the model in memory.
        trust: public keys by which the stream must be signed; None holds a signed stream to the keys that it lists.
        timeout: seconds until giving up.
        advance: told of the bytes read; called from several threads.

    Raises:
        StreamNotFoundError: there is no stream here.
        StoreError, DeadlineExceededError: the store did not answer; nothing is known.
    """
    seen = examine_stream(store, deep=deep, trust=trust, timeout=timeout, advance=advance)
    listing = list(store.list(""))
    shapes = read_shapes(store, listing)
    findings = [
        *_troubles(seen.troubles, shapes),
        *_notes(seen.notes, shapes),
        *_leftovers(seen),
        *_demoted(shapes.findings, seen.retention),
        *_demoted(line_findings(shapes.records), seen.retention),
        *_contents(store, seen, deep=deep),
        *layout_findings(seen.inventory.unknown),
    ]
    return CheckReport(
        url=store.url,
        deep=deep,
        findings=in_order(findings),
        versions=len(seen.records.versions),
        anchors=len(seen.records.anchors),
        spans=len(seen.records.spans),
        records=shapes.looked_at,
        objects=seen.data.objects,
        bytes=seen.data.bytes,
        states=seen.states,
    )


def _troubles(troubles: list[Trouble], shapes: Shapes) -> Iterator[Finding]:
    for trouble in troubles:
        one = trouble.finding
        if one.code in _OF_SHAPE and one.key in shapes.malformed:
            continue  # said already, and better
        requirement = REQUIREMENTS.get(one.code, one.requirement or _of_rows(one.key))
        if one.code == "bad_signature" and one.key == keys.STREAM:
            requirement = "SIG-5"
        yield Finding(
            requirement=requirement, severity="error", key=one.key, message=_less(one.message, one.key), code=one.code
        )


def _of_rows(key: str) -> str:
    """What is broken where rows cannot be decoded: they do not make the state that they should."""
    return "DLT-1" if keys.parse_span(key) is None else "SPN-2"


def _less(message: str, key: str) -> str:
    return message.removeprefix(key).lstrip(": ")


def _notes(notes: list[Note], shapes: Shapes) -> Iterator[Finding]:
    for note in notes:
        # What is malformed, and members that nothing is called, were seen by their schema.
        if note.about != "member" and note.key not in shapes.malformed:
            # A head that cannot be read or is of another stream is no stale one.
            requirement = "HED-1" if note.about == "head" and note.code else _OF_NOTES[note.about]
            yield Finding(
                requirement=requirement, severity="note", key=note.key, message=note.message, code=note.code
            )  # fmt: skip
    head = keys.HEAD in shapes.records or keys.HEAD in shapes.malformed
    if not head and any(isinstance(record, VersionRecord) for record in shapes.records.values()):
        message = "there is none; a reader that comes from nothing lists the versions"
        yield Finding(requirement="HED-3", severity="note", key=keys.HEAD, message=message)


def _leftovers(seen: Examination) -> Iterator[Finding]:
    for leftover in seen.records.leftovers:
        message = f"it is of version {leftover.version}, which is not retained; collecting has not removed it yet"
        yield Finding(requirement="COL-4", severity="note", key=leftover.key, message=message)
    for info in seen.orphans:
        number = folder_version(info.key)
        if number is not None and seen.records.doubtful(number):
            continue  # a record that nobody can read may name it
        message = f"no record names it ({info.bytes:,} bytes)"
        yield Finding(requirement="COL-7", severity="note", key=info.key, message=message)


def _demoted(findings: Iterator[Finding] | list[Finding], retention: Retention) -> Iterator[Finding]:
    """What is not retained is not part of the stream: what is wrong there breaks nothing. RET-3"""
    for one in findings:
        number, span = keys.parse_numbered(one.key), keys.parse_span(one.key)
        versions = [number] if number is not None else list(span or ())
        gone = any(version not in retention for version in versions)
        yield msgspec.structs.replace(one, severity="note") if gone else one


def _contents(store: Store, seen: Examination, *, deep: bool) -> Iterator[Finding]:
    """Inside of objects that are what their records say."""
    broken = {trouble.finding.key for trouble in seen.troubles}
    looked: set[str] = set()
    for key, record, version in _records(seen):
        table = seen.data.tables.get(version.tensors)
        if table is None:
            continue
        snapshot, delta = _parts_of(record)
        if snapshot is not None and key not in broken:
            yield from snapshot_findings(store, snapshot, table, broken)
        for part in () if delta is None else delta.parts:
            if part.key not in looked | broken:
                looked.add(part.key)
                yield from file_findings(store, part)
        if deep and delta is not None and key not in broken:
            absolute, ranked = "absolute" in record.writer_features, "ranked" in record.reader_features
            yield from row_findings(store, key, delta, table, absolute=absolute, ranked=ranked)


def _parts_of(record: VersionRecord | AnchorRecord | SpanRecord) -> tuple[Snapshot | None, Delta | None]:
    snapshot = None if isinstance(record, SpanRecord) else record.snapshot
    return snapshot, None if isinstance(record, AnchorRecord) else record.delta


def _records(seen: Examination) -> Iterator[tuple[str, VersionRecord | AnchorRecord | SpanRecord, VersionRecord]]:
    """Good records that name data, with that of their version."""
    versions = {number: committed.record for number, committed in seen.records.versions.items()}
    for number, version in versions.items():
        yield keys.version_key(number), version, version
    for number, anchor in seen.records.anchors.items():
        yield keys.anchor_key(number), anchor, versions[number]
    for (base, target), span in seen.records.spans.items():
        yield keys.span_key(base, target), span, versions[target]
