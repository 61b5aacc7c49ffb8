"""The face of the S3 gateway, over the same buckets.

Source of what differs from S3: the Hub's documentation, "S3 Compatibility".
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.utils import formatdate
from functools import partial
from urllib.parse import quote, unquote
from xml.sax.saxutils import escape

from deltawire_conformance.simulator.answers import copied, document, refusal
from deltawire_conformance.simulator.noting import Verb
from deltawire_conformance.simulator.operations import S3Request
from tests.hub.emulator.accounts import Token
from tests.hub.emulator.asking import Answer, Asked, NotSatisfiable, Refused, iso, ranged, span_of
from tests.hub.emulator.buckets import Bucket, Entry, InvalidKey, below, check_key
from tests.hub.emulator.state import State

_PAGE = 1000
_PATH = re.compile(r"/s3/([^/]+)/([^/]+)(?:/(.*))?", re.DOTALL)
_CREDENTIAL = re.compile(r"AWS4-HMAC-SHA256 .*Credential=([^/,]+)/")
_FETCHED_HERE = re.compile(r"aws-cli|botocore|aws-sdk-rust", re.IGNORECASE)
"""Clients that are sent bytes; others are sent elsewhere for them."""
_WRITES = {"put", "copy", "begin", "part", "complete", "abort", "delete"}


class _S3Refused(Exception):  # noqa: N818 - an answer, not an error
    def __init__(self, status: int, code: str) -> None:
        super().__init__(code)
        self.answer = refusal(status, code)


@dataclass(slots=True)
class _Upload:
    bucket: str
    path: str
    content_type: str | None
    parts: dict[int, bytes] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class _Call:
    """A request on a bucket, and what it may see."""

    asked: Asked
    request: S3Request
    bucket: Bucket
    token: Token

    @property
    def path(self) -> str:
        return self.request.name

    @property
    def content_type(self) -> str | None:
        return self.asked.headers.get("content-type")


class GatewayFace:
    """The gateway as HTTP.

    Args:
        state: what is behind it.
        bytes_endpoint: under which clients reach what serves bytes.
    """

    def __init__(self, state: State, *, bytes_endpoint: str) -> None:
        self._state = state
        self._bytes_endpoint = bytes_endpoint
        self._serial = itertools.count(1)
        self._uploads: dict[str, _Upload] = {}
        self._operations: dict[Verb, Callable[[_Call], Answer]] = {
            "get": self._get,
            "head": self._head,
            "list": self._list,
            "put": self._put,
            "copy": self._copy,
            "delete": self._delete,
            "begin": self._begin,
            "part": self._part,
            "complete": self._complete,
            "abort": self._abort,
            "uploads": self._unfinished,
            "other": self._other,
        }

    def answer(self, asked: Asked) -> Answer:
        """Do what is asked."""
        try:
            call = self._call(asked)
            return self._operations[call.request.verb](call)
        except _S3Refused as refused:
            return refused.answer
        except InvalidKey:
            return refusal(400, "InvalidRequest")
        except NotSatisfiable:
            return refusal(416)
        except (ET.ParseError, ValueError):
            return refusal(400, "MalformedXML")

    def _call(self, asked: Asked) -> _Call:
        found = _PATH.fullmatch(asked.path)
        if found is None:
            raise _S3Refused(501, "NotImplemented")
        token = self._token(asked)
        request = S3Request(
            method=asked.method, name=found[3] or "", query=asked.query, headers=asked.headers, body=asked.body
        )
        if request.name:
            check_key(request.name)
        bucket = self._bucket(f"{found[1]}/{found[2]}", token)
        if request.verb in _WRITES and not token.writes(found[1]):
            raise _S3Refused(403, "AccessDenied")
        self._see_framing(request)
        return _Call(asked, request, bucket, token)

    def _token(self, asked: Asked) -> Token:
        found = _CREDENTIAL.match(asked.headers.get("authorization", ""))
        if found is None:
            raise _S3Refused(403, "AccessDenied")
        token = self._state.tokens.get(self._state.access_keys.get(found[1], ""))
        if token is None or token.expired:
            raise _S3Refused(403, "InvalidAccessKeyId")
        return token

    def _bucket(self, name: str, token: Token) -> Bucket:
        try:
            with self._state.lock:
                return self._state.bucket(name, token)
        except Refused:
            raise _S3Refused(404, "NoSuchBucket") from None

    def _see_framing(self, request: S3Request) -> None:
        """The gateway takes no aws-chunked, which clients send over TLS where they send such headers without it."""
        framed = "aws-chunked" in request.headers.get("content-encoding", "")
        summed = self._state.options.refuse_checksums and any(
            name.startswith(("x-amz-checksum-", "x-amz-sdk-checksum-")) for name in request.headers
        )
        if request.verb in {"put", "part"} and (framed or summed):
            raise _S3Refused(501, "NotImplemented")

    # Objects

    def _entry(self, call: _Call) -> Entry:
        with self._state.lock:
            entry = call.bucket.entries.get(call.path)
        if entry is None:
            raise _S3Refused(404, "NoSuchKey")
        return entry

    def _get(self, call: _Call) -> Answer:
        entry = self._entry(call)
        if not _FETCHED_HERE.search(call.asked.headers.get("user-agent", "")):
            return Answer(status=302, headers={"Location": f"{self._bytes_endpoint}/bytes/files/{entry.digest}"})
        span = span_of(call.asked.headers.get("range"), entry.size)
        return ranged(partial(self._state.content.read, entry.digest), span, entry.size, _headers(entry))

    def _head(self, call: _Call) -> Answer:
        entry = self._entry(call)
        return Answer(status=200, headers={**_headers(entry), "Content-Length": str(entry.size)})

    def _put(self, call: _Call) -> Answer:
        free, etag = call.asked.headers.get("if-none-match"), call.asked.headers.get("if-match")
        if free not in {None, "*"}:
            raise _S3Refused(501, "NotImplemented")
        entry = self._made(call.asked.body, call.content_type)
        with self._state.lock:
            found = call.bucket.entries.get(call.path)
            if etag is not None and found is None:
                raise _S3Refused(404, "NoSuchKey")
            if (free and found is not None) or (etag is not None and found is not None and found.etag != etag):
                raise _S3Refused(412, "PreconditionFailed")
            call.bucket.write({call.path: entry})
        return Answer(status=200, headers={"ETag": entry.etag})

    def _made(self, data: bytes, content_type: str | None) -> Entry:
        entry = self._state.entry(self._state.content.add_file(data), content_type=content_type)
        assert entry is not None
        return entry

    def _copy(self, call: _Call) -> Answer:
        source = unquote(call.asked.headers["x-amz-copy-source"]).lstrip("/")
        bucket, _, path = source.partition("/")
        namespace = call.bucket.name.partition("/")[0]
        origin = self._bucket(f"{namespace}/{bucket}", call.token)
        with self._state.lock:
            found = origin.entries.get(path)
            if found is None:
                raise _S3Refused(404, "NoSuchKey")
            wanted = call.asked.headers.get("x-amz-copy-source-if-match", found.etag)
            unwanted = call.asked.headers.get("x-amz-copy-source-if-none-match")
            if wanted != found.etag or unwanted == found.etag:
                raise _S3Refused(412, "PreconditionFailed")
            entry = self._state.entry(found.digest, content_type=found.content_type)
            assert entry is not None
            call.bucket.write({call.path: entry})
        return copied("CopyObjectResult", entry.etag, entry.uploaded_at)

    def _delete(self, call: _Call) -> Answer:
        with self._state.lock:
            if call.path in call.bucket.entries:
                call.bucket.write({call.path: None})
        return Answer(status=204)

    # Listings

    def _list(self, call: _Call) -> Answer:
        query = call.asked.query
        prefix, delimiter, encoded = query.get("prefix", ""), query.get("delimiter", ""), "encoding-type" in query
        if delimiter not in {"", "/"}:
            raise _S3Refused(501, "NotImplemented")
        token = base64.urlsafe_b64decode(query.get("continuation-token", "")).decode()
        after = token or query.get("start-after", "")
        size = min(int(query.get("max-keys", _PAGE)), _PAGE, self._state.options.page_size)
        level = len(prefix) if delimiter else None
        with self._state.lock:
            found = below(self._state.shown(call.bucket, call.asked), prefix, directories_from=level)
            rest = [item for item in found if item[0] > after]
        page = rest[:size]
        name: Callable[[str], str] = quote if encoded else escape
        parts = [f"<Prefix>{name(prefix)}</Prefix><KeyCount>{len(page)}</KeyCount><MaxKeys>{size}</MaxKeys>"]
        if encoded:
            parts.append("<EncodingType>url</EncodingType>")
        parts.append(f"<IsTruncated>{'true' if len(rest) > size else 'false'}</IsTruncated>")
        if len(rest) > size:
            after = base64.urlsafe_b64encode(page[-1][0].encode()).decode() if page else token
            parts.append(f"<NextContinuationToken>{after}</NextContinuationToken>")
        for path, entry in page:
            if path.endswith("/"):
                parts.append(f"<CommonPrefixes><Prefix>{name(path)}</Prefix></CommonPrefixes>")
            else:
                parts.append(
                    f"<Contents><Key>{name(path)}</Key><LastModified>{iso(entry.uploaded_at)}</LastModified><ETag>{entry.etag}"
                    f"</ETag><Size>{entry.size}</Size><StorageClass>STANDARD</StorageClass></Contents>"
                )
        return document("ListBucketResult", "".join(parts))

    # Uploads in parts

    def _begin(self, call: _Call) -> Answer:
        with self._state.lock:
            name = f"upload-{next(self._serial)}"
            self._uploads[name] = _Upload(call.bucket.name, call.path, call.content_type)
        return document("InitiateMultipartUploadResult", f"<UploadId>{name}</UploadId>")

    def _part(self, call: _Call) -> Answer:
        if "x-amz-copy-source" in call.asked.headers:
            raise _S3Refused(501, "NotImplemented")
        with self._state.lock:
            self._upload(call).parts[int(call.asked.query["partNumber"])] = call.asked.body
        return Answer(status=200, headers={"ETag": _part_etag(call.asked.body)})

    def _complete(self, call: _Call) -> Answer:
        """Conditions of the request are not looked at."""
        told = [(int(_text(part, "PartNumber")), _text(part, "ETag")) for part in ET.fromstring(call.asked.body)]
        with self._state.lock:
            upload = self._upload(call)
        if any(_part_etag(upload.parts.get(number, b"")) != etag for number, etag in told) or not told:
            raise _S3Refused(400, "InvalidPart")
        entry = self._made(b"".join(upload.parts[number] for number, _ in told), upload.content_type)
        with self._state.lock:
            self._uploads.pop(call.asked.query["uploadId"], None)
            call.bucket.write({call.path: entry})
        return document("CompleteMultipartUploadResult", f"<ETag>{entry.etag}</ETag>")

    def _abort(self, call: _Call) -> Answer:
        with self._state.lock:
            self._upload(call)
            del self._uploads[call.asked.query["uploadId"]]
        return Answer(status=204)

    def _unfinished(self, call: _Call) -> Answer:
        prefix = call.asked.query.get("prefix", "")
        with self._state.lock:
            found = [
                f"<Upload><Key>{escape(upload.path)}</Key><UploadId>{name}</UploadId></Upload>"
                for name, upload in self._uploads.items()
                if upload.bucket == call.bucket.name and upload.path.startswith(prefix)
            ]
        return document("ListMultipartUploadsResult", "<IsTruncated>false</IsTruncated>" + "".join(found))

    def _upload(self, call: _Call) -> _Upload:
        upload = self._uploads.get(call.asked.query["uploadId"])
        if upload is None or (upload.bucket, upload.path) != (call.bucket.name, call.path):
            raise _S3Refused(404, "NoSuchUpload")
        return upload

    # Else

    def _other(self, call: _Call) -> Answer:
        if not call.path and call.asked.method == "HEAD":
            return Answer(status=200)
        if not call.path and call.asked.method == "POST" and "delete" in call.asked.query:
            return self._delete_all(call)
        raise _S3Refused(501, "NotImplemented")

    def _delete_all(self, call: _Call) -> Answer:
        if not call.token.writes(call.bucket.name.partition("/")[0]):
            raise _S3Refused(403, "AccessDenied")
        keys = [found.text or "" for found in ET.fromstring(call.asked.body).iter() if _tag(found) == "Key"]
        with self._state.lock:
            call.bucket.write({key: None for key in keys if key in call.bucket.entries})
        return document("DeleteResult", "".join(f"<Deleted><Key>{escape(key)}</Key></Deleted>" for key in keys))


def _headers(entry: Entry) -> Mapping[str, str]:
    return {
        "Content-Type": entry.content_type or "binary/octet-stream",
        "ETag": entry.etag,
        "Last-Modified": formatdate(entry.uploaded_at, usegmt=True),
        "Accept-Ranges": "bytes",
    }


def _part_etag(data: bytes) -> str:
    return f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"'


def _tag(element: ET.Element) -> str:
    return element.tag.rpartition("}")[2]


def _text(element: ET.Element, name: str) -> str:
    return next((found.text or "" for found in element if _tag(found) == name), "")
