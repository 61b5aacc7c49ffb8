"""Which struct, which schema and which field table describe the same object."""

from __future__ import annotations

import msgspec

from deltawire.format import records, tensors
from deltawire.limits import DEFAULT_LIMITS
from deltawire.patches.record import PatchRecord, decode_patch

COMMON = "common.json#/$defs/"

SHAPES: dict[str, tuple[type[msgspec.Struct], str, tuple[str, ...]]] = {
    "stream": (records.StreamRecord, "stream.json", ("envelope", "stream")),
    "version": (records.VersionRecord, "version.json", ("envelope", "version")),
    "anchor": (records.AnchorRecord, "anchor.json", ("envelope", "anchor")),
    "head": (records.HeadRecord, "head.json", ("envelope", "head")),
    "lease": (records.LeaseRecord, "lease.json", ("envelope", "lease")),
    "pin": (records.PinRecord, "pin.json", ("envelope", "pin")),
    "retention": (records.RetentionRecord, "retention.json", ("envelope", "retention")),
    "span": (records.SpanRecord, "span.json", ("envelope", "span")),
    "tensor_table": (tensors.TableRecord, "tensor_table.json", ("tensor_table",)),
    "patch": (PatchRecord, "patch.json", ("patch",)),
    "envelope": (records.Envelope, COMMON + "envelope", ("envelope",)),
    "signature": (records.Signature, COMMON + "signature", ("signature",)),
    "producer": (records.Producer, COMMON + "producer", ("producer",)),
    "descriptor": (records.Descriptor, COMMON + "descriptor", ("descriptor",)),
    "parent": (records.Parent, COMMON + "parent", ("parent",)),
    "rollback_of": (records.RollbackOf, COMMON + "rollback_of", ("rollback_of",)),
    "origin": (records.Origin, COMMON + "origin", ("origin",)),
    "delta": (records.Delta, COMMON + "delta", ("delta",)),
    "part": (records.Part, COMMON + "part", ("descriptor", "part")),
    "batch": (records.Batch, COMMON + "batch", ("batch",)),
    "snapshot": (records.Snapshot, COMMON + "snapshot", ("snapshot",)),
    "shard": (records.Shard, COMMON + "shard", ("descriptor", "shard")),
    "file": (records.File, COMMON + "file", ("descriptor", "file")),
    "tensor": (tensors.TensorEntry, COMMON + "tensor", ("tensor",)),
    "alias": (tensors.Alias, COMMON + "alias", ("alias",)),
}
"""By name: struct, schema, and the field tables of SPEC.md that together list its members."""

_ENVELOPES: dict[str, type[records.Envelope]] = {
    "stream": records.StreamRecord,
    "version": records.VersionRecord,
    "anchor": records.AnchorRecord,
    "head": records.HeadRecord,
    "lease": records.LeaseRecord,
    "pin": records.PinRecord,
    "retention": records.RetentionRecord,
    "span": records.SpanRecord,
}


def decode(kind: str, data: bytes) -> msgspec.Struct | tensors.TensorTable:
    """Read an object by the reference. Raises DeltawireError."""
    if kind == "tensor_table":
        return tensors.parse_table(data, limits=DEFAULT_LIMITS)
    if kind == "patch":
        return decode_patch(data, limits=DEFAULT_LIMITS)
    return records.decode(data, _ENVELOPES[kind], what=kind, limits=DEFAULT_LIMITS)


def struct_members(kind: type[msgspec.Struct]) -> tuple[set[str], set[str]]:
    """All members of a struct and the required ones."""
    fields = msgspec.structs.fields(kind)
    return {field.encode_name for field in fields}, {field.encode_name for field in fields if field.required}
