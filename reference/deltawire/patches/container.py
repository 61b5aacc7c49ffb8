"""The ZIP file around a patch, read without trust (SPEC.md section 8.9)."""

from __future__ import annotations

import errno
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from deltawire.errors import (
    DigestMismatchError,
    MalformedRecordError,
    MissingObjectError,
    SizeMismatchError,
)
from deltawire.format.records import Batch, Descriptor, Part
from deltawire.format.strict_json import sha256
from deltawire.limits import Limits
from deltawire.patches.record import RECORD

_ENCRYPTED = 0x1
_CHUNK = 8 << 20
_UNREADABLE = (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, ValueError, struct.error, zlib.error)
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""Every member has the same date, so that the same patch is the same bytes."""


class PatchReader:
    """Members of a patch file by name. Nothing is ever extracted to a path that the file chose.

    Raises:
        MalformedRecordError: it is not a ZIP file with members of different names.
        LimitExceededError: it has more members than a patch can have.
    """

    def __init__(self, path: Path, *, limits: Limits) -> None:
        self._path = path
        self._limits = limits
        with _readable(f"{path} is not a patch file"):
            self._zip = zipfile.ZipFile(path)
        try:
            self._members = self._index()
        except BaseException:
            self._zip.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self._zip.close()

    def record(self) -> bytes:
        """The bytes of ``patch.json``. Raises MalformedRecordError, LimitExceededError."""
        if RECORD not in self._members:
            raise MalformedRecordError(f"{self._path} is not a patch file: it has no {RECORD}")
        size = self._limits.check("record_bytes", self._members[RECORD].file_size, f"size of {RECORD}")
        with self._opened(RECORD) as member:
            return member.read(size)

    def read(self, descriptor: Descriptor, *, limit: str) -> bytes:
        """Read a small member: size first, then sha256. DSC-3

        Raises:
            LimitExceededError: it is larger than the limit called ``limit``.
            MissingObjectError, SizeMismatchError, DigestMismatchError: it is not what the record says.
        """
        self._limits.check(limit, descriptor.bytes, f"size of {descriptor.key}")
        data = b"".join(self.chunks(descriptor))
        if sha256(data) != descriptor.digest:
            raise DigestMismatchError(f"{descriptor.key} is not what its record says")
        return data

    def chunks(self, descriptor: Descriptor) -> Iterator[bytes]:
        """All bytes of a member that has the size its record says.

        Raises:
            MissingObjectError: there is none.
            SizeMismatchError: it has another size.
            MalformedRecordError: it is compressed, encrypted or not readable.
        """
        self._check_size(descriptor)
        left = descriptor.bytes
        with self._opened(descriptor.key) as member:
            while left:
                chunk = member.read(min(left, _CHUNK))
                if not chunk:
                    raise SizeMismatchError(f"{descriptor.key} ends {left:,} bytes early")
                left -= len(chunk)
                yield chunk

    def batches(self, part: Part) -> Iterator[tuple[Batch, bytes]]:
        """Each batch of a part with its bytes, which are not checked yet. Raises as ``chunks`` does."""
        self._check_size(part)
        with self._opened(part.key) as member:
            for batch in part.batches:
                member.seek(batch.offset)
                yield batch, member.read(batch.bytes)

    def _index(self) -> dict[str, zipfile.ZipInfo]:
        members = self._zip.infolist()
        self._limits.check("parts", len(members), f"number of members of {self._path}")
        by_name = {info.filename: info for info in members}
        if len(by_name) != len(members):
            raise MalformedRecordError(f"{self._path} has two members of one name")  # PAT-1
        return by_name

    def _check_size(self, descriptor: Descriptor) -> None:
        info = self._members.get(descriptor.key)
        if info is None:
            raise MissingObjectError(f"{descriptor.key} is named by {RECORD}, but is not in the file")
        if info.file_size != descriptor.bytes:
            raise SizeMismatchError(f"{descriptor.key} has {info.file_size:,} bytes, not {descriptor.bytes:,}")

    @contextmanager
    def _opened(self, name: str) -> Iterator[IO[bytes]]:
        info = self._members[name]
        stored = info.compress_type == zipfile.ZIP_STORED and info.compress_size == info.file_size
        if not stored or info.flag_bits & _ENCRYPTED:
            raise MalformedRecordError(f"{name} is compressed or encrypted")  # PAT-1
        with _readable(f"{name} cannot be read"), self._zip.open(info) as member:
            yield member


@contextmanager
def _readable(what: str) -> Iterator[None]:
    """Say of whatever the ZIP reader stumbles over that the file is not one of ours."""
    try:
        yield
    except _UNREADABLE as error:
        raise MalformedRecordError(f"{what}: {error}") from None
    except OSError as error:
        if error.errno != errno.EINVAL:  # a place before the beginning of the file
            raise
        raise MalformedRecordError(f"{what}: it points outside itself") from None


class PatchWriter:
    """Writes members into a patch file."""

    def __init__(self, file: IO[bytes]) -> None:
        self._zip = zipfile.ZipFile(file, "w", zipfile.ZIP_STORED)

    def add(self, name: str, data: bytes | memoryview) -> None:
        """Add a member."""
        info = zipfile.ZipInfo(name, _EPOCH)
        info.external_attr = 0o644 << 16
        self._zip.writestr(info, bytes(data))

    def close(self) -> None:
        """Write the directory of members; without it the file is no patch."""
        self._zip.close()
