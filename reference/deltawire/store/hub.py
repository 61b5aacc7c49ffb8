"""A store in a bucket of the Hugging Face Hub, by the Hub's own API, for one declared writer (SPEC.md section 5.9).

Importing this module raises MissingDependencyError where huggingface_hub or hf_xet are not installed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial

from deltawire.errors import (
    InvalidKeyError,
    LimitExceededError,
    ObjectExistsError,
    ObjectNotFoundError,
    SizeMismatchError,
    StoreError,
    StoreUnfitError,
)
from deltawire.store.arguments import check_prefix, check_range
from deltawire.store.base import (
    Bytes,
    Guarantees,
    ObjectInfo,
    OpenObject,
    PutMode,
    ReplaceIf,
    Store,
    StoredObject,
    WriteBatch,
    check_key,
)
from deltawire.store.hub_client import ATTEMPTS, OPERATIONS, Entry, File, HubClient
from deltawire.store.hub_failure import HubFailure
from deltawire.store.hub_location import hub_location
from deltawire.store.hub_naming import HubWriteBatch, add, copy, name_files, remove_files
from deltawire.store.hub_xet import XetStorage
from deltawire.store.recent import RecentContents

_TOGETHER = 10
"""From how many objects on one API call is cheaper than a look-up each, of which accounts have five times as many."""


class HubStore(Store):
    """Objects below ``hf://buckets/NAMESPACE/NAME/PREFIX``; see ``hub_location`` for the endpoint.

    The Hub's API has no conditional writes, so that ``create`` only looks first and ``ReplaceIf`` is refused; the
    S3 gateway of the same buckets has them (``s3://``). Content goes to the storage behind the Hub by its hash, and a
    batch of at most 1,000 operations then gives it names. The version token is that hash.

    Small contents are kept by their hash, so that a record which has not changed is only looked up (STO-31).

    Raises:
        InvalidArgumentError: the URL cannot be used.
    """

    guarantees = Guarantees(conditional_create=False, compare_and_swap=False)
    poll_seconds = 2.0  # some 190 of an account's 5,000 look-ups in five minutes while there is nothing new
    closest_poll_seconds = 1.0
    deletes_at_once = OPERATIONS

    def __init__(self, url: str, *, cache: bool = True) -> None:
        self._location = hub_location(url)
        self.alternative = self._location.alternative
        self._client = HubClient(self._location)
        self._storage = XetStorage(self._client)
        self._recent = RecentContents() if cache else RecentContents(largest=-1)
        self.url = url

    def get(self, key: str, *, max_bytes: int) -> StoredObject:
        """See ``Store.get``."""
        path = self._path(key)

        def read() -> StoredObject:
            file = self._client.find(path)
            if file.size > max_bytes:
                raise LimitExceededError(f"{key} has {file.size} bytes, more than the limit of {max_bytes}")
            data = self._recent.get(file.xet_hash)
            if data is None or len(data) != file.size:
                data = self._storage.read(file, 0, file.size)
                self._recent.keep_read(file.xet_hash, data)
            return StoredObject(data, file.xet_hash)

        return self._client.repeat(key, read)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """See ``Store.get_range``."""
        check_range(start, length)
        return self.open(key).get_range(start, length)

    def open(self, key: str) -> OpenObject:
        """See ``Store.open``. Ranges are read by the hash that is found now. STO-31"""
        path = self._path(key)
        file = self._client.repeat(key, lambda: self._client.find(path))
        return _OpenFile(self, key, path, self._client, self._storage, file)

    def open_all(self, keys: Sequence[str]) -> dict[str, OpenObject]:
        """See ``Store.open_all``. One API call for up to a thousand, where many look-ups would weigh more."""
        if len(keys) < _TOGETHER:
            return {}
        opened: dict[str, OpenObject] = {}
        for start in range(0, len(keys), OPERATIONS):
            paths = {self._path(key): key for key in keys[start : start + OPERATIONS]}
            found = self._client.repeat(f"{len(paths)} objects", partial(self._client.infos, list(paths)))
            for path in paths.keys() & found.keys():
                file = File(found[path].xet_hash, found[path].size)
                opened[paths[path]] = _OpenFile(self, paths[path], path, self._client, self._storage, file)
        return opened

    def head(self, key: str) -> ObjectInfo:
        """See ``Store.head``."""
        path = self._path(key)
        file = self._client.repeat(key, lambda: self._client.find(path))
        return ObjectInfo(key, file.size, file.modified_at)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """See ``Store.list``. Names that are no key are left out."""
        wanted = self._location.prefix + check_prefix(prefix)

        def read() -> dict[str, ObjectInfo]:
            found: dict[str, ObjectInfo] = {}
            for page in self._client.tree(wanted.rstrip("/")):
                # the Hub matches by letters: "a/b" is a prefix of "a/bc" (STO-32)
                found.update(self._infos(entry for entry in page if entry.path.startswith(wanted)))
            return found

        found = self._client.repeat(f"the list of {wanted or '/'}", read)
        return iter(sorted(found.values(), key=lambda info: info.key))

    def put(self, key: str, data: Bytes, *, mode: PutMode) -> str:
        """See ``Store.put``.

        Raises:
            StoreUnfitError: ``mode`` is ``ReplaceIf``; a swap that can lose updates is worse than none.
            StoreUnavailableError: also where the outcome is unknown; the write may still take place later.
        """
        path, content = self._path(key), bytes(data)
        if isinstance(mode, ReplaceIf):
            raise StoreUnfitError(
                f"{self.url} has no compare-and-swap", hint="reach the bucket through its S3 gateway, which has it"
            )
        file = self._client.repeat(key, lambda: self._stored(content))
        self._write(key, path, file, create=mode == "create")
        return file.xet_hash

    def put_stream(self, key: str, chunks: Iterable[Bytes]) -> int:
        """See ``Store.put_stream``."""
        batch = self.write_batch()
        size = batch.put_stream(key, chunks)
        batch.finish()
        return size

    def write_batch(self) -> WriteBatch:
        """See ``Store.write_batch``. Two API calls for up to a thousand objects."""
        return HubWriteBatch(self, self._path, self._client, self._storage)

    def delete(self, key: str) -> None:
        """See ``Store.delete``."""
        self.delete_all([key])

    def delete_all(self, keys: Sequence[str]) -> None:
        """See ``Store.delete_all``. Up to a thousand with one API call."""
        paths = [self._path(key) for key in keys]
        for start in range(0, len(paths), OPERATIONS):
            remove_files(self._client, paths[start : start + OPERATIONS])

    def copy_from(self, source: Store, source_key: str, key: str) -> bool:
        """See ``Store.copy_from``. Within one Hub only the name is new."""
        if not isinstance(source, HubStore) or source._location.endpoint != self._location.endpoint:  # noqa: SLF001 - of the same class
            return False
        path, bucket = self._path(key), source._location.bucket  # noqa: SLF001
        origin = source._path(source_key)  # noqa: SLF001
        file = source._client.repeat(source_key, lambda: source._client.find(origin))  # noqa: SLF001
        # one that may read there and write here need not be allowed to copy
        return not name_files(self._client, {path: file}, lambda path, file: copy(path, file, bucket))

    def without_cache(self) -> HubStore:
        """See ``Store.without_cache``."""
        return HubStore(self.url, cache=False)

    def close(self) -> None:
        """See ``Store.close``."""
        self._storage.close()

    def _path(self, key: str) -> str:
        return self._location.prefix + check_key(key)

    def _infos(self, entries: Iterable[Entry]) -> Iterator[tuple[str, ObjectInfo]]:
        for entry in entries:
            key = entry.path.removeprefix(self._location.prefix)
            with suppress(InvalidKeyError):
                yield check_key(key), ObjectInfo(key, entry.size, _seconds(entry.uploaded_at))

    def _stored(self, content: bytes) -> File:
        upload = self._storage.upload(unique=True)
        file = upload.put([content])
        upload.finish()
        self._recent.keep(file.xet_hash, content)  # a record that was just written is read back
        return file

    def _named(self, path: str, file: File) -> None:
        if failed := self._client.batch([add(path, file)]):
            raise HubFailure(f"it was not done: {failed[0].error}")

    def _write(self, key: str, path: str, file: File, *, create: bool) -> None:
        """Give content a name; to create, if it is free as far as looking can tell.

        A batch that may have arrived is not repeated without looking what is there by then: it would put our object
        back in place of a later writer's. STO-30
        """
        failure: HubFailure | None = None
        lost: HubFailure | None = None  # of an attempt that may have arrived: no later refusal tells what is true
        for attempt in range(ATTEMPTS):
            if failure is not None:
                self._client.pause(failure, attempt, key)
            try:
                found = self._found(key, path) if create or lost is not None else None
            except StoreError as error:
                if lost is None:
                    raise
                raise lost.as_error(key, self._location) from error
            if lost is not None and found == file.xet_hash:
                return  # an earlier attempt of ours arrived
            if create and found is not None:
                raise ObjectExistsError(f"{key} exists")
            try:
                self._named(path, file)
            except HubFailure as caught:
                failure = caught
                if not caught.undone:
                    lost = caught
                if not caught.transient:
                    break
            else:
                return
        failure = lost or failure
        assert failure is not None  # noqa: S101 - at least one attempt was made
        raise failure.as_error(key, self._location) from failure

    def _found(self, key: str, path: str) -> str | None:
        """The hash of what is there. Raises StoreError."""
        try:
            return self._client.repeat(key, lambda: self._client.find(path)).xet_hash
        except ObjectNotFoundError:
            return None


class _OpenFile(OpenObject):
    """A file by its hash: an overwrite or a delete meanwhile does not show in what is read."""

    def __init__(
        self, store: HubStore, key: str, path: str, client: HubClient, storage: XetStorage, file: File
    ) -> None:
        super().__init__(store, key)
        self._path = path
        self._client = client
        self._storage = storage
        self._file = file

    def get_range(self, start: int, length: int) -> bytes:
        check_range(start, length)
        size = self._file.size
        if size < start + length:
            raise SizeMismatchError(f"{self._key} has {size} bytes, {start + length} are needed")

        def read() -> bytes:
            try:
                return self._storage.read(self._file, start, length)
            except HubFailure:
                self._client.find(self._path)  # content without a name may be gone, and the storage may not tell
                raise

        return self._client.repeat(self._key, read)


def _seconds(stamp: str) -> float | None:
    try:
        return datetime.fromisoformat(stamp).timestamp()
    except ValueError:
        return None
