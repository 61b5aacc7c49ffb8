"""Any other fsspec file system, for one declared writer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from hashlib import sha256
from typing import Any

import fsspec
from fsspec.core import url_to_fs

from deltawire.errors import (
    DeltawireError,
    InvalidArgumentError,
    InvalidKeyError,
    LimitExceededError,
    MissingDependencyError,
    ObjectExistsError,
    ObjectNotFoundError,
    SizeMismatchError,
    StoreDeniedError,
    StoreUnavailableError,
    StoreUnfitError,
)
from deltawire.store.arguments import check_prefix, check_range
from deltawire.store.base import (
    Bytes,
    Guarantees,
    ObjectInfo,
    PutMode,
    ReplaceIf,
    Store,
    StoredObject,
    check_key,
)


class FsspecStore(Store):
    """Objects in whatever fsspec can open, without any guarantee against a second writer.

    fsspec offers no portable conditional write, so ``create`` only looks first, and ``ReplaceIf`` is refused.
    Whether an object can be seen half written is up to the file system: many truncate in place. A stream with
    one declared writer survives that, because a record is written after everything it names and readers check
    digests; a reader may have to read a record that was just written a second time.

    Raises:
        InvalidArgumentError: fsspec does not know the scheme, or its file system refuses the URL.
        MissingDependencyError: the package behind the scheme is not installed.
    """

    guarantees = Guarantees(conditional_create=False, compare_and_swap=False)

    def __init__(self, url: str) -> None:
        scheme = url.partition("://")[0]
        if scheme not in fsspec.available_protocols():
            raise InvalidArgumentError(
                f"{scheme!r} is no scheme that fsspec knows",
                hint="a stream is at a directory, in a bucket (s3:// or hf://buckets/), or at a URL such as gs://",
            )
        try:
            # listings kept from earlier would hide what others wrote (STO-2)
            self._fs, root = url_to_fs(url, use_listings_cache=False, skip_instance_cache=True)
        except ImportError as error:
            raise MissingDependencyError(f"{scheme}:// needs another package: {error}") from error
        except Exception as error:
            raise InvalidArgumentError(f"cannot open {scheme}://: {error}") from error
        self._root = root.rstrip("/")
        self.url = url

    def get(self, key: str, *, max_bytes: int) -> StoredObject:
        """See ``Store.get``. The token is the sha256 of the bytes; nothing accepts it."""
        path = self._path(key)
        with _mapped(key):
            size = int(self._info(path)["size"])
            if size > max_bytes:
                raise LimitExceededError(f"{key} has {size} bytes, more than the limit of {max_bytes}")
            data = bytes(self._fs.cat_file(path))
        if len(data) > max_bytes:
            raise LimitExceededError(f"{key} has {len(data)} bytes, more than the limit of {max_bytes}")
        return StoredObject(data, _token(data))

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """See ``Store.get_range``."""
        check_range(start, length)
        path = self._path(key)
        with _mapped(key):
            size = int(self._info(path)["size"])
            if size < start + length:
                raise SizeMismatchError(f"{key} has {size} bytes, {start + length} are needed")
            data = bytes(self._fs.cat_file(path, start=start, end=start + length)) if length else b""
        if len(data) != length:
            raise SizeMismatchError(f"{key}: {length} bytes from {start} were asked for, {len(data)} came")
        return data

    def head(self, key: str) -> ObjectInfo:
        """See ``Store.head``."""
        path = self._path(key)
        with _mapped(key):
            return _object_info(key, self._info(path))

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """See ``Store.list``. Names that are no key are left out."""
        check_prefix(prefix)
        with _mapped(prefix):
            self._fs.invalidate_cache()
            try:
                found = self._fs.find(f"{self._root}/{prefix}".rstrip("/"), detail=True)
            except FileNotFoundError:
                found = {}
            infos = list(self._listed(prefix, found))
        return iter(sorted(infos, key=lambda info: info.key))

    def put(self, key: str, data: Bytes, *, mode: PutMode) -> str:
        """See ``Store.put``.

        Raises:
            StoreUnfitError: ``mode`` is ``ReplaceIf``; a swap that can lose updates is worse than none.
        """
        path = self._path(key)
        if isinstance(mode, ReplaceIf):
            raise StoreUnfitError(f"{self.url} has no compare-and-swap")
        content = bytes(data)
        with _mapped(key):
            if mode == "create" and self._exists(path):
                raise ObjectExistsError(f"{key} exists")
            self._with_folder(path, lambda: self._fs.pipe_file(path, content))
        return _token(content)

    def put_stream(self, key: str, chunks: Iterable[Bytes]) -> int:
        """See ``Store.put_stream``.

        A failed upload is thrown away; where the file system cannot hold it back until it is complete, a part
        of it is visible meanwhile, and stays if the process is killed. No record names it.
        """
        path = self._path(key)
        size = 0
        with _mapped(key):
            file = self._with_folder(path, lambda: self._fs.open(path, "wb", autocommit=False))
        try:
            for chunk in chunks:  # what it raises is the caller's and passes through as it is
                with _mapped(key):
                    size += memoryview(chunk).nbytes
                    file.write(chunk)
            with _mapped(key):
                file.close()
                if (commit := getattr(file, "commit", None)) is not None:
                    self._with_folder(path, commit)
        except BaseException:
            self._throw_away(path, file)
            raise
        return size

    def delete(self, key: str) -> None:
        """See ``Store.delete``."""
        path = self._path(key)
        with suppress(ObjectNotFoundError), _mapped(key):
            if self._exists(path):
                self._fs.rm_file(path)

    def _path(self, key: str) -> str:
        return f"{self._root}/{check_key(key)}"

    def _info(self, path: str) -> dict[str, Any]:
        self._fs.invalidate_cache()
        try:
            info: dict[str, Any] = self._fs.info(path)
        except NotADirectoryError as error:
            raise FileNotFoundError(path) from error
        if info.get("type") != "file":
            raise FileNotFoundError(path)
        return info

    def _exists(self, path: str) -> bool:
        try:
            self._info(path)
        except FileNotFoundError:
            return False
        return True

    def _with_folder(self, path: str, action: Callable[[], Any]) -> Any:
        """Run ``action``, making the folder only if it is missed: in a bucket, makedirs may do harm."""
        try:
            return action()
        except FileNotFoundError:
            self._fs.makedirs(path.rpartition("/")[0], exist_ok=True)
            return action()

    def _throw_away(self, path: str, file: Any) -> None:
        """Drop an unfinished upload; the error on its way out matters more than any in here."""
        with suppress(Exception):
            file.discard()
        with suppress(Exception):
            file.closed = True  # a buffered file would upload what it has when it is collected
        with suppress(Exception):
            file.close()
        with suppress(Exception):
            if self._exists(path):
                self._fs.rm_file(path)

    def _listed(self, prefix: str, found: dict[str, dict[str, Any]]) -> Iterator[ObjectInfo]:
        for path, info in found.items():
            key = path.removeprefix(self._root).lstrip("/")
            with suppress(InvalidKeyError):
                if check_key(key).startswith(prefix) and info.get("type") == "file":
                    yield _object_info(key, info)


def _token(data: bytes) -> str:
    return sha256(data).hexdigest()


def _object_info(key: str, info: dict[str, Any]) -> ObjectInfo:
    stamps = (info.get(name) for name in ("mtime", "LastModified", "last_modified", "updated", "created"))
    stamp = next((stamp for stamp in stamps if stamp is not None), None)
    if isinstance(stamp, datetime):
        stamp = stamp.timestamp()
    return ObjectInfo(key, int(info["size"]), float(stamp) if isinstance(stamp, int | float) else None)


@contextmanager
def _mapped(key: str) -> Iterator[None]:
    try:
        yield
    except DeltawireError:
        raise
    except FileNotFoundError as error:
        raise ObjectNotFoundError(f"{key} does not exist") from error
    except PermissionError as error:
        raise StoreDeniedError(f"{key}: {error}") from error
    except NotImplementedError as error:
        raise StoreUnfitError(f"{key}: this kind of store cannot do that") from error
    except Exception as error:  # fsspec file systems raise whatever their client library raises
        raise StoreUnavailableError(f"{key}: {error}") from error
