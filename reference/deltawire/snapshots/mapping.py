"""A safetensors file mapped into memory."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from deltawire.errors import MalformedShardError
from deltawire.format.dtypes import Bits, dtype_of
from deltawire.limits import Limits
from deltawire.snapshots.header import Entry, header_length, parse_header


class MappedFile:
    """The header and the tensors of one file, which stays this very file even if another takes its name.

    There is one mapping for all tensors, because each mapping holds a file descriptor.

    Raises:
        MalformedShardError: it is not a safetensors file.
        LimitExceededError, UnsupportedDtypeError: its header is beyond what can be read.
    """

    def __init__(self, path: Path, *, limits: Limits, writable: bool = False) -> None:
        with path.open("r+b" if writable else "rb") as file:
            size = os.fstat(file.fileno()).st_size
            first = file.read(8)
            if len(first) == 8 and int.from_bytes(first, "little") > size:
                raise MalformedShardError(
                    f"{path} is not a safetensors file", hint="give a safetensors file or a directory of them"
                )
            length = header_length(first, limits=limits)
            file.seek(0)
            self.header = parse_header(file.read(length), size, limits=limits)
            try:
                self._memory = np.memmap(file, np.uint8, "r+" if writable else "r", shape=(size,))
            except ValueError:
                raise MalformedShardError(f"{path} became shorter while it was opened") from None

    def bits(self, entry: Entry) -> Bits:
        """Flat elements of a tensor; they share the file's memory."""
        start = self.header.data_start
        stored = np.asarray(self._memory)[start + entry.begin : start + entry.end]
        return stored.view(dtype_of(entry.dtype).storage)

    def flush(self) -> None:
        """Return once everything written is on the disk."""
        self._memory.flush()
