"""What is said while cases run: a bar on a terminal, a line now and then elsewhere, and each failure at once."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from deltawire.cli.errors import clean
from deltawire_conformance.results import CaseResult

_EVERY = 10.0
"""Seconds between two lines of progress."""
_BAD = {"fail", "error", "unexpected_pass"}


@contextmanager
def telling(total: int, *, quiet: bool) -> Iterator[Callable[[CaseResult], None]]:
    """Say how far a run is while the block runs; what it yields is told of each result, from any thread.

    Args:
        total: cases to come.
        quiet: keep failures to oneself, for whoever prints all of them in another form.
    """
    errors = Console(stderr=True, markup=False, highlight=False, emoji=False, soft_wrap=True)
    if errors.is_terminal:
        columns = (TextColumn("{task.description}"), BarColumn(bar_width=24), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=errors, transient=True) as bar:
            task = bar.add_task("cases", total=total)

            def step(result: CaseResult) -> None:
                if not quiet and result.status in _BAD:
                    bar.console.print(_lines(result))
                bar.advance(task)

            yield step
    else:
        yield _Plain(total, quiet=quiet).tell


class _Plain:
    """Progress where nobody sees a bar move."""

    def __init__(self, total: int, *, quiet: bool) -> None:
        self._total, self._quiet = total, quiet
        self._done = self._failed = 0
        self._last = time.monotonic()
        self._lock = threading.Lock()

    def tell(self, result: CaseResult) -> None:
        """Take note of a result."""
        with self._lock:
            self._done += 1
            bad = result.status in _BAD
            self._failed += bad
            if bad and not self._quiet:
                sys.stdout.write(_lines(result).plain + "\n")
                sys.stdout.flush()
            if time.monotonic() - self._last >= _EVERY:
                self._last = time.monotonic()
                failed = f", {self._failed} failed" if self._failed else ""
                sys.stderr.write(f"{self._done} of {self._total} cases{failed}\n")
                sys.stderr.flush()


def _lines(result: CaseResult) -> Text:
    title = f"{result.status.replace('_', ' ').upper()}  {result.id} ({result.store}): {result.title}"
    text = Text(clean(title), style="bold red")
    for problem in result.problems:
        text.append(f"\n      {clean(problem)}", style="not bold default")
    return text
