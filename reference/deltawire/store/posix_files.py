"""Files that appear whole or not at all, and a lock between the processes that replace them.

Names made here start with a dot, so they are never keys (KEY-1).
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BufferedWriter
from pathlib import Path

from deltawire.errors import StoreUnavailableError

LOCK_NAME = ".lock"
TEMPORARY_PREFIX = ".tmp-"
_ATTEMPTS = 100  # a folder, or a lock, may be removed by a concurrent delete just after it was made
_LOCK_SECONDS = 60.0
NO_HARD_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EXDEV, errno.EMLINK}
"""What a file system without hard links answers, or one that allows none between two places."""


@dataclass(frozen=True, slots=True)
class Temporary:
    """A file that is being written and has no final name yet."""

    path: Path
    file: BufferedWriter

    def flush(self) -> None:
        """Return once everything written is on the disk."""
        self.file.flush()
        os.fsync(self.file.fileno())


@contextmanager
def temporary(folder: Path) -> Iterator[Temporary]:
    """Open a new file in ``folder``, made if needed; afterwards its name is gone unless it was renamed."""
    opened = _open_new(folder)
    try:
        yield opened
    finally:
        with suppress(OSError):  # what mattered was flushed; what was not is thrown away
            opened.file.close()
        with suppress(OSError):
            opened.path.unlink(missing_ok=True)


def linked(existing: Path, path: Path) -> bool:
    """Give a file a second name, in place of what ``path`` was; False where the file system or its owner forbids it."""
    with temporary(path.parent) as new:
        new.path.unlink()
        try:
            new.path.hardlink_to(existing)
        except OSError as error:
            if error.errno in NO_HARD_LINKS:
                return False
            raise
        new.path.replace(path)  # does nothing if both are one file already; then the other name goes
    return True


def sync_folder(folder: Path) -> None:
    """Return once the names in ``folder`` are on the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Hold the one lock of ``folder``, against threads and processes alike.

    Raises:
        FileNotFoundError: there is no such folder.
        StoreUnavailableError: another holder kept the lock for a minute.
    """
    descriptor = _locked(folder)
    try:
        yield
    finally:
        os.close(descriptor)


def remove_if_bare(folder: Path) -> bool:
    """Remove ``folder`` if it holds nothing but its lock, which the caller must hold.

    Returns whether it is gone.
    """
    with os.scandir(folder) as entries:
        if any(entry.name != LOCK_NAME for entry in entries):
            return False
    (folder / LOCK_NAME).unlink()
    try:
        folder.rmdir()
    except OSError:
        return False  # somebody has begun to write here
    return True


def remove_empty(folder: Path, *, below: Path) -> None:
    """Remove ``folder`` and its parents as long as they are empty, up to but not including ``below``."""
    while folder != below:
        try:
            folder.rmdir()
        except OSError:
            return
        folder = folder.parent


def _open_new(folder: Path) -> Temporary:
    for _ in range(_ATTEMPTS):
        _make_folder(folder)
        path = folder / f"{TEMPORARY_PREFIX}{uuid.uuid4().hex}"
        with suppress(FileNotFoundError):
            # not tempfile: its files are closed to other users, and a stream's folder may be shared
            return Temporary(path, path.open("xb"))
    raise StoreUnavailableError(f"{folder} is removed again as soon as it is made")


def _make_folder(folder: Path) -> None:
    missing = []
    while not folder.is_dir():
        missing.append(folder)
        folder = folder.parent
    for new in reversed(missing):
        with suppress(FileNotFoundError):  # a parent was pruned meanwhile; the caller tries again
            new.mkdir(exist_ok=True)
            sync_folder(new.parent)


def _locked(folder: Path) -> int:
    give_up = time.monotonic() + _LOCK_SECONDS
    path = folder / LOCK_NAME
    while time.monotonic() < give_up:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _same_file(descriptor, path):
                return descriptor
        except BlockingIOError:
            time.sleep(0.002)
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
    raise StoreUnavailableError(f"the lock of {folder} was not released within {_LOCK_SECONDS:.0f} s")


def _same_file(descriptor: int, path: Path) -> bool:
    """Tell whether ``path`` still is the open file: whoever empties a folder removes its lock."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
