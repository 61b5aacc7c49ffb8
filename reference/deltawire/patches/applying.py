"""Applying a patch file to a checkpoint (SPEC.md section 8.9)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from deltawire.consumer.staging import Totals, check_totals, stage_row
from deltawire.errors import MalformedRecordError, MalformedRowError, StateMismatchError, WrongBaseError
from deltawire.format.records import Part
from deltawire.format.tensors import TensorTable, parse_table
from deltawire.inspecting.history import Advance, no_progress
from deltawire.inspecting.stored_content import StoredContent
from deltawire.limits import DEFAULT_LIMITS, Limits
from deltawire.parts.reader import read_batch
from deltawire.patches.checkpoint import Checkpoint, WorkingCopy, signature, state_digest
from deltawire.patches.container import PatchReader
from deltawire.patches.record import PatchRecord, decode_patch
from deltawire.staged_folder import staged_folder


@dataclass(frozen=True, slots=True, kw_only=True)
class Patched:
    """A checkpoint was made from another and a patch, and verified in full."""

    record: PatchRecord
    state_digest: str
    files: tuple[str, ...]
    """Names of the files in the directory."""


def apply_patch(
    a: Path, patch: Path, out: Path, *, limits: Limits = DEFAULT_LIMITS, advance: Advance = no_progress
) -> Patched:
    """Make the directory ``out`` from the checkpoint ``a`` and a patch file. PAT-5

    ``out`` has the safetensors files of ``a`` under their own names, and its auxiliary files as the patch says.

    Args:
        a: a safetensors file, or a directory of them; stays as it is.
        patch: what ``write_patch`` wrote, for the very bits of ``a``.
        out: a directory that is empty or not there yet.
        limits: what to refuse.
        advance: told of bytes dealt with: the state three times over.

    Raises:
        WrongBaseError: the patch was not made for ``a``.
        FormatError, IntegrityError, UnsupportedError: the patch is damaged, or none. In any case ``out`` is as it was.
        TargetMismatchError: ``out`` is there and is not an empty directory.
    """
    base = Checkpoint(a, limits=limits)
    reader = PatchReader(patch, limits=limits)
    try:
        record = decode_patch(reader.record(), limits=limits)
        table = parse_table(reader.read(record.tensors, limit="table_bytes"), limits=limits)
        _check_tensors(base, table)
        for part in record.delta.parts:
            _check_part(reader, part, limits)
        files = {file.name: reader.read(file, limit="file_bytes") for file in record.files}
        found = state_digest(base, table, advance)
        if found != int(record.base_digest, 16):
            raise WrongBaseError(f"{a} has state digest {found:016x}; the patch is for {record.base_digest}")
        with staged_folder(out) as staging:
            copy = WorkingCopy(base, staging, limits=limits, advance=advance)
            _apply_delta(reader, record, table, copy, limits)
            digest = state_digest(copy, table, advance)
            if digest != int(record.state_digest, 16):
                raise StateMismatchError(f"the patched state has digest {digest:016x}, not {record.state_digest}")
            kept = {name: data for name, data in (base.files or {}).items() if name not in record.removed_files}
            for name, data in (kept | files).items():
                with (staging / name).open("xb") as file:  # never over a safetensors file
                    file.write(data)
            copy.flush()
            names = tuple(sorted(path.name for path in staging.iterdir()))
    finally:
        reader.close()
    return Patched(record=record, state_digest=record.state_digest, files=names)


def _check_tensors(base: Checkpoint, table: TensorTable) -> None:
    if table.aliases:
        raise MalformedRecordError("the tensor table of a patch has no aliases")  # PAT-2
    have, need = signature(base.table), signature(table)
    if have != need:
        other = min(name for name in have.keys() | need.keys() if have.get(name) != need.get(name))
        raise WrongBaseError(f"{base.path} does not have the tensors that the patch is for: {other[:80]!r} differs")


def _check_part(reader: PatchReader, part: Part, limits: Limits) -> None:
    content = StoredContent(part, None, limits=limits)
    for chunk in reader.chunks(part):
        content.take(chunk)
    content.finish()


def _apply_delta(
    reader: PatchReader, record: PatchRecord, table: TensorTable, copy: WorkingCopy, limits: Limits
) -> None:
    totals = Totals()
    for part in record.delta.parts:
        for batch, data in reader.batches(part):
            for row in read_batch(data, part, batch, table, limits=limits):
                bits = copy.bits(table.tensors[row.tensor])
                try:
                    change = stage_row(row, table.tensors[row.tensor], bits, totals)
                except WrongBaseError as error:
                    # The base as a whole is the right one, so two rows cover one element. ROW-4
                    raise MalformedRowError(f"the patch contradicts itself: {error}") from None
                bits.scatter(change.where, change.new)
    check_totals(totals, record.delta)
