"""SPEC.md as data: its fenced blocks, its marked tables, its requirements and its headings."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SPEC = ROOT / "SPEC.md"

_FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#{2,3} ((?:Appendix )?[0-9A-Z][0-9.]*) ", re.MULTILINE)
_DEFINED = re.compile(r"^ *(?:- |\d+\. )?\*\*([A-Z]{3}-\d+)\*\* ", re.MULTILINE)

Row = dict[str, str]


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the ``name=value`` tags behind it, its text."""

    language: str
    tags: dict[str, str]
    text: str


@cache
def text() -> str:
    return SPEC.read_text(encoding="utf-8")


@cache
def prose() -> str:
    """The text without its fenced blocks; lines keep their places."""
    return _FENCE.sub(lambda match: "\n" * match[0].count("\n"), text())


def blocks(tag: str) -> list[Block]:
    """Blocks that carry a tag."""
    found = []
    for match in _FENCE.finditer(text()):
        language, *rest = match[1].split() or [""]
        tags = dict(item.split("=", 1) for item in rest)
        if tag in tags:
            found.append(Block(language, tags, match[2]))
    return found


def block(tag: str, value: str) -> Block:
    """The one block that carries a tag of this value."""
    [found] = [block for block in blocks(tag) if block.tags[tag] == value]
    return found


def table(kind: str, name: str) -> list[Row]:
    """Rows of the table behind ``<!-- kind: name -->``, by column; code spans without their quotes."""
    marker = f"<!-- {kind}: {name} -->\n"
    assert text().count(marker) == 1, f"there must be one table marked {marker!r}"
    lines = text().split(marker)[1].lstrip("\n").split("\n\n")[0].splitlines()
    header, rule, *rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines]
    assert all(set(cell) == {"-"} for cell in rule), f"what follows {marker!r} is no table"
    assert all(len(row) == len(header) for row in rows), f"rows of different lengths behind {marker!r}"
    return [dict(zip(header, map(_plain, row), strict=True)) for row in rows]


def marked(kind: str) -> list[str]:
    """Names of all tables of a kind."""
    return re.findall(rf"^<!-- {kind}: (.*) -->$", text(), re.MULTILINE)


def headings() -> set[str]:
    """Numbers of sections and subsections."""
    return set(_HEADING.findall(prose()))


def requirements() -> list[tuple[str, str]]:
    """Identifiers in the order of the text, each with the number of the section that defines it."""
    found, section = [], ""
    for line in prose().splitlines():
        if heading := _HEADING.match(line):
            section = heading[1]
        if defined := _DEFINED.match(line):
            found.append((defined[1], section))
    return found


def paragraphs() -> list[tuple[str, str]]:
    """Paragraphs, list items and steps with the number of their section; tables, headings and blocks left out."""
    found: list[tuple[str, str]] = []
    section, current = "", ""
    for line in [*prose().splitlines(), ""]:
        starts = not line.strip() or re.match(r" *(- |\d+\. |\||#|<!--)", line)
        if starts and current:
            found.append((section, current))
            current = ""
        if heading := _HEADING.match(line):
            section = heading[1]
        if line.strip() and not re.match(r" *(\||#|<!--)", line):
            current += line.strip() + " "
    return found


def _plain(cell: str) -> str:
    return cell[1:-1] if re.fullmatch(r"`[^`]*`", cell) else cell
