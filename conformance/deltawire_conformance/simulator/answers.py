"""Answers of S3."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import formatdate
from urllib.parse import quote
from xml.sax.saxutils import escape

from deltawire_conformance.simulator.objects import Held

_NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"
CODES = {
    403: "AccessDenied",
    404: "NoSuchKey",
    408: "RequestTimeout",
    409: "ConditionalRequestConflict",
    412: "PreconditionFailed",
    416: "InvalidRange",
    429: "SlowDown",
    500: "InternalError",
    501: "NotImplemented",
    503: "SlowDown",
}


@dataclass(frozen=True, kw_only=True)
class S3Answer:
    """An answer, before it is sent."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = field(default=b"", repr=False)


def refusal(status: int, code: str | None = None) -> S3Answer:
    """An error, as S3 says it."""
    said = code or CODES.get(status, "InternalError")
    return document("Error", f"<Code>{said}</Code><Message>the simulator says so</Message>", status=status)


def document(root: str, content: str, *, status: int = 200) -> S3Answer:
    """An answer in XML."""
    space = "" if root == "Error" else f' xmlns="{_NAMESPACE}"'
    text = f'<?xml version="1.0" encoding="UTF-8"?>\n<{root}{space}>{content}</{root}>'
    return S3Answer(status=status, headers={"Content-Type": "application/xml"}, body=text.encode())


def content(held: Held, span: str | None) -> S3Answer:
    """An object, or a range of it."""
    headers = {
        "Content-Type": "binary/octet-stream",
        "ETag": held.etag,
        "Last-Modified": formatdate(held.modified_at, usegmt=True),
        "Accept-Ranges": "bytes",
    }
    size = len(held.data)
    if span is None:
        return S3Answer(status=200, headers=headers, body=held.data)
    begin, end = _range(span, size)
    if begin >= end:
        return refusal(416)
    headers["Content-Range"] = f"bytes {begin}-{end - 1}/{size}"
    return S3Answer(status=206, headers=headers, body=held.data[begin:end])


def _range(span: str, size: int) -> tuple[int, int]:
    first, _, last = span.removeprefix("bytes=").partition("-")
    if not first:
        return max(size - int(last), 0), size
    return int(first), min(int(last) + 1, size) if last else size


def listing(found: Iterable[tuple[str, Held]], *, prefix: str, encode: bool, token: str | None) -> S3Answer:
    """A page of ListObjectsV2.

    Args:
        found: the objects of the page.
        prefix: that was listed.
        encode: whether names are to be percent-encoded.
        token: where the next page begins, if there is one.
    """
    entries = [
        f"<Contents><Key>{_name(name, encode=encode)}</Key><LastModified>{_time(held)}</LastModified>"
        f"<ETag>{escape(held.etag)}</ETag><Size>{len(held.data)}</Size><StorageClass>STANDARD</StorageClass></Contents>"
        for name, held in found
    ]
    head = f"<Prefix>{_name(prefix, encode=encode)}</Prefix><KeyCount>{len(entries)}</KeyCount><MaxKeys>1000</MaxKeys>"
    if encode:
        head += "<EncodingType>url</EncodingType>"
    head += f"<IsTruncated>{'false' if token is None else 'true'}</IsTruncated>"
    if token is not None:
        head += f"<NextContinuationToken>{escape(token)}</NextContinuationToken>"
    return document("ListBucketResult", head + "".join(entries))


def copied(root: str, etag: str, modified_at: float) -> S3Answer:
    """The result of a copy."""
    when = datetime.fromtimestamp(modified_at, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    return document(root, f"<LastModified>{when}</LastModified><ETag>{escape(etag)}</ETag>")


def _name(name: str, *, encode: bool) -> str:
    return quote(name) if encode else escape(name)


def _time(held: Held) -> str:
    return datetime.fromtimestamp(held.modified_at, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
