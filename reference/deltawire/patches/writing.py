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
from deltawire.format.records import JSON_TYPE, Delta, Descriptor, File, Part, Producer
from deltawire.inspection import Advance, no_progress
from deltawire.limits import DEFAULT_LIMITS, Limits
from deltawire.parts.writer import PartOptions, PartWriter
from deltawire.patches.checkpoint import Checkpoint, state_digest
from deltawire.patches.comparing import Comparison, TableDifference, file_changes, match
from deltawire.patches.container import PatchWriter
from deltawire.patches.record import FILES, RECORD, TABLE, PatchRecord
from deltawire.producer.encoding import Encoder, EncodingPool
from deltawire.snapshots.writer import describe_file
from deltawire.store.posix_files import sync_folder, temporary
from deltawire.tensor_changes import change_of, largest_first

_MASK = (1 << 64) - 1


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
        delta, by_tensor = _write_delta(old, new, file, parts or PartOptions(), workers=workers, advance=advance)
        file.add(TABLE, old.table.data)
        for name, data in carried.items():
            file.add(FILES + name, data)
        change = int(delta.digest_after, 16) - int(delta.digest_before, 16)
        record = PatchRecord(
            protocol=features.PROTOCOL,
            protocol_version=features.PROTOCOL_VERSION,
            kind="patch",
            producer=Producer(name="deltawire-python", version=__version__),
            reader_features=(),
            metadata=dict(metadata or {}),
            tensors=_table_descriptor(old),
            base_digest=f"{base:016x}",
            state_digest=f"{(base + change) & _MASK:016x}",
            delta=delta,
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
        changes=largest_first([change_of(old.table.tensors[at], count) for at, count in by_tensor.items()]),
        files=changed_files,
    )
    return Written(comparison=comparison, record=record, bytes=size)


def _write_delta(
    old: Checkpoint, new: Checkpoint, file: PatchWriter, options: PartOptions, *, workers: int, advance: Advance
) -> tuple[Delta, dict[int, int]]:
    def store(part: Part, data: pa.Buffer) -> None:
        file.add(part.key, memoryview(data).cast("B"))

    writer = PartWriter(keys.part_name, store, options=options)
    pool = EncodingPool(Encoder(), workers=workers)
    by_tensor: dict[int, int] = {}
    before = after = 0
    try:
        tensors = old.table.tensors
        encoded = pool.encode(tensors, lambda t: old.source.bits(t.name), lambda t: new.source.bits(t.name))
        for tensor, rows in zip(tensors, encoded, strict=True):
            for row in rows:
                writer.add(row)
                by_tensor[row.tensor] = by_tensor.get(row.tensor, 0) + row.changed
                before, after = (before + row.digest_before) & _MASK, (after + row.digest_after) & _MASK
            advance(tensor.bytes)
        parts = writer.finish()
    finally:
        pool.close()
    delta = Delta(
        changed_elements=sum(by_tensor.values()),
        changed_tensors=len(by_tensor),
        digest_before=f"{before:016x}",
        digest_after=f"{after:016x}",
        parts=parts,
    )
    return delta, by_tensor


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
