"""Requests and their answers, whichever face of the Hub they are for."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from deltawire_conformance.simulator.answers import S3Answer as Answer

__all__ = ["Answer", "Asked", "Kind", "NotSatisfiable", "Refused", "as_json", "iso", "kind_of", "ranged", "span_of"]

Headers = Mapping[str, str]
Kind = Literal["api", "resolve", "cas", "bytes", "s3", "control"]
"""To what a request belongs: the Hub's API, its resolver, the CAS, what serves bytes, the gateway; the last is ours."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A request."""

    method: str
    path: str
    """Decoded."""
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """By name in lower case."""
    body: bytes = field(repr=False)
    client: str
    """The address it came from."""

    @property
    def kind(self) -> Kind:
        """To what it belongs."""
        return kind_of(self.path)

    @property
    def line(self) -> str:
        """What faults are matched with: ``METHOD path``."""
        return f"{self.method} {self.path}"

    @property
    def bearer(self) -> str | None:
        """The token that it has, if any."""
        scheme, _, token = self.headers.get("authorization", "").partition(" ")
        return token if scheme == "Bearer" else None


class Refused(Exception):  # noqa: N818 - an answer, not an error
    """The Hub, or the CAS, says no."""

    def __init__(
        self, status: int, message: str, code: str | None = None, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        named = {"X-Error-Message": message, **({"X-Error-Code": code} if code else {}), **(headers or {})}
        self.answer = as_json({"error": message}, status=status, headers=named)


class NotSatisfiable(Exception):  # noqa: N818 - an answer, not an error
    """A range that there is none of."""


def kind_of(path: str) -> Kind:
    """To what a path belongs."""
    first, _, rest = path.lstrip("/").partition("/")
    kinds: Mapping[str, Kind] = {"s3": "s3", "cas": "cas", "bytes": "bytes", "_emulator": "control"}
    return "resolve" if first == "buckets" and "/resolve/" in rest else kinds.get(first, "api")


def as_json(content: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
    """An answer in JSON."""
    named = {"Content-Type": "application/json", **(headers or {})}
    return Answer(status=status, headers=named, body=json.dumps(content).encode())


def span_of(header: str | None, size: int) -> tuple[int, int] | None:
    """The range that a ``Range`` header means: first byte, and after the last; None if it means none.

    Raises:
        NotSatisfiable: there are no such bytes.
    """
    unit, _, value = (header or "").partition("=")
    first, dash, last = value.partition("-")
    if unit != "bytes" or not dash or not (first + last).isdecimal():
        return None
    begin, end = (int(first), int(last) + 1 if last else size) if first else (max(size - int(last), 0), size)
    if begin >= min(end, size):
        raise NotSatisfiable
    return begin, min(end, size)


def iso(seconds: float) -> str:
    """A time since the epoch, as all faces write it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def ranged(content: Callable[[int, int], bytes], span: tuple[int, int] | None, size: int, headers: Headers) -> Answer:
    """All of some content, or a range of it."""
    if span is None:
        return Answer(status=200, headers=headers, body=content(0, size))
    begin, end = span
    told = {**headers, "Content-Range": f"bytes {begin}-{end - 1}/{size}"}
    return Answer(status=206, headers=told, body=content(begin, end))
