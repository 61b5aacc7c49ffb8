"""``patch.json``: what a patch file says of itself (SPEC.md section 8.9)."""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec

from deltawire.errors import MalformedRecordError
from deltawire.format import features, strict_json
from deltawire.format.records import (
    Delta,
    Descriptor,
    Feature,
    File,
    Hex64,
    Name,
    Producer,
    ProtocolVersion,
    Record,
    check_delta,
    check_file_name,
    check_files,
)
from deltawire.limits import Limits

RECORD = "patch.json"
TABLE = "tensors.json"
FILES = "files/"
MEDIA_TYPE = "application/vnd.deltawire.patch+zip"
"""Media type of a patch file (SPEC.md section 16.5)."""

_PART = re.compile(r"part-[0-9]{5,6}\.arrow")


class PatchRecord(Record, frozen=True, kw_only=True):
    """The difference between two checkpoints with the same tensors. Keys are names of members of the file (PAT-2)."""

    protocol: str
    protocol_version: ProtocolVersion
    kind: Literal["patch"]
    producer: Producer
    reader_features: tuple[Feature, ...]
    metadata: dict[str, Any]
    tensors: Descriptor
    """The tensor table, the same before and after."""
    base_digest: Hex64
    """State digest of the checkpoint that the patch is for."""
    state_digest: Hex64
    """State digest of the checkpoint that it makes."""
    delta: Delta
    files: tuple[File, ...] = ()
    """Auxiliary files that are new or changed."""
    removed_files: tuple[Name, ...] = ()
    """Auxiliary files that are gone."""


def decode_patch(data: bytes, *, limits: Limits) -> PatchRecord:
    """Read ``patch.json``, checking in the order of REC-2.

    Raises:
        LimitExceededError, MalformedRecordError, UnsupportedProtocolError, UnsupportedFeatureError: as for records.
    """
    limits.check("record_bytes", len(data), f"size of {RECORD}")
    value = strict_json.parse(data, what=RECORD, limits=limits)
    features.check_protocol_of(value, what=RECORD)
    required = value.get("reader_features")
    if isinstance(required, list) and all(isinstance(name, str) for name in required):
        limits.check("features", len(required), f"number of reader features of {RECORD}")
        features.check_features(tuple(required), features.READER_FEATURES, role="reader")
    strict_json.refuse_null(value, PatchRecord, what=RECORD)
    record = strict_json.convert(value, PatchRecord, what=RECORD)
    limits.check("metadata_bytes", len(msgspec.json.encode(record.metadata)), f"metadata of {RECORD}")
    check_delta(record.delta, what=RECORD, limits=limits)
    check_files(record.files, what=RECORD, limits=limits)
    limits.check("files", len(record.removed_files), f"number of removed files of {RECORD}")
    _check_keys(record)
    change = int(record.delta.digest_after, 16) - int(record.delta.digest_before, 16)
    if (int(record.base_digest, 16) + change) % (1 << 64) != int(record.state_digest, 16):
        raise MalformedRecordError(
            f"{RECORD}: its state digest does not follow from its base's and its delta's"
        )  # PAT-4
    return record


def _check_keys(record: PatchRecord) -> None:
    """Members have fixed names, so that none can lead outside the file. PAT-2"""
    if record.tensors.key != TABLE:
        raise MalformedRecordError(f"{RECORD}: its tensor table is called {record.tensors.key}")
    parts = [part.key for part in record.delta.parts]
    if len(set(parts)) != len(parts) or not all(_PART.fullmatch(key) for key in parts):
        raise MalformedRecordError(f"{RECORD}: its parts do not have names of their own like part-00000.arrow")
    for file in record.files:
        if file.key != FILES + file.name:
            raise MalformedRecordError(f"{RECORD}: file {file.name} is called {file.key}")
    for name in record.removed_files:
        check_file_name(name)
    if {file.name for file in record.files} & set(record.removed_files):
        raise MalformedRecordError(f"{RECORD}: a file is both carried and removed")
