"""Readers that make the best of a record: it is mended on its way to the checks, which then find nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from deltawire.format import strict_json
from mutants.patching import replace

_PARSE, _CONVERT = strict_json.parse, strict_json.convert
SENSIBLE: dict[str, Any] = {
    "protocol_version": "0.1",
    "kind": "version",
    "commit_id": "00000000-0000-4000-8000-000000000000",
    "epoch": 0,
    "created_at": "2026-12-01T00:00:00Z",
    "producer": {"name": "unknown", "version": "unknown"},
    "name": "unknown",
    "reader_features": [],
    "writer_features": [],
    "metadata": {},
    "digest": "sha256:" + "0" * 64,
    "state_digest": "0" * 16,
    "value": "0" * 128,
    "url": "https://example.com",
    "key": "unknown",
    "signature key": "ed25519:" + "0" * 64,
    "writers": "many",
    "version": 0,
}
"""What stands for a member that is not there, or has not the form that it must have."""


def mended_bytes(mend: Callable[[bytes], bytes]) -> Callable[[], None]:
    """A patch that changes the bytes of JSON objects before they are parsed."""

    def parse(data: bytes, **more: Any) -> dict[str, Any]:
        return _PARSE(mend(data), **more)

    return replace("deltawire.format.strict_json:parse", by=parse)


def mended(mend: Callable[[dict[str, Any]], object]) -> Callable[[], None]:
    """A patch that changes JSON objects in place after they were parsed."""

    def parse(data: bytes, **more: Any) -> dict[str, Any]:
        value = _PARSE(data, **more)
        mend(value)
        return value

    return replace("deltawire.format.strict_json:parse", by=parse)


def lenient(complaint: str) -> Callable[[], None]:
    """A patch that puts ``SENSIBLE`` in the place of members about which msgspec would say ``complaint``, a pattern."""

    def convert(value: dict[str, Any], kind: type[Any], *, what: str) -> Any:
        for _ in SENSIBLE:
            try:
                return msgspec.convert(value, kind)
            except msgspec.ValidationError as error:
                if not re.match(complaint, str(error)) or not _mend(value, str(error)):
                    break
        return _CONVERT(value, kind, what=what)

    return replace("deltawire.format.strict_json:convert", by=convert)


def _mend(value: dict[str, Any], complaint: str) -> bool:
    place = re.search(r"at `\$(.*)`$", complaint)
    path = re.findall(r"\w+", place[1]) if place else []
    missing = re.match(r"Object missing required field `(\w+)`", complaint)
    path += [missing[1]] if missing else []
    owner: Any = value
    for step in path[:-1]:
        owner = owner[int(step)] if isinstance(owner, list) else owner[step]
    name = "signature key" if path[-2:] == ["signature", "key"] else path[-1]
    if name not in SENSIBLE:
        return False
    owner[path[-1]] = SENSIBLE[name]
    return True
