"""A checkpoint on disk, and a copy of one whose tensors can be changed."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from deltawire.format.keys import SHARD_INDEX
from deltawire.format.tensors import Tensor, TensorTable, build_table
from deltawire.inspecting.history import Advance
from deltawire.limits import Limits
from deltawire.producer.sources import FilesSource, auxiliary_files
from deltawire.snapshots.header import DIGESTS, header_length
from deltawire.snapshots.mapping import MappedFile
from deltawire.targets.arrays import NumpyBits
from deltawire.targets.digests import state_digest_of
from deltawire.targets.mapped import MappedTensors

_CHUNK = 8 << 20
_MASK = (1 << 64) - 1


class Checkpoint:
    """The tensors and auxiliary files of a safetensors file, or of a directory of them.

    Raises:
        InvalidStateError: it is neither, or holds no tensors.
        MalformedShardError: a file's header is invalid.
    """

    def __init__(self, path: Path, *, limits: Limits) -> None:
        self.path = path
        self.source = FilesSource(path, limits=limits)
        self.table: TensorTable = build_table(self.source.entries, limits=limits)
        self.files: dict[str, bytes] | None = auxiliary_files(path) if path.is_dir() else None
        """Auxiliary files by name; None for a single file, beside which nothing belongs to it."""

    def bits(self, tensor: Tensor) -> NumpyBits:
        """Elements of a tensor, read-only."""
        return NumpyBits(self.source.bits(tensor.name))


class WorkingCopy:
    """Copies of a checkpoint's safetensors files under the same names, whose elements can be written."""

    def __init__(self, checkpoint: Checkpoint, folder: Path, *, limits: Limits, advance: Advance) -> None:
        self._paths: list[Path] = []
        for file in checkpoint.source.files:
            copy = folder / file.name
            _copy_shard(file, copy, limits=limits, advance=advance)
            self._paths.append(copy)
        self._bits = MappedTensors(MappedFile(path, limits=limits, writable=True) for path in self._paths)
        index = checkpoint.path / SHARD_INDEX
        if index.is_file():
            self._paths.append(folder / SHARD_INDEX)
            self._paths[-1].write_bytes(index.read_bytes())

    def bits(self, tensor: Tensor) -> NumpyBits:
        """Elements of a tensor."""
        return self._bits[tensor.name]

    def flush(self) -> None:
        """Return once everything written is on the disk."""
        self._bits.flush()
        for path in self._paths:
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def state_digest(holder: Checkpoint | WorkingCopy, table: TensorTable, advance: Advance) -> int:
    """State digest of a checkpoint that has the tensors of ``table`` (DIG-3)."""
    total = 0
    for tensor in table.tensors:
        total += state_digest_of(holder.bits(tensor), tensor)
        advance(tensor.bytes)
    return total & _MASK


def signature(table: TensorTable) -> Mapping[str, tuple[str, tuple[int, ...]]]:
    """Dtype and shape of each tensor by name."""
    return {tensor.name: (tensor.dtype.name, tensor.shape) for tensor in table.tensors}


def _copy_shard(file: Path, copy: Path, *, limits: Limits, advance: Advance) -> None:
    """Copy a safetensors file, less the digests of its tensors, which are about to be wrong (SNP-4)."""
    with file.open("rb") as old, copy.open("xb") as new:
        length = header_length(old.read(8), limits=limits)
        old.seek(0)
        new.write(_without_digests(old.read(length)))
        while chunk := old.read(_CHUNK):
            new.write(chunk)
            advance(len(chunk))


def _without_digests(header: bytes) -> bytes:
    members = json.loads(header[8:])
    if DIGESTS not in members.get("__metadata__", {}):
        return header
    del members["__metadata__"][DIGESTS]
    text = json.dumps(members, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text
