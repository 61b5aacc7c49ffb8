"""The face of the Hub: its API of buckets, and what resolves paths."""

from __future__ import annotations

import base64
import itertools
import json
import re
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote, urlencode

from tests.hub.emulator.accounts import Token
from tests.hub.emulator.asking import Answer, Asked, Refused, as_json, iso
from tests.hub.emulator.buckets import Bucket, Entry, InvalidKey, below, check_key
from tests.hub.emulator.state import State

_MOST_OPERATIONS = 1000
"""Of a batch: no client sends more."""
_MOST_PATHS = 2000
_MOST_ENTRIES = 5000
"""Of a page of a listing, whatever a client asks for."""
_BUCKET = re.compile(r"/api/buckets/([^/]+)/([^/]+)(?:/([^/]+)(?:/(.*))?)?", re.DOTALL)
_RESOLVE = re.compile(r"/buckets/([^/]+/[^/]+)/resolve/(.+)", re.DOTALL)


class HubFace:
    """The Hub as HTTP.

    Args:
        state: what is behind it.
        endpoint: under which clients reach it.
        bytes_endpoint: under which they reach what serves bytes: another host, so that no client sends its token there.
        cas_endpoint: under which they reach the CAS.
    """

    def __init__(self, state: State, *, endpoint: str, bytes_endpoint: str, cas_endpoint: str) -> None:
        self._state = state
        self._endpoint = endpoint
        self._bytes_endpoint = bytes_endpoint
        self._cas_endpoint = cas_endpoint
        self._serial = itertools.count()
        self._routes: dict[tuple[str, str | None], Callable[[Asked, str, str], Answer]] = {
            ("POST", None): self._create,
            ("GET", None): self._info,
            ("DELETE", None): self._delete,
            ("GET", "tree"): self._tree,
            ("POST", "paths-info"): self._paths_info,
            ("POST", "batch"): self._batch,
            ("GET", "xet-read-token"): self._xet_token,
            ("GET", "xet-write-token"): self._xet_token,
        }

    def answer(self, asked: Asked) -> Answer:
        """Do what is asked. Raises Refused."""
        token = self._state.token(asked)
        who = asked.client if token is None else token.user
        headers = self._state.rates.count("resolvers" if asked.kind == "resolve" else "api", who)
        answer = self._routed(asked, token)
        return Answer(status=answer.status, headers={**answer.headers, **headers}, body=answer.body)

    def _routed(self, asked: Asked, token: Token | None) -> Answer:
        if found := _RESOLVE.fullmatch(asked.path):
            if asked.method not in {"GET", "HEAD"}:
                raise Refused(405, "Method not allowed")
            return self._resolve(asked, found[1], found[2])
        if asked.path == "/api/whoami-v2":
            return self._whoami(token)
        if found := _BUCKET.fullmatch(asked.path):
            namespace, name, verb, rest = found.groups()
            route = self._routes.get((asked.method, verb))
            if route is not None:
                return route(asked, f"{self._named(namespace, token)}/{name}", rest or "")
        raise Refused(404, f"There is no {asked.line}")

    def _named(self, namespace: str, token: Token | None) -> str:
        return token.user if namespace == "me" and token is not None else namespace

    def _whoami(self, token: Token | None) -> Answer:
        if token is None:
            raise Refused(401, "Invalid username or password.")
        organizations = [{"type": "org", "name": name} for name in token.organizations]
        role = "write" if token.write else "read"
        access = {"type": "access_token", "accessToken": {"displayName": "test", "role": role}}
        return as_json({"type": "user", "name": token.user, "orgs": organizations, "auth": access})

    # Buckets

    def _create(self, asked: Asked, name: str, rest: str) -> Answer:
        state = self._state
        state.may_write(name.partition("/")[0], state.token(asked))
        url = f"{self._endpoint}/buckets/{name}"
        private = _object(asked.body or b"{}").get("visibility") == "private"
        with state.lock:
            if name in state.buckets:
                return as_json({"error": f"You already created this bucket: {name}", "url": url}, status=409)
            state.buckets[name] = Bucket(name=name, private=private)
        return as_json({"url": url, "name": name})

    def _info(self, asked: Asked, name: str, rest: str) -> Answer:
        with self._state.lock:
            bucket = self._bucket(asked, name)
            return as_json(
                {
                    "id": name,
                    "private": bucket.private,
                    "createdAt": iso(bucket.created_at),
                    "updatedAt": iso(bucket.updated_at),
                    "size": sum(entry.size for entry in bucket.entries.values()),
                    "totalFiles": len(bucket.entries),
                }
            )

    def _delete(self, asked: Asked, name: str, rest: str) -> Answer:
        with self._state.lock:
            self._bucket(asked, name, write=True)
            del self._state.buckets[name]
        return as_json({})

    def _bucket(self, asked: Asked, name: str, *, write: bool = False) -> Bucket:
        return self._state.bucket(name, self._state.token(asked), write=write)

    # Listings

    def _tree(self, asked: Asked, name: str, prefix: str) -> Answer:
        recursive = asked.query.get("recursive", "true").lower() != "false"
        size = min(max(int(asked.query.get("limit", self._state.options.page_size)), 1), _MOST_ENTRIES)
        after = base64.urlsafe_b64decode(asked.query.get("cursor", "")).decode()
        with self._state.lock:
            entries = self._state.shown(self._bucket(asked, name), asked)
            if recursive:
                level = None
            else:
                level = (
                    len(prefix) + 1 if any(path.startswith(prefix + "/") for path in entries) else prefix.rfind("/") + 1
                )
            found = [item for item in below(entries, prefix, directories_from=level) if item[0] > after]
        page, headers = found[:size], {}
        if len(found) > size:
            cursor = base64.urlsafe_b64encode(page[-1][0].encode()).decode()
            asked_again = urlencode({**asked.query, "limit": size, "cursor": cursor})
            headers["Link"] = f'<{self._endpoint}{quote(asked.path)}?{asked_again}>; rel="next"'
        return as_json([_listed(path, entry) for path, entry in page], headers=headers)

    def _paths_info(self, asked: Asked, name: str, rest: str) -> Answer:
        paths = _object(asked.body).get("paths")
        if not isinstance(paths, list) or len(paths) > _MOST_PATHS:
            raise Refused(400, f"paths is not a list of at most {_MOST_PATHS}")
        with self._state.lock:
            entries = self._state.shown(self._bucket(asked, name), asked)
            return as_json([_listed(path, entries[path]) for path in paths if path in entries])

    # Changes

    def _batch(self, asked: Asked, name: str, rest: str) -> Answer:
        operations = [_object(line) for line in asked.body.split(b"\n") if line.strip()]
        if len(operations) > _MOST_OPERATIONS:
            raise Refused(400, f"More than {_MOST_OPERATIONS} operations")
        with self._state.lock:
            bucket = self._bucket(asked, name, write=True)
            changes: dict[str, Entry | None] = {}
            failed = []
            for operation in operations:
                path = str(operation.get("path", ""))
                error = self._state.faults.of_operation(path) or self._operate(asked, bucket, operation, changes)
                if error is not None:
                    failed.append({"path": path, "error": error})
            if changes:
                bucket.write(changes)
        done = len(operations) - len(failed)
        report = {"success": not failed, "processed": len(operations), "succeeded": done, "failed": failed}
        return as_json(report, status=422 if failed and not done else 200)

    def _operate(
        self, asked: Asked, bucket: Bucket, operation: Mapping[str, Any], changes: dict[str, Entry | None]
    ) -> str | None:
        """Do an operation, to the changes; why not, if it cannot be done."""
        try:
            path = check_key(str(operation.get("path", "")))
        except InvalidKey:
            return "Invalid path"
        match operation.get("type"):
            case "deleteFile":
                there = changes.get(path, bucket.entries.get(path)) is not None
                if not there and self._state.options.refuse_missing_deletes:
                    return "File not found"
                changes[path] = None
            case "addFile" | "copyFile" as verb:
                if verb == "copyFile":
                    if operation.get("sourceRepoType") != "bucket":
                        return "Source not found"
                    try:
                        self._bucket(asked, str(operation.get("sourceRepoId")))
                    except Refused:
                        return "Source not found"
                entry = self._state.entry(
                    str(operation.get("xetHash")),
                    modified_at=_seconds(operation.get("mtime")),
                    content_type=operation.get("contentType"),
                )
                if entry is None:
                    return "Xet hash not found"
                changes[path] = entry
            case _:
                return "Unknown operation"
        return None

    # Content

    def _xet_token(self, asked: Asked, name: str, rest: str) -> Answer:
        kind = "write" if asked.path.endswith("xet-write-token") else "read"
        with self._state.lock:
            self._bucket(asked, name, write=kind == "write")
        expires_at = int(time.time() + self._state.options.xet_token_seconds)
        token = f"xet.{kind}.{expires_at}.{next(self._serial)}"
        headers = {
            "X-Xet-Cas-Url": self._cas_endpoint,
            "X-Xet-Access-Token": token,
            "X-Xet-Token-Expiration": str(expires_at),
        }
        return as_json({"casUrl": self._cas_endpoint, "exp": expires_at, "accessToken": token}, headers=headers)

    def _resolve(self, asked: Asked, name: str, path: str) -> Answer:
        with self._state.lock:
            entry = self._state.shown(self._bucket(asked, name), asked).get(path)
        if entry is None:
            raise Refused(404, "Entry not found", "EntryNotFound")
        links = (
            f'<{self._endpoint}/api/buckets/{name}/xet-read-token>; rel="xet-auth"',
            f'<{self._cas_endpoint}/v1/reconstructions/{entry.digest}>; rel="xet-reconstruction-info"',
        )
        headers = {
            "Location": f"{self._bytes_endpoint}/bytes/files/{entry.digest}?type={quote(entry.content_type or '')}",
            "X-Xet-Hash": entry.digest,
            "X-Linked-Size": str(entry.size),
            "X-Linked-ETag": entry.etag,
            "ETag": entry.etag,
            "Accept-Ranges": "bytes",
            "Link": ", ".join(links),
        }
        return Answer(status=302, headers=headers)


def xet_token_kind(token: str | None) -> str | None:
    """Whether a token for the CAS is for reading or for writing; None if it is no good, or none any more."""
    found = re.fullmatch(r"xet\.(read|write)\.(\d+)\.\d+", token or "")
    return found[1] if found and time.time() < int(found[2]) else None


def _object(data: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(data)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise Refused(400, "Not a JSON object")
    return found


def _seconds(milliseconds: object) -> float | None:
    return milliseconds / 1000 if isinstance(milliseconds, int | float) else None


def _listed(path: str, entry: Entry) -> Mapping[str, Any]:
    if path.endswith("/"):
        return {"type": "directory", "path": path[:-1], "uploadedAt": iso(entry.uploaded_at)}
    content_type = {} if entry.content_type is None else {"contentType": entry.content_type}
    return {
        "type": "file",
        "path": path,
        "size": entry.size,
        "xetHash": entry.digest,
        "mtime": iso(entry.modified_at),
        "uploadedAt": iso(entry.uploaded_at),
        **content_type,
    }
