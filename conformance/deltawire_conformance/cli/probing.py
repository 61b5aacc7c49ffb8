"""``deltawire-conformance probe``: whether a store keeps the guarantees of SPEC.md section 5."""

from __future__ import annotations

from typing import Annotated

import typer
from msgspec import to_builtins

from deltawire.cli.output import Column, print_json, print_line, print_table
from deltawire.store import open_store
from deltawire.store.probe import ProbeReport
from deltawire.store.probe import probe as probe_store
from deltawire_conformance.cli.options import AsJson

BROKEN = 1
"""Exit status when a guarantee was seen broken."""

_VERDICTS = {
    "many-writers": ("fit for any number of writers", "bold green"),
    "single-writer": ("fit for a single declared writer only (STR-3)", "bold yellow"),
    "unfit": ("not fit for a stream", "bold red"),
}


def probe(
    url: Annotated[str, typer.Argument(metavar="URL", help="A place where a stream could be.", show_default=False)],
    writers: Annotated[int, typer.Option(metavar="N", min=2, help="Writers that race for one object.")] = 16,
    rounds: Annotated[int, typer.Option(metavar="N", min=1, help="Races to run.")] = 3,
    single_writer: Annotated[  # noqa: FBT002 - typer makes options of these
        bool, typer.Option("--single-writer", help="Ask only for what a single writer needs.")
    ] = False,
    as_json: AsJson = False,  # noqa: FBT002
) -> None:
    """Try on a live store whether it keeps the guarantees of section 5, with the requirement that asks for each.

    Writes a few small objects below probe/ and deletes them again. Ends with 1 if a guarantee was broken.
    """
    report = probe_store(open_store(url), writers=writers, rounds=rounds)
    if as_json:
        print_json({"fit": report.fit, **to_builtins(report)})
    else:
        _print(report)
    if report.fit not in (("many-writers", "single-writer") if single_writer else ("many-writers",)):
        raise typer.Exit(BROKEN)


def _print(report: ProbeReport) -> None:
    columns = [Column("requirement"), Column("guarantee"), Column("kept"), Column("needed by"), Column("detail")]
    rows = [
        [result.requirement, result.name, "yes" if result.passed else "NO", result.needed_by, result.detail]
        for result in report.results
    ]
    print_table(columns, rows)
    verdict, style = _VERDICTS[report.fit]
    print_line(f"{report.url} is {verdict}", style=style)
