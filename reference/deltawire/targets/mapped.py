"""Tensors in safetensors files that are written in place."""

from __future__ import annotations

from collections.abc import Iterable

from deltawire.snapshots.mapping import MappedFile
from deltawire.targets.arrays import NumpyBits


class MappedTensors:
    """Elements of the tensors of some writable files, by name."""

    def __init__(self, files: Iterable[MappedFile] = ()) -> None:
        self._bits: dict[str, NumpyBits] = {}
        self._files: dict[str, MappedFile] = {}
        for file in files:
            for entry in file.header.entries:
                self._bits[entry.name] = NumpyBits(file.bits(entry))
                self._files[entry.name] = file

    def __getitem__(self, name: str) -> NumpyBits:
        return self._bits[name]

    def __contains__(self, name: str) -> bool:
        return name in self._bits

    def flush(self, names: Iterable[str] | None = None) -> None:
        """Return once everything written to these tensors, or to all, is on the disk."""
        for file in {self._files[name] for name in (self._files if names is None else names)}:
            file.flush()
