"""Progress bars on stderr, for people only."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from deltawire.inspecting.history import Advance, no_progress


def wanted() -> bool:
    """Whether someone is there to see a bar."""
    return sys.stderr.isatty()


@contextmanager
def progress(what: str, total: int | None) -> Iterator[Advance]:
    """Show how many of ``total`` bytes are done while the block runs; nothing where stderr is no terminal."""
    if not wanted():
        yield no_progress
        return
    from rich.console import Console  # noqa: PLC0415 - only where it is shown
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn  # noqa: PLC0415

    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    with bar:
        task = bar.add_task(what, total=total)
        yield lambda count: bar.advance(task, count)
