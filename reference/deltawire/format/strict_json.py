"""I-JSON in and out: UTF-8, no duplicate names, no NaN, bounded depth (SPEC.md section 7.1, RFC 7493)."""

from __future__ import annotations

import hashlib
import json
import math
from functools import cache
from typing import Any, NoReturn, TypeVar

import msgspec

from deltawire.errors import LimitExceededError, MalformedRecordError
from deltawire.limits import Limits

T = TypeVar("T")

JSON = None | bool | int | float | str | list[Any] | dict[str, Any]
"""Any JSON value."""


def sha256(data: bytes | bytearray | memoryview) -> str:
    """Digest of exact bytes, written ``sha256:`` and 64 lower-case hex digits (DSC-2)."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise MalformedRecordError("an object names a member twice")
    return found


def _no_constant(name: str) -> NoReturn:
    raise MalformedRecordError(f"{name} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise MalformedRecordError(f"{text[:40]} is beyond every double")
    return value


def _within_double(text: str) -> int:
    value = int(text)
    try:
        float(value)
    except OverflowError:
        raise MalformedRecordError(f"{text[:40]} is beyond every double") from None
    return value


def _check_unicode(value: JSON, data: bytes) -> None:
    # Half a surrogate pair can only come from an escape: UTF-8 has no code for it. JSN-1
    if b"\\u" in data:
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise MalformedRecordError("a string is not valid Unicode") from None


def _check_depth(value: JSON, limit: int) -> None:
    level: list[Any] = [value]
    for _ in range(limit):
        level = [
            child
            for item in level
            for child in (item.values() if isinstance(item, dict) else item)
            if isinstance(child, (dict, list))
        ]
        if not level:
            return
    raise LimitExceededError(f"JSON is nested deeper than the limit json_depth = {limit}")


def parse(data: bytes, *, what: str, limits: Limits) -> dict[str, Any]:
    """Parse one JSON object. JSN-1, JSN-2

    Raises:
        MalformedRecordError: it is not I-JSON, or not an object.
        LimitExceededError: it is nested too deeply.
    """
    try:
        text = data.decode("utf-8")
        value = json.loads(
            text,
            object_pairs_hook=_unique,
            parse_constant=_no_constant,
            parse_float=_finite,
            parse_int=_within_double,
        )
    except MalformedRecordError as error:
        raise MalformedRecordError(f"{what}: {error}") from None
    except RecursionError:
        raise LimitExceededError(f"{what} is nested deeper than the limit json_depth = {limits.json_depth}") from None
    except ValueError as error:  # UnicodeDecodeError, JSONDecodeError, integers with too many digits
        raise MalformedRecordError(f"{what} is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise MalformedRecordError(f"{what} is not a JSON object")
    _check_depth(value, limits.json_depth)
    try:
        _check_unicode(value, data)
    except MalformedRecordError as error:
        raise MalformedRecordError(f"{what}: {error}") from None
    return value


class _Number(str):
    """A number as it is written."""


def member_bytes(data: bytes, member: str) -> int:
    """Size as compact JSON of a member of an object that ``parse`` has accepted.

    That is UTF-8 without white space, with the fewest escapes and numbers as they are written (SPEC.md section 14).
    """
    return _compact_bytes(json.loads(data, parse_float=_Number, parse_int=_Number)[member])


def _compact_bytes(value: Any) -> int:
    if isinstance(value, _Number):
        return len(value)
    if isinstance(value, dict):
        members = sum(_compact_bytes(name) + 1 + _compact_bytes(item) for name, item in value.items())
        return 2 + members + max(len(value) - 1, 0)
    if isinstance(value, list):
        return 2 + sum(map(_compact_bytes, value)) + max(len(value) - 1, 0)
    return len(json.dumps(value, ensure_ascii=False).encode())


def convert(value: dict[str, Any], kind: type[T], *, what: str) -> T:
    """Give a parsed object its type; members that the type does not know are ignored (VER-4).

    Raises:
        MalformedRecordError: a member is missing or has the wrong shape.
    """
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise MalformedRecordError(f"{what}: {error}") from None


@cache
def _members(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    """Names on the wire; msgspec evaluates the annotations again whenever it is asked."""
    return tuple(member.encode_name for member in msgspec.structs.fields(kind))


def refuse_null(value: dict[str, Any], kind: type[msgspec.Struct], *, what: str) -> None:
    """An absent member is left out; null stands for nothing. JSN-4

    Raises:
        MalformedRecordError: a member that the type knows is null.
    """
    for name in _members(kind):
        if value.get(name, name) is None:
            raise MalformedRecordError(f"{what}: {name} is null")


def encode(record: msgspec.Struct) -> bytes:
    """Write a record as JSON; optional members that are absent are left out."""
    return msgspec.json.encode(record)


def unknown(record: dict[str, Any], kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The members of a record that its type does not know (VER-5)."""
    return {name: value for name, value in record.items() if name not in kind.__struct_fields__}


def merge(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """Lay a record over an older one of the same key and keep the members of it that we do not know (VER-5)."""
    return {**old, **new}
