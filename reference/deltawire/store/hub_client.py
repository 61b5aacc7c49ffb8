"""Single requests to the Hub's API for buckets (SPEC.md section 5.9)."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from email.utils import parsedate_to_datetime
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import quote, urljoin

import msgspec

from deltawire import __version__
from deltawire.errors import (
    MissingDependencyError,
)
from deltawire.store.hub_failure import NO_TOKEN, OFFLINE, PATH_MISSING, HubFailure, short
from deltawire.store.hub_location import HubLocation

try:
    import httpx2
    from huggingface_hub.errors import OfflineModeIsEnabled, OIDCError
    from huggingface_hub.utils import build_hf_headers, get_session, parse_ratelimit_headers
except ImportError as missing:
    raise MissingDependencyError("hf:// needs a recent huggingface_hub: pip install 'deltawire[hf]'") from missing

ATTEMPTS = 5
"""How often a request is sent before the Hub counts as unavailable."""
FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 60.0
"""A rate limit that lasts longer is an error at once, and says how long."""
OPERATIONS = 1000
"""Most operations of one batch, and most paths that are asked for at once."""
CONNECT_SECONDS = 10.0
READ_SECONDS = 30.0
"""How long the Hub may be silent."""
ANSWER_SECONDS = 120.0
"""How long an answer's body may take."""
_ANSWER_BYTES = 64 << 20
"""A longer body is not read; a page of 5,000 names has a few MiB."""
_PAGES = 1_000_000
_REDIRECTS = 3
_MOVED = frozenset({301, 302, 303, 307, 308})

T = TypeVar("T")
_LARGEST = (1 << 53) - 1
_Count = Annotated[int, msgspec.Meta(ge=0, le=_LARGEST)]
_HASH = "[0-9a-f]{64}"
Operation = Mapping[str, Any]


class Entry(msgspec.Struct, frozen=True):
    """A file of a bucket, as listings show it; directories have no hash."""

    type: str
    path: str
    size: _Count = 0
    xet_hash: Annotated[str, msgspec.Meta(pattern=f"^{_HASH}$")] = msgspec.field(name="xetHash", default="")
    uploaded_at: str = msgspec.field(name="uploadedAt", default="")


class Failed(msgspec.Struct, frozen=True):
    """An operation of a batch that was not done."""

    path: str
    error: str = ""


class _Report(msgspec.Struct, frozen=True):
    success: bool
    failed: list[Failed] = []


class Access(msgspec.Struct, frozen=True):
    """A short-lived token for the storage behind the Hub."""

    cas_url: Annotated[str, msgspec.Meta(pattern="^https?://")] = msgspec.field(name="casUrl")
    """The client of the storage knows other schemes, that reach into this machine."""
    token: str = msgspec.field(name="accessToken")
    expires: _Count = msgspec.field(name="exp")
    """Seconds since the epoch."""


class File(msgspec.Struct, frozen=True):
    """What a path of a bucket is at one moment."""

    xet_hash: str
    """Identity of the content, 64 hex digits; zeros of an empty file."""
    size: int
    modified_at: float | None = None


class HubClient:
    """Requests on one bucket, each sent once. The token is looked up anew for each, where huggingface_hub finds it.

    Safe to use from several threads and after a fork, as huggingface_hub's HTTP client is. Its own retries are not
    used: they may repeat a write that another writer has replaced meanwhile (STO-30), and wait for as long as a rate
    limit says.
    """

    def __init__(self, location: HubLocation) -> None:
        self.location = location

    def find(self, path: str) -> File:
        """Look a path up, by the route for downloads, which does not count against the limit of API calls.

        Raises:
            HubFailure: also if there is nothing (``missing``).
        """
        url = f"{self.location.endpoint}/buckets/{self.location.bucket}/resolve/{quote(path, safe='')}"
        for _ in range(_REDIRECTS):
            try:
                answer = self._request("HEAD", url, headers={"Accept-Encoding": "identity"}, accepted=_MOVED)
            except HubFailure as failure:
                if failure.status == 404 and not failure.code:  # a HEAD has no body to say what is missing
                    raise HubFailure(failure.message, status=404, code=PATH_MISSING) from failure
                raise
            if "X-Xet-Hash" in answer.headers or not answer.has_redirect_location:
                return _file(answer)
            url = self._own(url, answer.headers["Location"])  # of a bucket that was renamed
        raise HubFailure("too many redirects", status=answer.status_code)

    def infos(self, paths: Sequence[str]) -> dict[str, Entry]:
        """What several paths are, at most ``OPERATIONS``; those with nothing are left out. Raises HubFailure."""
        answer = self._request("POST", f"{self.location.api}/paths-info", json={"paths": list(paths)})
        found = _decode(answer, list[Entry])
        return {entry.path: entry for entry in found if entry.type == "file" and entry.xet_hash}

    def tree(self, prefix: str) -> Iterator[list[Entry]]:
        """Pages of all files whose path begins with ``prefix``. Raises HubFailure."""
        url = f"{self.location.api}/tree" + (f"/{quote(prefix, safe='')}" if prefix else "") + "?recursive=true"
        for page in range(_PAGES):
            try:
                answer = self._request("GET", url)
            except HubFailure as failure:
                if failure.missing and not page:
                    return
                if failure.missing:
                    raise HubFailure(f"page {page} of a listing is not there") from failure
                raise
            yield [entry for entry in _decode(answer, list[Entry]) if entry.type == "file"]
            following = answer.links.get("next", {}).get("url")
            if not following:
                return
            url, before = self._own(url, following), url
            if url == before:
                break
        raise HubFailure("a listing does not end")

    def batch(self, operations: Sequence[Operation]) -> list[Failed]:
        """Send one batch, of at most ``OPERATIONS``, once. It is no transaction. STO-29

        Returns:
            The operations that the Hub says it has not done.

        Raises:
            HubFailure: the batch as a whole failed; unless it is ``undone``, some or all of it may have been done.
        """
        lines = b"".join(msgspec.json.encode(operation) + b"\n" for operation in operations)
        answer = self._request(
            "POST",
            f"{self.location.api}/batch",
            headers={"Content-Type": "application/x-ndjson"},
            content=lines,
            accepted=frozenset({422}),  # says which failed, and that all did
        )
        report = _decode(answer, _Report)
        if answer.status_code == 422 and not report.failed:
            raise HubFailure(_told(answer), status=422)
        if not report.success and not report.failed:
            raise HubFailure("it was not done, and nothing is said of why")
        return [Failed(each.path, short(each.error)) for each in report.failed]

    def access(self, kind: Literal["read", "write"]) -> Access:
        """A token for the storage. Raises HubFailure."""
        return _decode(self._request("GET", self.access_url(kind)), Access)

    def access_url(self, kind: Literal["read", "write"]) -> str:
        """Where tokens for the storage are given out."""
        return f"{self.location.api}/xet-{kind}-token"

    def headers(self) -> dict[str, str]:
        """Headers of every request, with the token if there is one. Raises HubFailure if it cannot be used."""
        try:
            headers = dict(build_hf_headers(library_name="deltawire", library_version=__version__))
        except (OSError, ValueError, OIDCError) as error:  # what a file, or whoever gives out tokens, says
            raise HubFailure(f"no token could be had: {error}", code=NO_TOKEN) from error
        if not all(value.isascii() and value.isprintable() for value in headers.values()):
            # the HTTP client would refuse it too, and show it
            raise HubFailure("what HF_TOKEN or its file holds is no token: it has odd characters", code=NO_TOKEN)
        return headers

    def repeat(self, what: str, action: Callable[[], T]) -> T:
        """Run an action that may be repeated until it succeeds, fails for good or was tried often enough.

        Raises:
            StoreError: the translation of the last failure.
        """
        failure: HubFailure | None = None
        for attempt in range(ATTEMPTS):
            if failure is not None:
                self.pause(failure, attempt, what)
            try:
                return action()
            except HubFailure as caught:
                failure = caught
                if not caught.transient:
                    break
        assert failure is not None  # noqa: S101 - at least one attempt was made
        raise failure.as_error(what, self.location) from failure

    def pause(self, failure: HubFailure, attempt: int, what: str) -> None:
        """Wait before another attempt; for a rate limit as long as it lasts. Raises StoreError if that is long."""
        seconds = FIRST_PAUSE_SECONDS * 2 ** (attempt - 1)
        if failure.reset_seconds is not None:
            seconds = failure.reset_seconds + 1
        if seconds > LONGEST_PAUSE_SECONDS:
            raise failure.as_error(what, self.location) from failure
        time.sleep(seconds)

    def _own(self, page: str, link: str) -> str:
        """Where a link leads, if that is the Hub's, which may see the token."""
        try:
            url = urljoin(page, link)
        except ValueError as error:
            raise HubFailure(f"it points nowhere: {error}") from error
        if not url.startswith(self.location.endpoint + "/"):
            raise HubFailure(f"it points to another host, {url[:80]}")
        return url

    def _request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        accepted: frozenset[int] = frozenset(),
        **arguments: Any,
    ) -> httpx2.Response:
        sent = {**self.headers(), "Accept-Encoding": "gzip", **(headers or {})}
        timeout = httpx2.Timeout(READ_SECONDS, connect=CONNECT_SECONDS)
        client = get_session()
        try:
            request = client.build_request(method, url, headers=sent, timeout=timeout, **arguments)
            streamed = client.send(request, follow_redirects=False, stream=True)
            answer = _taken_in(streamed)
        except OfflineModeIsEnabled as error:
            raise HubFailure(f"{self.location.endpoint} was not asked: HF_HUB_OFFLINE is set", code=OFFLINE) from error
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, OSError) as error:
            raise HubFailure(f"{type(error).__name__}: {error}") from error
        if answer.status_code < 300 or answer.status_code in accepted:
            return answer
        raise HubFailure(
            _told(answer),
            status=answer.status_code,
            code=answer.headers.get("X-Error-Code") or "",
            authenticated="authorization" in {name.lower() for name in sent},
            reset_seconds=_reset(answer) if answer.status_code == 429 else None,
        )


def _taken_in(streamed: httpx2.Response) -> httpx2.Response:
    """The same answer with its body, of bounded size and taken in in bounded time. STO-9"""
    body, end = bytearray(), time.monotonic() + ANSWER_SECONDS
    with closing(streamed):
        encoding = streamed.headers.get("Content-Encoding") or "identity"
        if encoding.lower() not in {"identity", "gzip"}:  # of others, and of several, a little may be a lot
            raise HubFailure(f"an answer in an encoding that was not asked for, {encoding[:40]!r}")
        for chunk in streamed.iter_bytes():
            body += chunk
            if len(body) > _ANSWER_BYTES:
                raise HubFailure(f"an answer of more than {_ANSWER_BYTES >> 20} MiB")
            if time.monotonic() > end:
                raise HubFailure(f"an answer that takes more than {ANSWER_SECONDS:.0f} s")
    headers = [(name, value) for name, value in streamed.headers.raw if name.lower() != b"content-encoding"]
    return httpx2.Response(streamed.status_code, headers=headers, content=bytes(body))


def _decode(answer: httpx2.Response, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(answer.content, type=kind)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise HubFailure(f"an answer that makes no sense: {error}", status=None) from error


def _file(answer: httpx2.Response) -> File:
    size = answer.headers.get("X-Linked-Size") or answer.headers.get("Content-Length") or ""
    xet_hash = answer.headers.get("X-Xet-Hash") or ""
    if not size.isdecimal() or len(size) > 16 or int(size) > _LARGEST or not re.fullmatch(_HASH, xet_hash):
        raise HubFailure("the answer has no size or no hash of the file")
    modified = answer.headers.get("Last-Modified")
    try:
        seconds = None if modified is None else parsedate_to_datetime(modified).timestamp()
    except (ValueError, OverflowError):
        seconds = None
    return File(xet_hash, int(size), seconds)


def _told(answer: httpx2.Response) -> str:
    if answer.status_code in _MOVED and "Location" in answer.headers:
        return f"it has moved to {answer.headers['Location'].partition('?')[0]}"
    body = answer.content[:1000].decode(errors="replace")  # whatever letters it says it is in: not all are letters
    return answer.headers.get("X-Error-Message") or body or answer.reason_phrase


def _reset(answer: httpx2.Response) -> float | None:
    try:
        limit = parse_ratelimit_headers(answer.headers)
        if limit is not None:
            return float(limit.reset_in_seconds)
    except (ValueError, OverflowError):  # more digits than any time has
        return None
    after = answer.headers.get("Retry-After") or ""
    return float(after) if after.isdecimal() else None
