"""What commands print on stdout: tables for people, JSON for programs, never both."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from rich.console import Console
from rich.text import Text

from deltawire.cli.errors import clean


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table; a ``width`` is needed only where rows are printed as they come."""

    title: str
    align: Literal["left", "right"] = "left"
    width: int = 0


def console() -> Console:
    """A console on the current stdout that wraps nothing: the terminal does, and a pipe should not."""
    return Console(file=sys.stdout, markup=False, highlight=False, emoji=False, soft_wrap=True)


def print_json(value: Any) -> None:
    """Print one JSON value on a line of its own and hand it on at once."""
    sys.stdout.write(json.dumps(value, ensure_ascii=False, allow_nan=False) + "\n")
    sys.stdout.flush()


def print_line(text: str = "", *, style: str = "") -> None:
    """Print text."""
    console().print(Text("\n".join(clean(line) for line in text.split("\n")), style=style))


def print_facts(facts: Mapping[str, str]) -> None:
    """Print names and values in two columns."""
    width = max(len(name) for name in facts)
    out = console()
    for name, value in facts.items():
        indented = ("\n" + " " * (width + 2)).join(clean(line) for line in value.split("\n"))
        out.print(Text.assemble((f"{name:<{width}}", "bold"), "  ", indented))


def print_table(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> None:
    """Print a table whose columns are as wide as they must be; names belong in the last one, which may run over."""
    widths = [
        max(len(cell) for cell in cells) for cells in zip([column.title for column in columns], *rows, strict=True)
    ]
    table = RunningTable([replace(column, width=width) for column, width in zip(columns, widths, strict=True)])
    for row in rows:
        table.add(*row)


class RunningTable:
    """A table whose rows are printed one by one, as they come; the header comes with the first."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self._columns = columns
        self._begun = False

    def add(self, *cells: str, below: str = "", style: str = "") -> None:
        """Print one row, and a line below it that belongs to it."""
        out = console()
        if not self._begun:
            out.print(Text(self._line([column.title for column in self._columns]), style="bold"))
            self._begun = True
        out.print(Text(self._line([clean(cell) for cell in cells])))
        if below:
            out.print(Text(" " * (self._columns[0].width + 2) + clean(below), style=style or "dim"))
        sys.stdout.flush()

    def _line(self, cells: Sequence[str]) -> str:
        padded = [
            f"{cell:>{column.width}}" if column.align == "right" else f"{cell:<{column.width}}"
            for column, cell in zip(self._columns, cells, strict=True)
        ]
        return "  ".join(padded).rstrip()
