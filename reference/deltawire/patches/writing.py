"""Writing a patch file (SPEC.md section 8.9)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from deltawire import __version__
from deltawire.errors import InvalidStateError
from deltawire.format import features, keys, strict_json
from deltawire.format.records import JSON_TYPE, Descriptor, File, Part, Producer
from deltawire.format.tensors import Tensor
from deltawire.inspecting.history import Advance, no_progress
from deltawire.inspecting.tensor_changes import change_of, largest_first
from deltawire.limits import DEFAULT_LIMITS, Limits
from deltawire.parts.writer import PartOptions, PartWriter
from deltawire.patches.checkpoint import Checkpoint, state_digest
from deltawire.patches.comparing import Comparison, TableDifference, file_changes, match
from deltawire.patches.container import PatchWriter
from deltawire.patches.record import FILES, RECORD, TABLE, PatchRecord
from deltawire.producer.comparing import HeldArray, TensorPair
from deltawire.producer.deltas import EncodedDelta, encode_delta
from deltawire.producer.encoding import Encoder, EncodingPool
from deltawire.snapshots.writer import describe_file
from deltawire.store.posix_files import sync_folder, temporary


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A patch file is complete on the disk."""

    comparison: Comparison
    record: PatchRecord
    bytes: int
    """Size of the file."""


def write_patch(
    a: Path,
    b: Path,
    out: Path,
    *,
    metadata: Mapping[str, Any] | None = None,
    parts: PartOptions | None = None,
    workers: int = 2,
    limits: Limits = DEFAULT_LIMITS,
    advance: Advance = no_progress,
) -> Written:
    """Write what leads from one checkpoint to another as one file. ``out`` is replaced, or is as it was.

    Args:
        a: the old one: a safetensors file, or a directory of them.
        b: the new one, with the same tensors.
        out: the file to write.
        metadata: anything JSON.
        parts: sizes and compression of parts.
        workers: threads that encode.
        limits: for headers and for the patch's own record.
        advance: told of the bytes read: the old state for its digest, and both for the difference, which count once.

    Raises:
        InvalidStateError: one of them is no checkpoint, or they do not have the same tensors.
    """
    old, new = Checkpoint(a, limits=limits), Checkpoint(b, limits=limits)
    _, difference = match(old, new)
    _check_same_tensors(difference)
    changed_files = file_changes(old, new)
    carried = {change.name: (new.files or {})[change.name] for change in changed_files if change.how != "removed"}
    base = state_digest(old, old.table, advance)
    with temporary(out.absolute().parent) as target:
        file = PatchWriter(target.file)
        encoded = _write_delta(old, new, file, parts or PartOptions(), workers=workers, advance=advance)
        file.add(TABLE, old.table.data)
        for name, data in carried.items():
            file.add(FILES + name, data)
        record = PatchRecord(
            protocol=features.PROTOCOL,
            protocol_version=features.PROTOCOL_VERSION,
            kind="patch",
            producer=Producer(name="deltawire-python", version=__version__),
            reader_features=(),
            metadata=dict(metadata or {}),
            tensors=_table_descriptor(old),
            base_digest=f"{base:016x}",
            state_digest=f"{encoded.digest_from(base):016x}",
            delta=encoded.delta,
            files=tuple(_describe(name, data) for name, data in carried.items()),
            removed_files=tuple(change.name for change in changed_files if change.how == "removed"),
        )
        data = strict_json.encode(record)
        limits.check("record_bytes", len(data), f"size of {RECORD}")
        file.add(RECORD, data)  # last: it names everything before it
        file.close()
        target.flush()
        size = target.path.stat().st_size
        target.path.replace(out)
        sync_folder(out.absolute().parent)
    comparison = Comparison(
        tensors=len(old.table.tensors),
        elements=old.table.elements,
        changes=largest_first([change_of(old.table.tensors[at], sums.changed) for at, sums in encoded.changed.items()]),
        files=changed_files,
    )
    return Written(comparison=comparison, record=record, bytes=size)


def _write_delta(
    old: Checkpoint, new: Checkpoint, file: PatchWriter, options: PartOptions, *, workers: int, advance: Advance
) -> EncodedDelta:
    def store(part: Part, data: pa.Buffer) -> None:
        file.add(part.key, memoryview(data).cast("B"))

    writer = PartWriter(keys.part_name, store, options=options)
    pool = EncodingPool(Encoder(), workers=workers)

    def pair_of(tensor: Tensor) -> TensorPair:
        advance(tensor.bytes)
        return new.source.tensor(tensor.name).beside(HeldArray(old.source.bits(tensor.name)))

    try:
        return encode_delta(old.table.tensors, pair_of, encoding=pool, writer=writer)
    finally:
        pool.close()


def _check_same_tensors(difference: TableDifference) -> None:
    """A patch changes elements, and nothing else. PAT-3"""
    for what, found in (
        ("only the new checkpoint has", difference.added),
        ("only the old checkpoint has", difference.removed),
        ("the two have different dtypes or shapes of", difference.retyped),
    ):
        if found:
            names = ", ".join(repr(item.name[:80]) for item in found[:3])
            more = f" and {len(found) - 3} more" if len(found) > 3 else ""
            raise InvalidStateError(f"a patch needs the same tensors on both sides, but {what} {names}{more}")


def _table_descriptor(old: Checkpoint) -> Descriptor:
    data = old.table.data
    return Descriptor(key=TABLE, media_type=JSON_TYPE, bytes=len(data), digest=strict_json.sha256(data))


def _describe(name: str, data: bytes) -> File:
    return describe_file(name, data, key=FILES + name)
