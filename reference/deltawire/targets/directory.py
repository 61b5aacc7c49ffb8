"""A state as a directory of safetensors files that any loader can read (SPEC.md section 11.7).

Files are patched in place, so that a step costs what changed. A journal of absolute values makes the patch survive a
crash: it is complete on the disk before the first byte of a weight is touched, and is played again, which does no
harm, until the directory says that it is the new version.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import MsgspecError, Struct

from deltawire.errors import DeltawireError, TargetBusyError, TargetMismatchError
from deltawire.format import records
from deltawire.format.keys import SHARD_INDEX, shard_name
from deltawire.format.records import VersionRecord
from deltawire.format.strict_json import sha256
from deltawire.format.tensors import Tensor, TensorTable, parse_table
from deltawire.limits import DEFAULT_LIMITS
from deltawire.reading.stream import Committed
from deltawire.snapshots.header import build_header, file_order
from deltawire.snapshots.mapping import MappedFile
from deltawire.snapshots.writer import plan_shards
from deltawire.store.posix_files import TEMPORARY_PREFIX, sync_folder, temporary
from deltawire.targets.arrays import NumpyBits
from deltawire.targets.base import Change, Held, Target
from deltawire.targets.journal import Journal, read_journal, write_journal
from deltawire.targets.mapped import MappedTensors

PRIVATE = ".deltawire"
"""Folder of what is ours; everything else in the directory is the model's."""
_HELD, _JOURNAL, _INSTALL, _INCOMING, _LOCK = (
    "held.json", "journal.arrow", "install.json", "incoming", "lock",
)  # fmt: skip
_TABLES = "tensors-*.json"
"""Tables have their digest in their name: while a snapshot is installed there are the old one and the new one."""


class _HeldFile(Struct, frozen=True, kw_only=True):
    """``held.json``: what the directory is."""

    record: str
    digest: str
    tensors: list[str]


class _Plan(Struct, frozen=True, kw_only=True):
    """``install.json``: what is left to do once a snapshot is complete in ``incoming``."""

    install: list[str]
    remove: list[str]
    held: _HeldFile


class DirectoryTarget(Target):
    """A directory that is made, or was made, by a follower. One process at a time.

    While ``.deltawire/journal.arrow`` or ``.deltawire/install.json`` exists, an update is half done; opening the
    directory again finishes it.

    Raises:
        TargetBusyError: another process has it open.
        TargetMismatchError: it holds files that no follower wrote.
    """

    wants_files = True

    def __init__(self, path: str | os.PathLike[str], *, shard_bytes: int = 4 << 30) -> None:
        self.path = Path(path)
        self._private = self.path / PRIVATE
        self._shard_bytes = shard_bytes
        if self.path.exists() and not self.path.is_dir():
            raise TargetMismatchError(f"{self.path} is not a directory")
        if self.path.exists() and not self._private.exists() and any(self.path.iterdir()):
            raise TargetMismatchError(f"{self.path} is not empty and was not made by deltawire")
        self._private.mkdir(parents=True, exist_ok=True)
        self._lock: int | None = os.open(self._private / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        self._bits = MappedTensors()
        self._incoming: MappedTensors | None = None
        self._files: dict[str, bytes] = {}
        self._held: Held | None = None
        self._unsettled = False
        """Whether an update was begun and its end not seen: what is on the disk must be looked at again."""
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._remove_temporaries()
            self._recover()
        except BlockingIOError:
            self.close()
            raise TargetBusyError(f"{self.path} is being followed by another process") from None
        except BaseException:
            self.close()
            raise

    @property
    def held(self) -> Held | None:
        if self._unsettled:
            self._recover()
        return self._held

    def bits(self, tensor: Tensor) -> NumpyBits:
        return (self._bits if self._incoming is None else self._incoming)[tensor.name]

    def stage_files(self, files: Mapping[str, bytes]) -> None:
        self._files = dict(files)

    def begin_snapshot(self, table: TensorTable, selected: Sequence[Tensor]) -> None:
        folder = self._private / _INCOMING
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        runs = plan_shards(selected, self._shard_bytes)
        weight_map: dict[str, str] = {}
        shards = []
        for number, run in enumerate(runs, 1):
            name = shard_name(number, len(runs))
            shards.append(_create_shard(folder / name, file_order(run)))
            weight_map |= {tensor.name: name for tensor in run}
        self._incoming = MappedTensors(shards)
        index = {"metadata": {"total_size": sum(tensor.bytes for tensor in selected)}, "weight_map": weight_map}
        (folder / SHARD_INDEX).write_text(json.dumps(index, indent=1, ensure_ascii=False), encoding="utf-8")

    def end_snapshot(self, held: Held) -> None:
        incoming = self._incoming
        assert incoming is not None  # noqa: S101 - begin_snapshot came first
        self._unsettled = True
        try:
            self._prepare_install(incoming, held)
        finally:
            self.abort_snapshot()
        self._recover()

    def abort_snapshot(self) -> None:
        self._incoming = None
        self._files = {}
        if not self._interrupted():  # else the new state is what a restart gives
            shutil.rmtree(self._private / _INCOMING, ignore_errors=True)

    def _prepare_install(self, incoming: MappedTensors, held: Held) -> None:
        incoming.flush()
        folder = self._private / _INCOMING
        for name, data in self._files.items():
            (folder / name).write_bytes(data)
        for path in folder.iterdir():
            _sync_file(path)
        sync_folder(folder)
        names = sorted(path.name for path in folder.iterdir())
        keep = {file.name for file in held.committed.record.files}
        before = {file.name for file in self._held.committed.record.files} if self._held else set()
        gone = sorted(before - keep)
        self._write(_table_name(held.committed), held.table.data)
        plan = _Plan(install=names, remove=gone, held=_held_file(held))
        self._write(_INSTALL, msgspec.json.encode(plan))  # from here on the new state is what a restart gives

    def apply(self, changes: Sequence[Change], held: Held) -> None:
        before = {file.name for file in self._held.committed.record.files} if self._held else set()
        gone = before - {file.name for file in held.committed.record.files}
        journal = Journal(
            changes=[(change.tensor.name, change.where, change.new) for change in changes],
            files=self._files,
            removed=sorted(gone),
            held=msgspec.to_builtins(_held_file(held)),
        )
        self._files = {}
        self._unsettled = True
        write_journal(journal, self._private / _JOURNAL)  # APL-5: from here on the new state is what a restart gives
        self._replay(journal)
        self._held, self._unsettled = held, False

    def close(self) -> None:
        self._bits, self._unsettled = MappedTensors(), False
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _interrupted(self) -> bool:
        return (self._private / _JOURNAL).exists() or (self._private / _INSTALL).exists()

    def _remove_temporaries(self) -> None:
        """Remove what a process that was killed had begun to write; the lock is ours, so nobody is writing."""
        for folder in (self.path, self._private):
            for path in folder.glob(f"{TEMPORARY_PREFIX}*"):
                path.unlink()

    def _recover(self) -> None:
        """Finish what was begun, then open what is there."""
        try:
            if (self._private / _INSTALL).exists():
                self._install(msgspec.json.decode((self._private / _INSTALL).read_bytes(), type=_Plan))
            self._open()
            path = self._private / _JOURNAL
            if path.exists():
                journal = read_journal(path)
                self._check_journal(journal)
                self._replay(journal)
                self._open()
        except (DeltawireError, MsgspecError, KeyError, TypeError, ValueError) as error:
            self._held, self._bits = None, MappedTensors()
            raise TargetMismatchError(f"{self.path} is damaged: {error}; remove it and start again") from None
        shutil.rmtree(self._private / _INCOMING, ignore_errors=True)
        self._unsettled = False

    def _install(self, plan: _Plan) -> None:
        self._bits = MappedTensors()
        for name in plan.install:
            with suppress(FileNotFoundError):  # moved before the interruption
                (self._private / _INCOMING / name).replace(self.path / name)
        for path in self.path.glob("model-*.safetensors"):
            if path.name not in plan.install:
                path.unlink()
        for name in plan.remove:
            (self.path / name).unlink(missing_ok=True)
        sync_folder(self.path)
        self._write(_HELD, msgspec.json.encode(plan.held))
        (self._private / _INSTALL).unlink()
        sync_folder(self._private)

    def _check_journal(self, journal: Journal) -> None:
        """A damaged journal must not be written past the end of a tensor: kernels check nothing."""
        for name, where, new in journal.changes:
            flat = self._bits[name].flat
            if isinstance(where, slice):
                fits = 0 <= where.start <= where.stop <= flat.size and where.stop - where.start == new.size
            else:
                unsigned = where.dtype.kind == "u"
                fits = unsigned and where.shape == new.shape and int(where.max(initial=0)) < flat.size
            if not fits or new.dtype != flat.dtype:
                raise TargetMismatchError(f"its journal does not fit {name!r}")

    def _replay(self, journal: Journal) -> None:
        for name, where, new in journal.changes:
            self._bits[name].scatter(where, new)
        self._bits.flush(name for name, _, _ in journal.changes)
        for name, data in journal.files.items():
            _write_file(self.path / name, data)
        for name in journal.removed:
            (self.path / name).unlink(missing_ok=True)
        sync_folder(self.path)
        self._write(_HELD, json.dumps(journal.held).encode())
        (self._private / _JOURNAL).unlink()
        sync_folder(self._private)

    def _open(self) -> None:
        """Map the shards and read what version they are."""
        self._held = None
        try:
            stored = msgspec.json.decode((self._private / _HELD).read_bytes(), type=_HeldFile)
        except FileNotFoundError:
            return
        held = self._read_held(stored)
        by_name = {tensor.name: tensor for tensor in held.tensors}
        shards = sorted(self.path.glob("model-*.safetensors"))
        self._bits = MappedTensors(_open_shard(path, by_name) for path in shards)
        if missing := [tensor.name for tensor in held.tensors if tensor.name not in self._bits]:
            raise TargetMismatchError(f"{missing[0]!r} is missing")
        self._held = held
        for path in self._private.glob(_TABLES):
            if path.name != _table_name(held.committed):
                path.unlink()

    def _read_held(self, members: _HeldFile) -> Held:
        data = members.record.encode()
        record = records.decode(data, VersionRecord, what=_HELD, limits=DEFAULT_LIMITS)
        committed = Committed(record, sha256(data), data)
        try:
            stored = (self._private / _table_name(committed)).read_bytes()
        except FileNotFoundError:
            raise TargetMismatchError("its tensor table is missing") from None
        if sha256(stored) != record.tensors.digest:
            raise TargetMismatchError("its tensor table is another")
        table = parse_table(stored, limits=DEFAULT_LIMITS)
        names = set(members.tensors)
        tensors = tuple(tensor for tensor in table.tensors if tensor.name in names)
        return Held(committed, table, tensors, int(members.digest, 16))

    def _write(self, name: str, data: bytes) -> None:
        _write_file(self._private / name, data)
        sync_folder(self._private)


def _table_name(committed: Committed) -> str:
    return _TABLES.replace("*", committed.record.tensors.digest.removeprefix("sha256:"))


def _held_file(held: Held) -> _HeldFile:
    return _HeldFile(
        record=held.committed.data.decode(),
        digest=f"{held.digest:016x}",
        tensors=[tensor.name for tensor in held.tensors],
    )


def _create_shard(path: Path, order: Sequence[Tensor]) -> MappedFile:
    header = build_header(order, None)
    with path.open("wb") as file:
        file.write(header)
        file.flush()
        # A full disk is an error here, and would be a crash when the mapping is written.
        os.posix_fallocate(file.fileno(), 0, len(header) + sum(tensor.bytes for tensor in order))
    return MappedFile(path, limits=DEFAULT_LIMITS, writable=True)


def _open_shard(path: Path, tensors: Mapping[str, Tensor]) -> MappedFile:
    file = MappedFile(path, limits=DEFAULT_LIMITS, writable=True)
    for entry in file.header.entries:
        tensor = tensors[entry.name]
        if (entry.dtype, entry.shape) != (tensor.dtype.name, tensor.shape):
            raise TargetMismatchError(f"{entry.name!r} in {path.name} is not the stream's")
    return file


def _sync_file(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_file(path: Path, data: bytes) -> None:
    with temporary(path.parent) as new:
        new.file.write(data)
        new.flush()
        new.path.replace(path)
