"""Keys that are taken for what they are not."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import Any

from mutants import Mutant
from mutants.mending import lenient, mended
from mutants.patching import replace


def cases(names: str) -> tuple[str, ...]:
    """Ids of cases of this area."""
    return tuple(f"keys/{name}" for name in names.split())


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    for member in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _objects(member)


def _resolve(value: dict[str, Any]) -> None:
    for found in _objects(value):
        if isinstance(found.get("key"), str):
            key = posixpath.normpath("/" + found["key"].replace("\\", "/").strip())
            found["key"] = re.sub(r"^.*(?=data/0)", "", key)


def _any_number(key: str) -> int | None:
    match = re.search(r"/([0-9]+)\.json$", key)
    return None if match is None else int(match[1])


MUTANTS = [
    Mutant(
        name="resolved-keys",
        what="resolves keys as paths",
        patch=mended(_resolve),
        caught_by=cases(
            "two-dots leading-slash double-slash backslash dot-segment hidden-segment space not-ascii "
            "table-key file-key"
        ),
    ),
    Mutant(
        name="any-key",
        what="looks for objects under keys that there cannot be",
        patch=lenient("Expected `str`"),
        caught_by=cases("513-bytes"),
    ),
    Mutant(
        name="any-number",
        what="takes any digits in a listing for a version",
        patch=replace("deltawire.format.keys:parse_numbered", by=_any_number),
        caught_by=cases("unknown-keys short-numbers"),
    ),
]
