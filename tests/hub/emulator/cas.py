"""The faces of Xet: the CAS, and what serves bytes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import partial

from tests.hub.emulator.asking import Answer, Asked, NotSatisfiable, Refused, as_json, ranged, span_of
from tests.hub.emulator.hub import xet_token_kind
from tests.hub.emulator.state import State
from tests.hub.emulator.xorbs import Malformed

_HASH = "([0-9a-f]{64})"
_BYTES = re.compile(f"/bytes/(files|xorbs)/{_HASH}")


class CasFace:
    """The CAS as HTTP.

    Args:
        state: what is behind it.
        prefix: of its paths.
        bytes_endpoint: under which clients reach what serves bytes.
    """

    def __init__(self, state: State, *, prefix: str, bytes_endpoint: str) -> None:
        self._content = state.content
        self._xorbs_url = f"{bytes_endpoint}/bytes/xorbs/"
        routes: tuple[tuple[str, str, str, Callable[[Asked, str], Answer]], ...] = (
            ("GET", f"/v1/chunks/[^/]+/{_HASH}", "read", self._chunk),
            ("POST", f"/v1/xorbs/[^/]+/{_HASH}", "write", self._xorb),
            ("POST", "/v1/shards()", "write", self._old_shard),
            ("POST", "/v2/shards()", "write", self._shard),
            ("GET", f"/v2/reconstructions/{_HASH}", "read", self._plan),
            ("POST", "/v1/telemetry()", "read", self._telemetry),
        )
        self._routes = [
            (re.compile(f"{method} {re.escape(prefix)}{path}"), right, route) for method, path, right, route in routes
        ]

    def answer(self, asked: Asked) -> Answer:
        """Do what is asked. Raises Refused."""
        kind = xet_token_kind(asked.bearer)
        if kind is None:
            raise Refused(401, "The token is missing, or of no use any more")
        for pattern, right, route in self._routes:
            if found := pattern.fullmatch(asked.line):
                if right == "write" and kind != "write":
                    raise Refused(403, "The token is for reading")
                return route(asked, found[1])
        raise Refused(404, f"There is no {asked.line}")

    def _chunk(self, asked: Asked, chunk: str) -> Answer:
        found = self._content.neighbours(chunk)
        if found is None:
            raise Refused(404, "No such chunk")
        return Answer(status=200, headers={"Content-Type": "application/octet-stream"}, body=found)

    def _xorb(self, asked: Asked, name: str) -> Answer:
        try:
            return as_json({"was_inserted": self._content.add_xorb(name, asked.body)})
        except Malformed as error:
            raise Refused(400, str(error)) from None

    def _shard(self, asked: Asked, rest: str) -> Answer:
        try:
            self._content.add_shard(asked.body)
            events = [{"type": "validating", "verified": 1, "total": 1}, {"type": "result"}]
        except Malformed as error:
            events = [{"type": "error", "message": str(error), "retryable": False}]
        lines = "".join(json.dumps(event) + "\n" for event in events)
        return Answer(status=200, headers={"Content-Type": "application/x-ndjson"}, body=lines.encode())

    def _old_shard(self, asked: Asked, rest: str) -> Answer:
        """For the client in JavaScript, `@huggingface/hub`."""
        try:
            self._content.add_shard(asked.body)
        except Malformed as error:
            raise Refused(400, str(error)) from None
        return as_json({"result": 1})

    def _plan(self, asked: Asked, digest: str) -> Answer:
        size = self._content.size(digest)
        if size is None:
            raise Refused(404, "No such file")
        try:
            begin, end = span_of(asked.headers.get("range"), size) or (0, size)
        except NotSatisfiable:
            raise Refused(416, "Range not satisfiable") from None
        return as_json(self._content.plan(digest, begin, end, self._xorbs_url))

    def _telemetry(self, asked: Asked, rest: str) -> Answer:
        return as_json({})


class BytesFace:
    """What serves bytes to whoever knows the URL, as HTTP."""

    def __init__(self, state: State) -> None:
        self._content = state.content

    def answer(self, asked: Asked) -> Answer:
        """Do what is asked. Raises Refused."""
        if "authorization" in asked.headers:
            raise Refused(400, "The URL says who may read; there must be no Authorization header")
        found = _BYTES.fullmatch(asked.path)
        if found is None or asked.method not in {"GET", "HEAD"}:
            raise Refused(404, f"There is no {asked.line}")
        try:
            return self._file(asked, found[2]) if found[1] == "files" else self._xorb(asked, found[2])
        except NotSatisfiable:
            raise Refused(416, "Range not satisfiable") from None
        except KeyError:
            raise Refused(404, f"There is no {found[2]}") from None

    def _file(self, asked: Asked, digest: str) -> Answer:
        size = self._content.size(digest)
        if size is None:
            raise KeyError(digest)
        span = span_of(asked.headers.get("range"), size)
        return ranged(partial(self._content.read, digest), span, size, _headers(asked, digest))

    def _xorb(self, asked: Asked, name: str) -> Answer:
        data = self._content.xorb(name)
        if data is None:
            raise KeyError(name)
        span = span_of(asked.headers.get("range"), len(data))
        return ranged(lambda begin, end: data[begin:end], span, len(data), _headers(asked, name))


def _headers(asked: Asked, name: str) -> Mapping[str, str]:
    content_type = asked.query.get("type") or "application/octet-stream"
    return {"Content-Type": content_type, "ETag": f'"{name}"', "Accept-Ranges": "bytes"}
