"""A connection to an S3 server: its settings, single calls, retries, and one kind of failure for all."""

from __future__ import annotations

import os
import random
import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any, TypeVar

from deltawire.errors import (
    InvalidArgumentError,
    MissingDependencyError,
    ObjectNotFoundError,
    StoreDeniedError,
    StoreError,
    StoreUnavailableError,
    StoreUnfitError,
)
from deltawire.store.s3_location import S3Location

try:
    import aiohttp
    import s3fs
    import urllib3.exceptions
    from aiobotocore.session import AioSession
    from botocore import exceptions as boto  # type: ignore[import-untyped]
    from botocore.loaders import Loader, create_loader  # type: ignore[import-untyped]
    from botocore.parsers import ResponseParserError  # type: ignore[import-untyped]
    from fsspec.asyn import sync
except ModuleNotFoundError as missing:
    raise MissingDependencyError("s3:// needs s3fs: pip install 'deltawire[s3]'") from missing

ATTEMPTS = 5
"""How often a request is sent before the store counts as unavailable."""
FIRST_PAUSE_SECONDS = 0.2
CONDITIONS = frozenset({"IfMatch", "IfNoneMatch"})
CONNECT_SECONDS = 5.0
READ_SECONDS = 30.0
_POOL = 64
_CLIENT_ERRORS = (
    OSError,
    boto.BotoCoreError,
    boto.ClientError,
    ResponseParserError,
    aiohttp.ClientError,
    urllib3.exceptions.HTTPError,
)
_NO_CREDENTIALS = (
    boto.NoCredentialsError,
    boto.PartialCredentialsError,
    boto.CredentialRetrievalError,
    boto.SSOError,
)
_PERMANENT = (boto.ParamValidationError, boto.ProfileNotFound, boto.NoRegionError, boto.UnknownServiceError)
_AMAZON = re.compile(r"\.amazonaws\.com(\.cn)?(:\d+)?/?$")
_MISSING = {"NoSuchKey", "NotFound", "404"}

T = TypeVar("T")


class S3Failure(Exception):  # noqa: N818 - not an error of ours: callers turn it into one
    """A call that failed, whichever of the client's layers noticed."""

    def __init__(self, error: Exception) -> None:
        response = _response_behind(error)
        told = response.get("Error", {})
        self.status: int | None = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        self.code = str(told.get("Code", ""))
        self.message = " ".join(str(told.get("Message") or error or type(error).__name__).split())[:300]
        self.denied = self.status in {401, 403} or isinstance(error, _NO_CREDENTIALS)
        self.no_bucket = self.code == "NoSuchBucket"
        self.missing = self.status == 404 and self.code in _MISSING
        self.transient = not self.denied and (
            self.status in {408, 409, 429}
            or (self.status is None and not isinstance(error, _PERMANENT))
            or (self.status is not None and self.status >= 500 and self.status != 501)
            or self.code in {"SlowDown", "RequestTimeout"}
        )
        answer = " ".join(filter(None, (str(self.status or "no answer"), self.code)))
        super().__init__(f"{answer}: {self.message}")

    def as_error(self, what: str, location: S3Location) -> StoreError:
        """Translate into the error that the store protocol promises."""
        where = location.endpoint_url or "Amazon S3"
        if self.no_bucket:
            return StoreUnavailableError(
                f"bucket {location.bucket} does not exist at {where}", hint=_how_to_create(location)
            )
        if self.missing:
            return ObjectNotFoundError(f"{what} does not exist in {location.bucket}")
        if self.denied:
            hint = None if location.hub_namespace is None else _HUB_KEYS
            return StoreDeniedError(f"{where} refused {what}: {self.message}", hint=hint)
        return StoreUnavailableError(f"{where} failed on {what}: {self}")


_HUB_KEYS = (
    "the gateway has keys of its own: at https://huggingface.co/settings/tokens, 'Generate S3 credentials' of a token"
    " makes a pair that may do what the token may; put it into AWS_ACCESS_KEY_ID (HFAK...) and AWS_SECRET_ACCESS_KEY,"
    " or into a profile"
)


def _how_to_create(location: S3Location) -> str:
    match location.hub_namespace:
        case None:
            return "create the bucket, or check its name and AWS_ENDPOINT_URL"
        case "":
            return "the endpoint ends in whose bucket it is: https://s3.hf.co/NAMESPACE"
        case namespace:
            return f"create it ('hf buckets create {namespace}/{location.bucket}'), or check its name and the endpoint"


class S3Client:
    """An s3fs file system without any of its caches, used for single calls only.

    It is made again in a forked child, because neither event loops nor connections survive a fork.

    Raises:
        StoreUnfitError: the installed botocore does not know conditional writes and would silently drop them.
    """

    def __init__(self, location: S3Location, *, read_seconds: float = READ_SECONDS) -> None:
        self.location = location
        self._read_seconds = read_seconds
        self._lock = threading.Lock()
        self._filesystem: Any = None
        self._process = 0

    def call(self, method: str, **arguments: Any) -> dict[str, Any]:
        """Send one request on the bucket, once. Raises S3Failure."""
        filesystem = self._connected()
        try:
            answer = filesystem.call_s3(method, Bucket=self.location.bucket, **arguments)
        except _CLIENT_ERRORS as error:
            raise S3Failure(error) from error
        return dict(answer)

    def read(self, *, limit: int, **arguments: Any) -> tuple[bytes | None, dict[str, Any]]:
        """Send one GET and return its body and the answer's head.

        A body larger than ``limit`` is not taken in, and None is returned instead. Raises S3Failure.
        """
        filesystem = self._connected()
        try:
            body, answer = sync(filesystem.loop, _read, filesystem, limit, Bucket=self.location.bucket, **arguments)
        except _CLIENT_ERRORS as error:
            raise S3Failure(error) from error
        return body, answer

    def repeat(self, what: str, action: Callable[[], T]) -> T:
        """Run an idempotent action until it succeeds, fails for good or was tried often enough.

        Raises:
            StoreError: the translation of the last failure.
        """
        failure: S3Failure | None = None
        for _ in attempts():
            try:
                return action()
            except S3Failure as caught:
                failure = caught
                if not caught.transient:
                    break
        assert failure is not None  # noqa: S101 - at least one attempt was made
        raise failure.as_error(what, self.location) from failure

    def close(self) -> None:
        """Close the connections; the next call opens new ones."""
        with self._lock:
            self._filesystem = None  # s3fs closes its session when it is collected

    def _connected(self) -> Any:
        with self._lock:
            if self._filesystem is None or self._process != os.getpid():
                self._filesystem = self._connect()
                self._process = os.getpid()
            return self._filesystem

    def _connect(self) -> Any:
        where = self.location
        filesystem = s3fs.S3FileSystem(
            anon=where.anon,
            endpoint_url=where.endpoint_url,
            client_kwargs={"region_name": where.region} if where.region else {},
            config_kwargs={
                "s3": {"addressing_style": where.addressing_style},
                "connect_timeout": CONNECT_SECONDS,
                "read_timeout": self._read_seconds,
                "max_pool_connections": _POOL,
                "retries": {"total_max_attempts": 1},  # one layer repeats, and knows what is safe to repeat
                # servers other than Amazon's reject or mangle the optional checksums; ours are in the records
                "request_checksum_calculation": "when_required",
                "response_checksum_validation": "when_required",
            },
            use_listings_cache=False,
            skip_instance_cache=True,
            session=_session(where.profile),
        )
        filesystem.retries = 1
        try:
            members = filesystem.s3.meta.service_model.operation_model("PutObject").input_shape.members
        except _PERMANENT as error:
            raise InvalidArgumentError(f"the S3 settings cannot be used: {error}") from error
        except _CLIENT_ERRORS as error:
            raise S3Failure(error).as_error("the connection", where) from error
        if not set(members) >= CONDITIONS:
            # s3fs drops arguments that botocore does not know, which would make every write unconditional
            raise StoreUnfitError("the installed botocore knows no conditional writes; upgrade s3fs")
        used = str(filesystem.s3.meta.endpoint_url)
        # a profile's, which errors should name, unless it holds a password
        if where.endpoint_url is None and "@" not in used and not _AMAZON.search(used):
            self.location = replace(where, endpoint_url=used)
        return filesystem


def _session(profile: str | None) -> AioSession:
    session = AioSession(profile=profile)
    session.register_component("data_loader", _loader())
    return session


@cache
def _loader() -> Loader:
    """What botocore knows of the service: a megabyte of JSON, read once a process, not once a store."""
    return create_loader()


def attempts() -> Iterator[int]:
    """Count the attempts at one request, with growing pauses between them."""
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(FIRST_PAUSE_SECONDS * 2 ** (attempt - 1) * random.uniform(0.5, 1.0))  # noqa: S311 - spreads load, guards nothing
        yield attempt


async def _read(filesystem: Any, limit: int, **arguments: Any) -> tuple[bytes | None, dict[str, Any]]:
    answer = await filesystem._call_s3("get_object", **arguments)  # noqa: SLF001 - the documented coroutine form
    async with answer["Body"] as body:
        if answer.get("ContentLength", 0) > limit:
            return None, answer
        data = bytearray()
        while len(data) <= limit and (more := await body.read(limit + 1 - len(data))):
            data += more
    if len(data) > limit:
        return None, answer
    if len(data) != answer.get("ContentLength", len(data)):
        raise aiohttp.ClientPayloadError(f"{len(data)} bytes came instead of {answer['ContentLength']}")
    return bytes(data), answer


def _response_behind(error: BaseException | None) -> dict[str, Any]:
    """Find the HTTP answer; s3fs turns it into an OSError whose class depends on the server's wording."""
    for _ in range(8):
        if error is None:
            break
        response = getattr(error, "response", None)
        if isinstance(response, dict):
            return response
        error = error.__cause__
    return {}
