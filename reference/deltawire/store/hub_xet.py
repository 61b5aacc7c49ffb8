"""The content of a bucket's files, by hash, in the storage behind the Hub (SPEC.md section 5.9)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from datetime import timedelta
from functools import partial
from typing import Any, Literal, TypeVar

from deltawire.errors import MissingDependencyError
from deltawire.store.base import Bytes
from deltawire.store.forks import BeginsAnew
from deltawire.store.hub_client import Access, File, HubClient
from deltawire.store.hub_failure import CONTENT_GONE, STORAGE_REFUSED, HubFailure
from deltawire.store.watchdog import Watchdog

try:
    from hf_xet import SKIP_SHA256, XetAuthenticationError, XetConfig, XetFileInfo, XetObjectNotFoundError, XetSession
except ImportError as missing:
    raise MissingDependencyError("hf:// needs a recent hf_xet: pip install 'deltawire[hf]'") from missing

_SAFETY_SECONDS = 60
"""A token that expires sooner is not used any more."""
PATIENCE_SECONDS = 120.0
"""How long the storage's client may take for one thing, and as much longer as bytes are slow."""
_SLOWEST_BYTES = 256 << 10
"""Bytes a second, below which a connection counts as none."""
_PIECE_BYTES = 1 << 20
"""What is handed to the storage's client at a time, which is copied."""
_SETTINGS = {
    # every call ends in bounded time (STO-9)
    "client.connect_timeout": timedelta(seconds=10),
    "client.read_timeout": timedelta(seconds=30),
    "client.retry_max_attempts": 4,
    "client.retry_max_duration": timedelta(seconds=60),
    "client.retry_base_delay": timedelta(milliseconds=500),
    # by default gigabytes are read ahead; what is in flight is bounded by who asks for ranges
    "reconstruction.min_reconstruction_fetch_size": 16 << 20,
    "reconstruction.max_reconstruction_fetch_size": 64 << 20,
    "reconstruction.download_buffer_size": 64 << 20,
    "reconstruction.download_buffer_perfile_size": 16 << 20,
    "reconstruction.download_buffer_limit": 128 << 20,
    "reconstruction.min_prefetch_buffer": 16 << 20,
}

T = TypeVar("T")
_Kind = Literal["read", "write"]
_Use = Literal["read", "write", "unique"]


class XetStorage(BeginsAnew):
    """Reads and stores content. A token is kept until it is about to expire: each costs an API call.

    Safe to use from several threads, and made again in a forked child.
    """

    def __init__(self, client: HubClient) -> None:
        self._client = client
        super().__init__()

    def begin_anew(self) -> None:
        """Hold nothing, not even the lock, which another thread may have held when this process was forked."""
        self._lock = threading.Lock()
        self._access: dict[_Kind, Access] = {}
        self._downloads: Any = None
        self._sessions: dict[_Use, Any] = {}
        self._watchdog = Watchdog()

    def patience(self, size: int, give_up: Callable[[], object]) -> AbstractContextManager[None]:
        """Give up what takes too long for so many bytes. STO-9

        The storage's client bounds how long it hears nothing, but not how long it hears little.
        """
        return self._watchdog.limit(PATIENCE_SECONDS + size / _SLOWEST_BYTES, give_up)

    def read(self, file: File, start: int, length: int) -> bytes:
        """Read exactly ``length`` bytes from ``start``, which must be within the file. Raises HubFailure."""
        if not length:
            return b""

        def work() -> bytes:
            content, data = XetFileInfo(file.xet_hash, file.size), bytearray()
            session, group = self._reading()
            try:
                with self.patience(length, lambda: self._abandon(session)):
                    stream = group.download_stream(content, start=start, end=start + length)
                    for chunk in stream:
                        data += chunk
                        if len(data) > length:
                            stream.cancel()
                            break
            except KeyboardInterrupt as error:  # also what a session raises that was abandoned
                with self._lock:
                    if self._sessions.get("read") is session:
                        raise
                raise HubFailure("another read took too long, and this one was ended with it") from error
            if len(data) != length:
                raise HubFailure(f"{len(data)} bytes came instead of {length}")
            return bytes(data)

        return self.guarded("read", work)

    def upload(self, *, unique: bool = False) -> XetUpload:
        """Begin to store content, which no name refers to yet. Raises HubFailure.

        Args:
            unique: nobody can have stored any of it before, which need not be asked then.
        """

        def work() -> XetUpload:
            headers, access = self._client.headers(), self._token("write")
            with self._lock:
                session = self._session("unique" if unique else "write")
            commit = session.new_upload_commit(
                endpoint=access.cas_url,
                token=access.token,
                token_expiry_unix_secs=access.expires,
                token_refresh_url=self._client.access_url("write"),
                token_refresh_headers=headers,
            )
            return XetUpload(commit, self)

        return self.guarded("write", work)

    def close(self) -> None:
        """Forget connections and tokens; the next call makes new ones."""
        with self._lock:
            self._forget()
            self._sessions = {}

    def _forget(self) -> None:
        self._access.clear()
        self._downloads = None

    def guarded(self, kind: _Kind, work: Callable[[], T]) -> T:
        """Do something with the storage's client. Raises HubFailure for whatever it raises."""
        try:
            return work()
        except XetObjectNotFoundError as error:
            raise HubFailure(f"the content is gone: {error}", status=404, code=CONTENT_GONE) from error
        except (OSError, RuntimeError, ValueError) as error:
            with self._lock:
                self._forget()  # a token that has expired may show as any error: the next attempt gets a new one
            if isinstance(error, XetAuthenticationError):
                message = f"the storage refused to {kind}: {error}"
                raise HubFailure(message, status=403, code=STORAGE_REFUSED) from error
            raise HubFailure(f"the storage failed to {kind}: {type(error).__name__}: {error}") from error

    def _session(self, use: _Use) -> Any:
        """Whoever calls holds the lock."""
        if use not in self._sessions:
            settings = _SETTINGS | {"deduplication.global_dedup_query_enabled": use != "unique"}
            self._sessions[use] = XetSession(XetConfig().with_config(settings))
        return self._sessions[use]

    def _abandon(self, session: Any) -> None:
        """End all reads that are under way in a session; nothing less ends one that waits."""
        with self._lock:
            if self._sessions.get("read") is session:
                del self._sessions["read"]
                self._downloads = None
        session.sigint_abort()

    def _token(self, kind: _Kind) -> Access:
        with self._lock:
            access = self._access.get(kind)
            if access is None or access.expires < time.time() + _SAFETY_SECONDS:
                access = self._access[kind] = self._client.access(kind)
                if kind == "read":
                    self._downloads = None
            return access

    def _reading(self) -> tuple[Any, Any]:
        """A session, and a group of downloads in it."""
        access, headers = self._token("read"), self._client.headers()
        with self._lock:
            session = self._session("read")
            if self._downloads is None:
                self._downloads = session.new_download_stream_group(
                    endpoint=access.cas_url,
                    token=access.token,
                    token_expiry_unix_secs=access.expires,
                    token_refresh_url=self._client.access_url("read"),
                    token_refresh_headers=headers,
                )
            return session, self._downloads


class XetUpload:
    """Content on its way to the storage; small files share what is sent. Nothing is durable before ``finish``."""

    def __init__(self, commit: Any, storage: XetStorage) -> None:
        self._commit = commit
        self._bytes = 0
        self._storage = storage

    def put(self, chunks: Iterable[Bytes]) -> File:
        """Take in a file; what ``chunks`` raises passes through, and the file is dropped. Raises HubFailure."""
        stream = self._bounded(lambda: self._commit.start_upload_stream(sha256=SKIP_SHA256))
        try:
            for chunk in chunks:
                view = memoryview(chunk).cast("B")
                for start in range(0, len(view), _PIECE_BYTES):
                    data = bytes(view[start : start + _PIECE_BYTES])
                    self._bytes += len(data)
                    self._bounded(partial(stream.write, data))
            done = self._bounded(stream.finish)
        except BaseException:
            stream.abort()
            raise
        return File(done.xet_info.hash, done.xet_info.file_size)

    def finish(self) -> None:
        """Wait until everything is durable. Raises HubFailure."""
        self._bounded(self._commit.wait_to_finish)

    def _bounded(self, work: Callable[[], T]) -> T:
        with self._storage.patience(self._bytes, self._commit.abort):
            return self._storage.guarded("write", work)
