"""Naming stored content in a bucket, and taking names away: few batches for many (SPEC.md section 5.9)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice

from deltawire.errors import StoreUnavailableError
from deltawire.store.base import Bytes, Store, WriteBatch
from deltawire.store.hub_client import ATTEMPTS, OPERATIONS, Entry, File, HubClient, Operation
from deltawire.store.hub_failure import HubFailure
from deltawire.store.hub_xet import XetStorage, XetUpload

Naming = Callable[[str, File], Operation]
"""Makes the operation that gives a path to a file."""


def add(path: str, file: File) -> Operation:
    """The operation that names what was uploaded."""
    return {"type": "addFile", "path": path, "xetHash": file.xet_hash, "mtime": int(time.time() * 1000)}


def copy(path: str, file: File, bucket: str) -> Operation:
    """The operation that names what another bucket has."""
    return {**add(path, file), "type": "copyFile", "sourceRepoType": "bucket", "sourceRepoId": bucket}


def name_files(client: HubClient, files: Mapping[str, File], naming: Naming = add) -> dict[str, str]:
    """Name files under paths of their own, and look whether each is there, whatever the Hub has answered. STO-29

    Returns:
        Paths that are not as they should be in the end, and what was said of them.

    Raises:
        StoreError: the Hub did not answer, or refused it all.
    """
    refused: dict[str, str] = {}
    remaining = iter(files.items())
    while some := dict(islice(remaining, OPERATIONS)):

        def is_named(path: str, entry: Entry | None, some: Mapping[str, File] = some) -> bool:
            file = some[path]
            return entry is not None and (entry.xet_hash, entry.size) == (file.xet_hash, file.size)

        refused |= _settle(client, {path: naming(path, file) for path, file in some.items()}, is_named)
    return refused


def remove_files(client: HubClient, paths: Sequence[str]) -> None:
    """Take names away, of which some may not be there, at most ``OPERATIONS``. Raises StoreError. STO-6"""
    operations: dict[str, Operation] = {path: {"type": "deleteFile", "path": path} for path in paths}
    left = _settle(client, operations, lambda _, entry: entry is None, believed=True)
    for path, reason in left.items():
        raise StoreUnavailableError(f"the Hub has not deleted {len(left)} objects, such as {path}: {reason}")


def _settle(
    client: HubClient,
    operations: Mapping[str, Operation],
    is_done: Callable[[str, Entry | None], bool],
    *,
    believed: bool = False,
) -> dict[str, str]:
    """Send operations that may be repeated, by their paths, until looking shows that all are done.

    Args:
        client: of the bucket.
        operations: at most ``OPERATIONS``.
        is_done: tells of a path and what is there.
        believed: an answer that lists no failure needs no look.

    Returns:
        Paths of what is not done in the end though the Hub has answered, and what was said of them.

    Raises:
        StoreError: the Hub did not answer, or refused it all, or accepted what then does not show.
    """
    left, reasons = dict(operations), dict[str, str]()
    failure: HubFailure | None = None
    for attempt in range(ATTEMPTS):
        if failure is not None:
            client.pause(failure, attempt, _what(left))
        try:
            failed = client.batch(list(left.values()))
        except HubFailure as caught:
            failure = caught
            if caught.undone and not caught.transient:
                break
            if caught.undone:
                continue
        else:
            if believed and not failed:
                return {}
            reasons = {each.path: each.error for each in failed}
            failure = HubFailure("the names are not there, or are another content's, though the Hub has accepted them")
        found = client.repeat(_what(left), partial(client.infos, list(left)))
        left = {path: operation for path, operation in left.items() if not is_done(path, found.get(path))}
        if not left:
            return {}
    assert failure is not None  # noqa: S101 - at least one attempt was made
    if reasons and failure.status is None:
        return {path: reasons.get(path, "it does not show") for path in left}
    raise failure.as_error(_what(left), client.location) from failure


def _what(paths: Iterable[str]) -> str:
    named = list(paths)
    return named[0] if len(named) == 1 else f"{named[0]} and {len(named) - 1} others"


class HubWriteBatch(WriteBatch):
    """Content is on its way as soon as it is written, and ``finish`` gives all of it names. See ``WriteBatch``.

    Args:
        store: of the batch.
        path: from a key to a path in the bucket.
        client: of the bucket.
        storage: of its content.
    """

    def __init__(self, store: Store, path: Callable[[str], str], client: HubClient, storage: XetStorage) -> None:
        super().__init__(store)
        self._path = path
        self._client = client
        self._storage = storage
        self._lock = threading.Lock()
        self._upload: XetUpload | None = None
        self._failed = False
        self._files: dict[str, File] = {}

    def put(self, key: str, data: Bytes) -> None:
        self.put_stream(key, [data])

    def put_stream(self, key: str, chunks: Iterable[Bytes]) -> int:
        path = self._path(key)
        try:
            file = self._begun(key).put(chunks)
        except BaseException as error:
            self._failed = True
            if isinstance(error, HubFailure):
                raise error.as_error(key, self._client.location) from error
            raise
        with self._lock:
            self._files[path] = file
        return file.size

    def finish(self) -> None:
        with self._lock:
            upload, files = self._upload, self._files
            self._upload, self._files = None, {}
        if self._failed:
            raise StoreUnavailableError("a write of this batch has failed, so that it cannot be finished")
        if upload is None or not files:
            return
        self._failed = True  # until all is there
        try:
            upload.finish()
        except HubFailure as failure:
            raise failure.as_error(_what(files), self._client.location) from failure
        refused = name_files(self._client, files)
        self._failed = bool(refused)
        for path, reason in refused.items():
            raise StoreUnavailableError(
                f"the Hub has not stored {len(refused)} of {len(files)} objects, such as {path}: {reason}"
            )

    def _begun(self, key: str) -> XetUpload:
        with self._lock:
            if self._upload is None:
                self._upload = self._client.repeat(key, self._storage.upload)
            return self._upload
