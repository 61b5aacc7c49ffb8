"""Making what an adapter said fit to be written down: it may hold anything that Python can read from JSON."""

from __future__ import annotations

import math
import re
from typing import Any

import msgspec

from deltawire_conformance.results import Results

_DEPTH = 40
_UNWRITABLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
"""What XML cannot hold, UTF-8 has no code for, or turns around the text behind it."""


def plain_text(text: str) -> str:
    """The text with such characters written as escapes."""
    return _UNWRITABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def plain_value(value: Any, depth: int = 0) -> Any:
    """A JSON value that every reader of JSON takes: I-JSON, and not nested without end."""
    if depth > _DEPTH:
        return "…"
    if isinstance(value, str):
        return plain_text(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 1 << 53:
        return str(value) if value.bit_length() <= 1024 else f"an integer of {value.bit_length():,} bits"
    if isinstance(value, dict):
        return {plain_text(str(name)): plain_value(member, depth + 1) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [plain_value(item, depth + 1) for item in value]
    return value


def plain_results(results: Results) -> dict[str, Any]:
    """All results as plain JSON values."""
    made: dict[str, Any] = plain_value(msgspec.to_builtins(results))
    return made
