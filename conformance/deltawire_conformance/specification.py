"""SPEC.md as data: the text of each requirement, the test vectors and the examples."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from deltawire_conformance.resources import SPEC

_FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_DEFINED = re.compile(r"^( *)(?:- |\d+\. )?\*\*([A-Z]{3}-\d+)\*\* ")
_HEADING = re.compile(r"^#{2,3} (.*)$", re.MULTILINE)
_MARK = re.compile(r"^<!-- vectors: (.*) -->\n", re.MULTILINE)
_SPANS = re.compile(r"`[^`]*`(?:<br>`[^`]*`)*")


@dataclass(frozen=True, kw_only=True)
class Vectors:
    """A table of appendix A."""

    name: str
    section: str
    """Heading of its section, such as ``A.6 Positions``."""
    before: str
    """What stands before the table."""
    rows: list[dict[str, Any]]
    after: str
    """What stands behind it, up to the next table or section: sometimes a vector that is no row."""


@dataclass(frozen=True, kw_only=True)
class Block:
    """A fenced block with a tag: bytes in hexadecimal, or JSON."""

    language: str
    name: str
    data: bytes


@cache
def _text() -> str:
    return SPEC.read_text(encoding="utf-8")


@cache
def requirement_texts() -> dict[str, str]:
    """The text of each requirement by its identifier, on one line, without the identifier."""
    found: dict[str, str] = {}
    current: str | None = None
    for line in _FENCE.sub("", _text()).splitlines():
        if defined := _DEFINED.match(line):
            current = defined[2]
            found[current] = line[defined.end() :].strip()
        elif not line.strip() or line.startswith(("#", "|", "<!--", "- ")) or re.match(r"\d+\. ", line):
            current = None
        elif current is not None:
            found[current] += " " + line.strip()
    return found


@cache
def section_of(requirement: str) -> str:
    """Heading of the section that defines a requirement; empty if none does."""
    at = _text().find(f"**{requirement}** ")
    headings = [match[1] for match in _HEADING.finditer(_text(), 0, max(at, 0))]
    return headings[-1] if headings else ""


def vector_tables() -> Iterator[Vectors]:
    """The tables of appendix A."""
    for match in _MARK.finditer(_text()):
        table, _, rest = _text()[match.end() :].lstrip("\n").partition("\n\n")
        lines = table.splitlines()
        header, _, *rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines]
        before = _text()[: match.start()]
        heading = list(_HEADING.finditer(before))[-1]
        last = re.split(r"^(?:\|.*|```)$", before[heading.end() :], flags=re.MULTILINE)[-1]
        yield Vectors(
            name=match[1],
            section=heading[1],
            before=" ".join(last.split()),
            rows=[dict(zip(header, map(_value, row), strict=True)) for row in rows],
            after=" ".join(re.split(r"^(?:#|```|<!--)", rest, flags=re.MULTILINE)[0].split()),
        )


def vector_blocks() -> Iterator[Block]:
    """The hexadecimal and JSON blocks of appendix A, as bytes."""
    for language, name, text in _tagged("vector"):
        data = bytes.fromhex(text) if language == "hex" else text.rstrip("\n").encode()
        yield Block(language=language, name=name, data=data)


def examples() -> Iterator[Block]:
    """The records of section 8, without white space: the bytes whose digests are given there."""
    for language, name, text in _tagged("schema"):
        compact = json.dumps(json.loads(text), separators=(",", ":"), ensure_ascii=False)
        yield Block(language=language, name=name, data=compact.encode())


def _tagged(tag: str) -> Iterator[tuple[str, str, str]]:
    for match in _FENCE.finditer(_text()):
        language, *tags = match[1].split() or [""]
        for name, _, value in (item.partition("=") for item in tags):
            if name == tag:
                yield language, value, match[2]


def _value(cell: str) -> Any:
    """A cell: code as text, a list where it is one; streams by name; plain numbers as such."""
    if not _SPANS.fullmatch(cell):
        return int(cell) if re.fullmatch(r"-?[0-9]+", cell) else cell
    parts = [part.strip("`") for part in cell.split("<br>")]
    if all(re.fullmatch(r"[a-z]+(_\d)?=[0-9a-f]*", part) for part in parts):
        return dict(part.split("=") for part in parts)
    [part] = parts
    return json.loads(part) if part.startswith("[") else part
