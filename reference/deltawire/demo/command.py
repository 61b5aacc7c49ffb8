"""The command ``deltawire demo``. Importing it loads neither torch nor the library's kernels."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from deltawire.errors import InvalidArgumentError, ObjectNotFoundError

_PIPED_WIDTH = 120
_INTERVAL = 0.05
_HUB_INTERVAL = 0.5
"""The Hub counts requests: two followers at this pace use a quarter of what a free account has."""


def demo(
    *,
    steps: Annotated[int, typer.Option(min=3, max=10_000, help="Optimizer steps to train and publish.")] = 8,
    store: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Where the stream goes, such as hf://buckets/ME/BUCKET/demo; a temporary folder if not given.",
        ),
    ] = None,
    model: Annotated[
        Path | None, typer.Option(metavar="PATH", help="A Hugging Face checkpoint directory to train instead.")
    ] = None,
    lr: Annotated[float, typer.Option(help="Learning rate of AdamW.")] = 3e-6,
    anchor_every: Annotated[
        int | None, typer.Option(min=1, help="Versions from one anchor to the next; half the steps if not given.")
    ] = None,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds for everything.")] = 600.0,
    keep: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Keep the stream and the followed directory here.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Train a real model, publish every step, and prove that two followers hold it bit for bit.

    A trainer takes AdamW steps on all-MiniLM-L6-v2 and publishes its bf16 weights after each. One follower keeps a
    directory, is killed in the middle and started again; another joins late. The command ends with 1 if anything
    differs anywhere.
    """
    started = time.monotonic()
    if not 0 < lr < 1:
        raise InvalidArgumentError(f"a learning rate is above 0 and below 1, got {lr:g}")
    single = store is not None and _check_store(store)
    from deltawire.demo.checkpoint import find_checkpoint  # noqa: PLC0415 - only for those who run it
    from deltawire.demo.director import Director, Plan  # noqa: PLC0415
    from deltawire.demo.display import ConsoleDisplay  # noqa: PLC0415
    from deltawire.demo.processes import ProcessDiedError  # noqa: PLC0415
    from deltawire.demo.report import as_json as report_json  # noqa: PLC0415
    from deltawire.demo.report import print_report  # noqa: PLC0415

    checkpoint = find_checkpoint(model)
    folder = _folder(keep)
    try:
        plan = Plan(
            checkpoint=checkpoint,
            store=store or str(folder / "stream"),
            directory=folder / "followed",
            steps=steps,
            lr=lr,
            anchor_every=anchor_every or max(1, steps // 2),
            threads=max(1, min(8, os.cpu_count() or 1)),
            timeout=timeout,
            interval=_HUB_INTERVAL if _is_on_the_hub(store) else _INTERVAL,
        )
        shown = Console(stderr=True)
        shown.print(
            f"[bold]deltawire demo[/]  {checkpoint.name}, {steps} AdamW steps at lr {lr:g}\n[dim]{plan.store}[/]\n",
            highlight=False,
            soft_wrap=True,
        )
        if single:
            shown.print("[dim]one declared writer: this kind of store cannot tell two apart[/]\n", highlight=False)
        with ConsoleDisplay(shown, steps=steps) as display:
            evidence = Director(plan, display).run()
        seconds = time.monotonic() - started
        if as_json:
            typer.echo(json.dumps(report_json(evidence, plan, seconds)))
        else:
            print_report(_output(), evidence, plan, seconds)
        _say_what_stays(shown, plan.store if store else None, folder if keep else None)
    except ProcessDiedError as error:
        shown.print(error.tail, style="dim", highlight=False, markup=False, soft_wrap=True)
        raise
    finally:
        if keep is None:
            shutil.rmtree(folder, ignore_errors=True)
    if evidence.differences():
        raise typer.Exit(1)


def _check_store(url: str) -> bool:
    """See that a stream can begin there, before anything is started; and whether for a declared writer only. STR-3"""
    from deltawire.format.keys import STREAM  # noqa: PLC0415
    from deltawire.store import open_store  # noqa: PLC0415

    if url.partition("://")[0].lower() == "memory":
        raise InvalidArgumentError("the demo runs in several processes, which share no memory: give another store")
    store = open_store(url)
    with suppress(ObjectNotFoundError):
        store.head(STREAM)
        raise InvalidArgumentError(f"{url} holds a stream already; the demo begins one where there is none")
    return not store.guarantees.conditional_create


def _is_on_the_hub(url: str | None) -> bool:
    return url is not None and url.partition("://")[0].lower() == "hf"


def _folder(keep: Path | None) -> Path:
    if keep is None:
        return Path(tempfile.mkdtemp(prefix="deltawire-demo-"))
    keep = keep.resolve()
    if keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
        raise InvalidArgumentError(f"{keep} is there already; --keep makes a new directory")
    keep.mkdir(parents=True, exist_ok=True)
    return keep


def _say_what_stays(console: Console, store: str | None, folder: Path | None) -> None:
    from deltawire.store.hub_location import hub_location  # noqa: PLC0415

    if store is not None:
        seen = f"; in a browser: {hub_location(store).page}" if _is_on_the_hub(store) else ""
        console.print(f"The stream stays at {store}{seen}", highlight=False, soft_wrap=True, markup=False)
    if folder is not None:
        console.print(f"Kept: {folder}", highlight=False, soft_wrap=True, markup=False)


def _output() -> Console:
    """Standard output; wide enough for whole digests where no terminal limits it."""
    return Console(width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else _PIPED_WIDTH)
