"""A store in a folder of a POSIX file system.

Everything is written to a temporary file beside its final place, flushed to the disk, and then given its
name by one atomic system call, so that no name ever stands for half an object (STO-1) and a power cut loses
nothing that was acknowledged.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

from deltawire.errors import (
    InvalidKeyError,
    LimitExceededError,
    ObjectExistsError,
    ObjectNotFoundError,
    PreconditionFailedError,
    SizeMismatchError,
    StoreDeniedError,
    StoreUnavailableError,
    StoreUnfitError,
)
from deltawire.store.arguments import check_prefix, check_range
from deltawire.store.base import Bytes, Guarantees, ObjectInfo, PutMode, Store, StoredObject, check_key
from deltawire.store.posix_files import (
    NO_HARD_LINKS,
    Temporary,
    folder_lock,
    linked,
    remove_empty,
    remove_if_bare,
    sync_folder,
    temporary,
)

MAX_SEGMENT_BYTES = 255
"""The longest file name that common file systems hold."""
_NO_LOCKS = {errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}
_DENIED = {errno.EACCES, errno.EPERM, errno.EROFS}


class LocalStore(Store):
    """Objects as files below one folder, which is made on the first write.

    The folder may be shared by any number of threads and processes. The version token is the sha256 of the
    content. Compare-and-swap, overwriting puts and deletes in one folder exclude each other by ``flock`` on a
    lock file in that folder; creates need no lock, because ``link()`` refuses a name that is taken. What is a
    symbolic link, or lies behind one, is refused and not listed, so nothing outside the folder is reached.

    A key must not continue another key (``a`` and ``a/b``): a file is not a folder. A writer that is killed
    may leave a ``.tmp-`` file behind, which nothing lists or reads.
    """

    guarantees = Guarantees(conditional_create=True, compare_and_swap=True)

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._root = Path(path).expanduser().resolve()
        self.url = self._root.as_uri()

    def get(self, key: str, *, max_bytes: int) -> StoredObject:
        """See ``Store.get``."""
        path = self._path(key)
        with _reading(key), _opened(path) as file:
            size = os.fstat(file.fileno()).st_size  # of this very file: it is replaced, never changed
            if size > max_bytes:
                raise LimitExceededError(f"{key} has {size} bytes, more than the limit of {max_bytes}")
            data = file.read(size)
        return StoredObject(data, _token(data))

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """See ``Store.get_range``."""
        check_range(start, length)
        path = self._path(key)
        with _reading(key), _opened(path) as file:
            size = os.fstat(file.fileno()).st_size
            if size < start + length:  # before anything is allocated
                raise SizeMismatchError(f"{key} has {size} bytes, {start + length} are needed")
            file.seek(start)
            data = file.read(length)
        if len(data) != length:
            raise SizeMismatchError(f"{key} shrank while it was read")
        return data

    def head(self, key: str) -> ObjectInfo:
        """See ``Store.head``."""
        path = self._path(key)
        with _reading(key):
            if not path.is_file():
                raise ObjectNotFoundError(f"{key} does not exist")
            status = path.stat()
        return ObjectInfo(key, status.st_size, status.st_mtime)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """See ``Store.list``. Files whose path is no key, temporary files among them, are left out."""
        check_prefix(prefix)
        with _reading(prefix):
            found = sorted(self._walk(prefix), key=lambda info: info.key)
        return iter(found)

    def put(self, key: str, data: Bytes, *, mode: PutMode) -> str:
        """See ``Store.put``.

        Raises:
            InvalidKeyError: also where the key continues another key, or another continues it.
            StoreUnfitError: the file system has no hard links or no file locks.
        """
        path = self._path(key)
        content = bytes(data)
        with _writing(key), temporary(path.parent) as new:
            new.file.write(content)
            new.flush()
            if mode == "create":
                _link(new, path, key)
            else:
                with _exclusively(path.parent):
                    if mode != "overwrite":
                        _expect(path, mode.token, key)
                    new.path.replace(path)
            sync_folder(path.parent)
        return _token(content)

    def put_stream(self, key: str, chunks: Iterable[Bytes]) -> int:
        """See ``Store.put_stream``. Takes no lock: its keys are unique to one write (KEY-4)."""
        path = self._path(key)
        size = 0
        with ExitStack() as stack:
            with _writing(key):
                new = stack.enter_context(temporary(path.parent))
            for chunk in chunks:  # what it raises is the caller's and passes through as it is
                with _writing(key):
                    size += new.file.write(chunk)
            with _writing(key):
                new.flush()
                new.path.replace(path)
                sync_folder(path.parent)
        return size

    def copy_from(self, source: Store, source_key: str, key: str) -> bool:
        """See ``Store.copy_from``. A hard link: files here are replaced and unlinked, but never changed."""
        if not isinstance(source, LocalStore):
            return False
        path, existing = self._path(key), source._path(source_key)  # noqa: SLF001 - of the same class
        with _reading(source_key):
            if not existing.is_file():
                raise ObjectNotFoundError(f"{source_key} does not exist")
        with _writing(key):
            if not linked(existing, path):
                return False
            sync_folder(path.parent)
        return True

    def delete(self, key: str) -> None:
        """See ``Store.delete``. Folders left empty are removed as well."""
        path = self._path(key)
        folder = path.parent
        with _writing(key), suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError):
            with _exclusively(folder):
                path.unlink(missing_ok=True)
                gone = folder != self._root and remove_if_bare(folder)
            if gone:
                remove_empty(folder.parent, below=self._root)
            else:
                sync_folder(folder)

    def _path(self, key: str) -> Path:
        check_key(key)
        if any(len(segment) > MAX_SEGMENT_BYTES for segment in key.split("/")):
            raise InvalidKeyError(f"a segment of {key[:80]!r} is longer than {MAX_SEGMENT_BYTES} bytes")
        path = self._root / key
        if os.path.realpath(path) != str(path):
            raise InvalidKeyError(f"{key} is a symbolic link or lies behind one")
        return path

    def _walk(self, prefix: str) -> Iterator[ObjectInfo]:
        top = self._root / prefix
        if os.path.realpath(top) != str(top):
            return
        for folder, _, names in os.walk(top):
            for name in names:
                path = Path(folder, name)
                key = path.relative_to(self._root).as_posix()
                with suppress(InvalidKeyError, FileNotFoundError):  # no key, or deleted meanwhile
                    check_key(key)
                    if path.is_file() and not path.is_symlink():
                        status = path.stat()
                        yield ObjectInfo(key, status.st_size, status.st_mtime)


def _token(data: bytes) -> str:
    return sha256(data).hexdigest()


def _link(new: Temporary, path: Path, key: str) -> None:
    try:
        path.hardlink_to(new.path)
    except FileExistsError as error:
        if new.path.stat().st_nlink == 2:
            return  # a network file system repeated a call whose answer was lost
        if not path.is_file():
            raise InvalidKeyError(f"{key} is the beginning of other keys, or no file") from error
        raise ObjectExistsError(f"{key} exists") from error
    except OSError as error:
        if error.errno in NO_HARD_LINKS:
            raise StoreUnfitError(f"the file system of {path.parent} has no hard links") from error
        raise


def _expect(path: Path, token: str, key: str) -> None:
    try:
        found = _token(path.read_bytes())
    except FileNotFoundError as error:
        raise PreconditionFailedError(f"{key} is gone") from error
    if found != token:
        raise PreconditionFailedError(f"{key} is not the object expected")


def _opened(path: Path) -> BinaryIO:
    """Open what must be a regular file, without waiting where it is a pipe. STO-15"""
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))  # noqa: SIM115 - the caller closes it
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise FileNotFoundError(errno.ENOENT, "no regular file", str(path))
    return file


@contextmanager
def _exclusively(folder: Path) -> Iterator[None]:
    try:
        with folder_lock(folder):
            yield
    except OSError as error:
        if error.errno in _NO_LOCKS:
            raise StoreUnfitError(f"the file system of {folder} has no file locks") from error
        raise


@contextmanager
def _reading(key: str) -> Iterator[None]:
    try:
        yield
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
        raise ObjectNotFoundError(f"{key} does not exist") from error
    except OSError as error:
        raise _failure(key, error) from error


@contextmanager
def _writing(key: str) -> Iterator[None]:
    try:
        yield
    except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
        raise InvalidKeyError(f"{key} continues another key, or another key continues it") from error
    except OSError as error:
        raise _failure(key, error) from error


def _failure(key: str, error: OSError) -> StoreDeniedError | StoreUnavailableError:
    message = f"{key}: {error.strerror or error}"
    if error.errno in _DENIED:
        return StoreDeniedError(message, hint="check the permissions of the stream's directory")
    full = error.errno in {errno.ENOSPC, errno.EDQUOT}
    return StoreUnavailableError(message, hint="make room and try again" if full else "check the disk, then try again")
