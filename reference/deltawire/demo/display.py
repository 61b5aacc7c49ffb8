"""What is shown while the demo runs: bars on a terminal, lines elsewhere."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol, Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Column

from deltawire.cli import units
from deltawire.demo.evidence import FOLLOWER, LATE_JOINER, times_smaller
from deltawire.demo.messages import Committed, Loaded, Verified

_STYLES = {"trainer": "magenta", FOLLOWER: "cyan", LATE_JOINER: "blue", "loader": "green"}


class Display(Protocol):
    """Who is told how the demo goes."""

    def note(self, who: str, text: str) -> None:
        """Something that happens once."""

    def loaded(self, message: Loaded) -> None:
        """The trainer has its model."""

    def committed(self, message: Committed) -> None:
        """A version is published."""

    def verified(self, who: str, message: Verified) -> None:
        """A follower has proved a version."""


class ConsoleDisplay:
    """Shows a run on a console: bars that move below the notes if it is a terminal, else a line for everything.

    Use as a context manager.
    """

    def __init__(self, console: Console, *, steps: int) -> None:
        self._console = console
        self._started = time.monotonic()
        self._live = console.is_terminal and not console.is_dumb_terminal
        self._progress = Progress(
            TextColumn("{task.fields[who]}", table_column=Column(width=11, no_wrap=True)),
            BarColumn(bar_width=16),
            MofNCompleteColumn(table_column=Column(width=5, no_wrap=True)),
            TextColumn("{task.fields[text]}", table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis")),
            console=console,
            expand=True,
            transient=True,
        )
        self._bars = {
            who: self._progress.add_task("", total=steps, who=f"[{_STYLES[who]}]{who}[/]", text=text)
            for who, text in (
                ("trainer", "loads torch and the model"),
                (FOLLOWER, "waits for a first version"),
                (LATE_JOINER, "comes later"),
            )
        }
        self._context: AbstractContextManager[object] = self._progress if self._live else nullcontext()

    def __enter__(self) -> Self:
        self._context.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._context.__exit__(None, None, None)

    def note(self, who: str, text: str) -> None:
        seconds = time.monotonic() - self._started
        console = self._progress.console if self._live else self._console
        console.print(
            f"[dim]{seconds:5.1f} s[/]  [{_STYLES[who]}]{who:<11}[/]  {escape(text)}", highlight=False, soft_wrap=True
        )
        if who in self._bars:
            self._progress.update(self._bars[who], text=escape(text))

    def loaded(self, message: Loaded) -> None:
        size = units.size(message.state_bytes)
        self.note("trainer", f"has its {message.kind}: {message.elements / 1e6:,.1f} M elements, {size} in bf16")

    def committed(self, message: Committed) -> None:
        if message.version == 0:
            text = f"version 0: the whole model, {units.size(message.stored_bytes)}"
        else:
            size, smaller = units.size(message.stored_bytes), times_smaller([message])
            text = f"version {message.version}: {size}, {smaller:,.0f} times less"
        self._step("trainer", message.version, text, once=message.version == 0)

    def verified(self, who: str, message: Verified) -> None:
        if message.resumed:
            text = f"holds version {message.version} again, digest {message.digest}"
        elif message.steps[0] != "delta":
            text = f"version {message.version} by {path_in_words(message)}"
        else:
            text = f"version {message.version}: digest {message.digest}"
        self._step(who, message.version, text, once=message.resumed or message.steps[0] != "delta")

    def _step(self, who: str, version: int, text: str, *, once: bool) -> None:
        if once or not self._live:
            self.note(who, text)
        self._progress.update(self._bars[who], completed=version, text=escape(text))


def path_in_words(report: Verified) -> str:
    """What a follower took to get to a version."""
    deltas = sum(step == "delta" for step in report.steps)
    start = [] if deltas == len(report.steps) else [f"the {report.steps[0]} of version {report.version - deltas}"]
    if deltas:
        start.append("1 delta" if deltas == 1 else f"{deltas} deltas")
    return " and ".join(start)
