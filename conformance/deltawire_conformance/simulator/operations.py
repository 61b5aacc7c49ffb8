"""The operations of S3 that the store binding needs (SPEC.md section 5.4)."""

from __future__ import annotations

import time
import xml.etree.ElementTree as ET
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote

from deltawire_conformance.simulator import answers
from deltawire_conformance.simulator.answers import S3Answer, document, refusal
from deltawire_conformance.simulator.noting import Verb
from deltawire_conformance.simulator.objects import ConditionFailed, NoUpload, Objects, Written, etag_of

PAGE = 1000
"""Objects on a page of a listing."""


@dataclass(frozen=True, kw_only=True)
class S3Request:
    """A request on the bucket, taken apart."""

    method: str
    name: str
    """Of the object; empty for the bucket."""
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """By name in lower case."""
    body: bytes = field(repr=False)

    @property
    def verb(self) -> Verb:
        """What is asked for."""
        asked, method = self.query, self.method
        if not self.name:
            return "list" if asked.get("list-type") == "2" else "uploads" if "uploads" in asked else "other"
        if method == "PUT":
            copies = "x-amz-copy-source" in self.headers
            return "part" if "partNumber" in asked else "copy" if copies else "put"
        if method == "POST":
            return "begin" if "uploads" in asked else "complete" if "uploadId" in asked else "other"
        if method == "DELETE":
            return "abort" if "uploadId" in asked else "delete"
        return "get" if method == "GET" else "head" if method == "HEAD" else "other"


class Operations:
    """One bucket.

    Args:
        objects: what is in it.
        bucket: its name.
        page: most objects on a page of a listing.
    """

    def __init__(self, objects: Objects, bucket: str, *, page: int = PAGE) -> None:
        self._objects = objects
        self._bucket = bucket
        self._page = page
        self._operations: dict[Verb, Callable[[S3Request], tuple[S3Answer, Written | None]]] = {
            "get": self._get,
            "head": self._get,
            "put": self._put,
            "copy": self._copy,
            "complete": self._complete,
        }
        self._others: dict[Verb, Callable[[S3Request], S3Answer]] = {
            "list": self._list,
            "begin": self._begin,
            "part": self._part,
            "abort": self._abort,
            "uploads": self._uploads,
            "delete": self._delete,
            "other": self._other,
        }

    def answer(self, request: S3Request) -> tuple[S3Answer, Written | None]:
        """Do what is asked; the answer, and what it wrote."""
        try:
            operation = self._operations.get(request.verb)
            return (self._others[request.verb](request), None) if operation is None else operation(request)
        except ConditionFailed:
            return refusal(412), None
        except NoUpload:
            return refusal(404, "NoSuchUpload"), None
        except (ValueError, KeyError, ET.ParseError):
            return refusal(400, "InvalidRequest"), None

    def _get(self, request: S3Request) -> tuple[S3Answer, None]:
        held = self._objects.get(request.name)
        return (refusal(404) if held is None else answers.content(held, request.headers.get("range"))), None

    def _put(self, request: S3Request) -> tuple[S3Answer, Written | None]:
        etag = request.headers.get("if-match")
        # Amazon's answer for a key that holds nothing.
        if etag is not None and self._objects.get(request.name) is None:
            return refusal(404), None
        free = request.headers.get("if-none-match")
        if free not in {None, "*"}:
            return refusal(501), None
        written = self._objects.put(request.name, request.body, free=free is not None, etag=etag)
        return S3Answer(status=200, headers={"ETag": written.held.etag}), written

    def _copy(self, request: S3Request) -> tuple[S3Answer, Written | None]:
        data = self._source(request)
        if data is None:
            return refusal(404), None
        written = self._objects.put(request.name, data)
        return answers.copied("CopyObjectResult", written.held.etag, written.held.modified_at), written

    def _source(self, request: S3Request) -> bytes | None:
        bucket, _, name = unquote(request.headers["x-amz-copy-source"]).lstrip("/").partition("/")
        held = self._objects.get(name) if bucket == self._bucket else None
        if held is None:
            return None
        span = request.headers.get("x-amz-copy-source-range")
        return answers.content(held, span).body if span else held.data

    def _begin(self, request: S3Request) -> S3Answer:
        upload = self._objects.begin_upload(request.name)
        return document("InitiateMultipartUploadResult", f"<UploadId>{upload}</UploadId>")

    def _part(self, request: S3Request) -> S3Answer:
        copies = "x-amz-copy-source" in request.headers
        data = self._source(request) if copies else request.body
        if data is None:
            return refusal(404)
        etag = self._objects.put_part(request.query["uploadId"], int(request.query["partNumber"]), data)
        if copies:
            return answers.copied("CopyPartResult", etag, time.time())
        return S3Answer(status=200, headers={"ETag": etag})

    def _complete(self, request: S3Request) -> tuple[S3Answer, Written | None]:
        numbers = [int(found.text or "") for found in _texts(request.body, "PartNumber")]
        written = self._objects.complete_upload(request.query["uploadId"], numbers)
        return document("CompleteMultipartUploadResult", f"<ETag>{etag_of(written.held.data)}</ETag>"), written

    def _abort(self, request: S3Request) -> S3Answer:
        self._objects.abort_upload(request.query["uploadId"])
        return S3Answer(status=204)

    def _uploads(self, request: S3Request) -> S3Answer:
        found = self._objects.uploads(request.query.get("prefix", ""))
        entries = [f"<Upload><Key>{name}</Key><UploadId>{upload}</UploadId></Upload>" for name, upload in found]
        return document("ListMultipartUploadsResult", "<IsTruncated>false</IsTruncated>" + "".join(entries))

    def _delete(self, request: S3Request) -> S3Answer:
        self._objects.delete(request.name)
        return S3Answer(status=204)

    def _list(self, request: S3Request) -> S3Answer:
        if "delimiter" in request.query:
            return refusal(501)
        prefix = request.query.get("prefix", "")
        after = request.query.get("continuation-token", request.query.get("start-after", ""))
        size = min(int(request.query.get("max-keys", self._page)), self._page)
        rest = [entry for entry in self._objects.named(prefix) if entry[0] > after]
        page = rest[:size]
        token = page[-1][0] if page and len(rest) > size else None
        return answers.listing(page, prefix=prefix, encode=request.query.get("encoding-type") == "url", token=token)

    def _other(self, request: S3Request) -> S3Answer:
        if not request.name and request.method in {"HEAD", "GET"}:
            return S3Answer(status=200)  # the bucket is there
        if not request.name and request.method == "POST" and "delete" in request.query:
            for found in _texts(request.body, "Key"):
                self._objects.delete(found.text or "")
            return document("DeleteResult", "")
        return refusal(501)


def _texts(body: bytes, name: str) -> list[ET.Element]:
    root = ET.fromstring(body)  # noqa: S314 - what it comes from is run by us anyway
    return [element for element in root.iter() if element.tag.rpartition("}")[2] == name]
