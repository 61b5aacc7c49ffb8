"""Every record and tensor table in the store: as bytes, as JSON, by its schema, and by what no schema can say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from deltawire.errors import DeltawireError, ObjectNotFoundError, StoreError
from deltawire.format import features, keys, records, strict_json
from deltawire.format.records import (
    AnchorRecord,
    Envelope,
    HeadRecord,
    LeaseRecord,
    PinRecord,
    RetentionRecord,
    SpanRecord,
    StreamRecord,
    VersionRecord,
)
from deltawire.format.tensors import parse_table
from deltawire.limits import DEFAULT_LIMITS
from deltawire.store.base import ObjectInfo, Store
from deltawire_conformance.checking.findings import Finding
from deltawire_conformance.checking.schemas import producer_findings, shape_findings

_KINDS: dict[str, type[Envelope]] = {
    "stream": StreamRecord,
    "version": VersionRecord,
    "anchor": AnchorRecord,
    "span": SpanRecord,
    "head": HeadRecord,
    "lease": LeaseRecord,
    "pin": PinRecord,
    "retention": RetentionRecord,
}
_ONES = {keys.STREAM: "stream", keys.HEAD: "head", keys.LEASE: "lease", keys.RETENTION: "retention"}
_TABLE = "/tensors/table.json"

REQUIREMENTS = {
    "limit_exceeded": "LIM-4",
    "unsupported_protocol": "VER-1",
    "unsupported_feature": "VER-2",
    "unsupported_dtype": "DTY-1",
}
"""What is broken by an error that says nothing better."""


@dataclass(kw_only=True)
class Shapes:
    """What was read."""

    records: dict[str, Envelope] = field(default_factory=dict)
    """Records in which nothing is wrong that shows without others, by key."""
    findings: list[Finding] = field(default_factory=list)
    looked_at: int = 0
    malformed: set[str] = field(default_factory=set)
    """Keys of objects with findings of severity ``error``."""


def kind_of(key: str) -> str | None:
    """Which sort of record, or ``tensor_table``, a key is for; None for any other object."""
    if key in _ONES:
        return _ONES[key]
    if keys.parse_numbered(key) is not None:
        return "version" if key.startswith(keys.VERSIONS) else "anchor"
    if keys.parse_span(key) is not None:
        return "span"
    if keys.parse_pin(key) is not None:
        return "pin"
    return "tensor_table" if keys.parse_data(key) is not None and key.endswith(_TABLE) else None


def read_shapes(store: Store, listing: list[ObjectInfo]) -> Shapes:
    """Read every record and table that is listed.

    Raises:
        StoreError: the store did not answer.
    """
    found = Shapes()
    for info in listing:
        kind = kind_of(info.key)
        if kind is None:
            continue
        found.looked_at += 1
        made = list(_look_at(store, info.key, kind, found))
        found.findings += made
        if any(one.severity == "error" for one in made):
            found.malformed.add(info.key)
            found.records.pop(info.key, None)
    return found


def _look_at(store: Store, key: str, kind: str, found: Shapes) -> Iterator[Finding]:
    limit = DEFAULT_LIMITS.table_bytes if kind == "tensor_table" else DEFAULT_LIMITS.record_bytes
    try:
        data = store.get(key, max_bytes=limit).data
    except ObjectNotFoundError:
        return  # it was listed, and is gone since
    except StoreError:
        raise
    except DeltawireError as error:
        yield _finding(error, key, "LIM-4")
        return
    try:
        value = strict_json.parse(data, what=key, limits=DEFAULT_LIMITS)
    except DeltawireError as error:
        yield _finding(error, key, "JSN-2" if error.code == "limit_exceeded" else "JSN-1")
        return
    try:
        features.check_protocol_of(value, what=key)
    except DeltawireError as error:
        if error.code != "malformed_record":  # which its schema says better
            yield _finding(error, key, "VER-1")
            return
    shapes = shape_findings(kind, value, key)
    yield from shapes
    if shapes:
        return
    yield from producer_findings(kind, value, key)
    yield from _times(value, key)
    try:
        if kind == "tensor_table":
            parse_table(data, limits=DEFAULT_LIMITS)
        else:
            found.records[key] = records.decode(data, _KINDS[kind], what=key, limits=DEFAULT_LIMITS)
    except DeltawireError as error:
        yield _finding(error, key, REQUIREMENTS.get(error.code, _invariant(kind, value)))


def _finding(error: DeltawireError, key: str, requirement: str) -> Finding:
    message = str(error).removeprefix(key).lstrip(": ")
    return Finding(requirement=requirement, severity="error", key=key, message=message, code=error.code)


def _invariant(kind: str, value: dict[str, Any]) -> str:
    """What a record breaks that is of the right shape and malformed all the same."""
    number: int = value.get("version", 0)
    parent: int | None = value.get("parent", {}).get("version")
    if kind == "span" and value["base"] >= number:
        return "SPN-1"
    if kind == "version" and parent is not None and parent != number - 1:
        return "VSN-3"
    if kind == "version" and value.get("rollback_of", {}).get("version", -1) >= number:
        return "RBK-1"
    if kind == "tensor_table":
        names = {tensor["name"] for tensor in value["tensors"]}
        return "TAB-4" if any(alias["target"] not in names for alias in value.get("aliases", ())) else "TAB-3"
    snapshot, delta = value.get("snapshot"), value.get("delta")
    for files in (value.get("files", ()), (snapshot or {}).get("files", ())):
        if len({file["name"] for file in files}) < len(files):
            return "FIL-2"
    if snapshot is not None:
        return "SNP-3"
    if delta is not None and not delta["parts"]:
        return "DLT-4"
    homes = {"version": "PRT-4", "span": "SPN-3", "stream": "SIG-1", "pin": "PIN-1", "retention": "RET-1"}
    return homes.get(kind, "REC-2")


def _times(value: dict[str, Any], key: str) -> Iterator[Finding]:
    for name in ("created_at", "acquired_at"):
        text = value.get(name)
        if not isinstance(text, str):
            continue
        try:
            # A leap second is a time in RFC 3339, but none in Python.
            datetime.fromisoformat(text.removesuffix("Z").split(".")[0].replace(":60", ":59"))
        except ValueError:
            message = f"{name}: {text!r} is no time"
            yield Finding(requirement="section 7.1", severity="error", key=key, message=message)
