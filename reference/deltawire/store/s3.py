"""A store in a bucket of Amazon S3 or of a server that speaks its protocol.

Importing this module raises MissingDependencyError where s3fs is not installed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any

from deltawire.errors import (
    InvalidKeyError,
    LimitExceededError,
    ObjectExistsError,
    ObjectNotFoundError,
    PreconditionFailedError,
    SizeMismatchError,
    StoreError,
    StoreUnavailableError,
    StoreUnfitError,
)
from deltawire.store.arguments import check_prefix, check_range
from deltawire.store.base import Bytes, Guarantees, ObjectInfo, PutMode, Store, StoredObject, check_key
from deltawire.store.s3_client import READ_SECONDS, S3Client, S3Failure, attempts
from deltawire.store.s3_location import s3_location
from deltawire.store.s3_upload import PART_BYTES, S3Upload

_MAX_PAGES = 1_000_000


class S3Store(Store):
    """Objects below ``s3://BUCKET/PREFIX``; see ``s3_location`` for options and the environment.

    Conditional puts are single PutObject requests with ``If-None-Match: *`` or ``If-Match``, because servers
    have gaps in their multi-part conditions. The version token is the ETag. The guarantees are those of the
    server: Amazon S3 keeps them; some others ignore the conditions silently, so probe a server before it
    carries a stream with several writers (``deltawire.store.probe``).

    The bytes of a conditional put or its key, must be unique to one logical write: where an answer is
    lost, the store is read back, and equal bytes count as written.

    Raises:
        InvalidArgumentError: the URL cannot be used.
    """

    guarantees = Guarantees(conditional_create=True, compare_and_swap=True)

    def __init__(self, url: str, *, read_seconds: float = READ_SECONDS, part_bytes: int = PART_BYTES) -> None:
        self._location = s3_location(url)
        self._client = S3Client(self._location, read_seconds=read_seconds)
        self._part_bytes = part_bytes
        self.url = url

    def get(self, key: str, *, max_bytes: int) -> StoredObject:
        """See ``Store.get``."""
        name = self._name(key)
        data, answer = self._client.repeat(key, lambda: self._client.read(limit=max_bytes, Key=name))
        if data is None:
            size = answer.get("ContentLength", "more")
            raise LimitExceededError(f"{key} has {size} bytes, more than the limit of {max_bytes}")
        return StoredObject(data, _etag(answer))

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """See ``Store.get_range``.

        Raises:
            StoreUnfitError: the server ignored the range and sent something else.
        """
        check_range(start, length)
        if not length:
            return self._empty_range(key, start)
        name = self._name(key)
        span = f"bytes={start}-{start + length - 1}"
        try:
            data, answer = self._client.repeat(key, lambda: self._client.read(limit=length, Key=name, Range=span))
        except StoreError as error:
            if isinstance(error.__cause__, S3Failure) and error.__cause__.status == 416:
                raise SizeMismatchError(f"{key} ends before byte {start}") from error
            raise
        # the header and not the status 206, which some servers forget
        ranged = str(answer.get("ContentRange", "")).startswith(f"bytes {start}-")
        if data is None or not (ranged or start == 0):
            raise StoreUnfitError(f"the server ignored the range {span} of {key}")
        if len(data) != length:
            raise SizeMismatchError(f"{key}: {length} bytes from {start} were asked for, {len(data)} came")
        return data

    def head(self, key: str) -> ObjectInfo:
        """See ``Store.head``."""
        name = self._name(key)
        answer = self._client.repeat(key, lambda: self._client.call("head_object", Key=name))
        return ObjectInfo(key, int(answer["ContentLength"]), _seconds(answer.get("LastModified")))

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """See ``Store.list``. Names that are no key are left out; sorted here, as servers differ."""
        wanted = self._location.prefix + check_prefix(prefix)
        found: dict[str, ObjectInfo] = {}
        page: dict[str, str] = {}
        for _ in range(_MAX_PAGES):
            answer = self._client.repeat(
                f"the list of {wanted or '/'}",
                partial(self._client.call, "list_objects_v2", Prefix=wanted, **page),
            )
            found.update(self._keys(answer.get("Contents", [])))
            following = answer.get("NextContinuationToken") if answer.get("IsTruncated") else None
            if following is None:
                return iter(sorted(found.values(), key=lambda info: info.key))
            if page.get("ContinuationToken") == following:
                break
            page = {"ContinuationToken": following}
        raise StoreUnavailableError(f"the list of {wanted or '/'} does not end")

    def put(self, key: str, data: Bytes, *, mode: PutMode) -> str:
        """See ``Store.put``.

        Raises:
            StoreUnavailableError: also where the outcome is unknown; the write may still take place later.
        """
        name = self._name(key)
        content = bytes(data)
        if mode == "overwrite":
            answer = self._client.repeat(key, lambda: self._client.call("put_object", Key=name, Body=content))
            return _etag(answer)
        condition = {"IfNoneMatch": "*"} if mode == "create" else {"IfMatch": mode.token}
        failure: S3Failure | None = None
        for _ in attempts():
            try:
                return _etag(self._client.call("put_object", Key=name, Body=content, **condition))
            except S3Failure as caught:
                refused = caught.status == 412 or (mode != "create" and caught.missing)
                # an earlier attempt, or this one, may have arrived although its answer did not
                in_doubt = failure is not None if refused else caught.transient
                if in_doubt and (token := self._written(name, content)):
                    return token
                if refused:
                    raise _refusal(key, mode) from caught
                if failure is not None and not caught.transient:
                    break  # what refuses this attempt says nothing of an earlier one, which may yet arrive. STO-20
                failure = caught
                if not caught.transient:
                    break
        assert failure is not None  # noqa: S101 - at least one attempt was made
        if failure.status == 501:
            raise StoreUnfitError(f"the server has no conditional writes: {failure}") from failure
        raise failure.as_error(key, self._client.location) from failure

    def put_stream(self, key: str, chunks: Iterable[Bytes]) -> int:
        """See ``Store.put_stream``. Holds at most five parts of ``part_bytes`` in memory."""
        with S3Upload(self._client, self._name(key), part_bytes=self._part_bytes) as upload:
            for chunk in chunks:
                upload.write(chunk)
            upload.finish()
        return upload.bytes

    def copy_from(self, source: Store, source_key: str, key: str) -> bool:
        """See ``Store.copy_from``. The server copies, within one endpoint that is reached in the same way."""
        if not isinstance(source, S3Store) or not self._location.same_server(source._location):  # noqa: SLF001 - of the same class
            return False
        size = source.head(source_key).bytes
        bucket, name = source._location.bucket, source._name(source_key)  # noqa: SLF001
        try:
            with S3Upload(self._client, self._name(key), part_bytes=self._part_bytes) as upload:
                upload.copy(bucket, name, size)
        except StoreError as error:
            failure = error.__cause__
            # one that may read here and write there need not be allowed to copy, and not every server can
            if isinstance(failure, S3Failure) and not (failure.transient or failure.no_bucket):
                return False
            raise
        return True

    def delete(self, key: str) -> None:
        """See ``Store.delete``."""
        name = self._name(key)
        with suppress(ObjectNotFoundError):  # some servers say so
            self._client.repeat(key, lambda: self._client.call("delete_object", Key=name))

    def close(self) -> None:
        """See ``Store.close``."""
        self._client.close()

    def _name(self, key: str) -> str:
        return self._location.prefix + check_key(key)

    def _empty_range(self, key: str, start: int) -> bytes:
        size = self.head(key).bytes  # HTTP cannot ask for no bytes
        if size < start:
            raise SizeMismatchError(f"{key} has {size} bytes, {start} are needed")
        return b""

    def _keys(self, contents: Iterable[dict[str, Any]]) -> Iterator[tuple[str, ObjectInfo]]:
        for entry in contents:
            key = str(entry["Key"]).removeprefix(self._location.prefix)
            with suppress(InvalidKeyError):
                yield check_key(key), ObjectInfo(key, int(entry["Size"]), _seconds(entry.get("LastModified")))

    def _written(self, name: str, content: bytes) -> str | None:
        """Look once whether the object holds exactly ``content``; return its token if it does."""
        try:
            found, answer = self._client.read(limit=len(content), Key=name)
        except S3Failure:
            return None
        return _etag(answer) if found == content else None


def _refusal(key: str, mode: PutMode) -> ObjectExistsError | PreconditionFailedError:
    if mode == "create":
        return ObjectExistsError(f"{key} exists")
    return PreconditionFailedError(f"{key} is gone or not the object expected")


def _etag(answer: dict[str, Any]) -> str:
    etag = answer.get("ETag")
    if not etag:
        raise StoreUnfitError("the server sends no ETag")
    return str(etag)


def _seconds(modified: datetime | None) -> float | None:
    return None if modified is None else modified.timestamp()
