"""``deltawire verify`` and ``deltawire probe``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from deltawire.cli.options import AsJson, Timeout, Trusted, Url

if TYPE_CHECKING:
    from deltawire.inspecting.verification import Verified
    from deltawire.store.probe import ProbeReport

Deep = Annotated[
    bool, typer.Option("--deep", help="Also rebuild every version in memory and compute its state digest.")
]
StoreUrl = Annotated[
    str,
    typer.Argument(metavar="URL", help="The store to try: any place where a stream could be.", show_default=False),
]
Writers = Annotated[int, typer.Option("--writers", metavar="N", min=2, help="Writers that race for one object.")]
Rounds = Annotated[int, typer.Option("--rounds", metavar="N", min=1, help="Races to run.")]
OneWriter = Annotated[bool, typer.Option("--single-writer", help="Ask only for what a single writer needs.")]

FOUND = 1
"""Exit status when something was found."""


def verify(
    url: Url,
    deep: Deep = False,  # noqa: FBT002 - typer makes options of these
    trust: Trusted = None,
    timeout: Timeout = None,
    as_json: AsJson = False,  # noqa: FBT002
) -> None:
    """Check everything in a stream: records, their chain, tensor tables, and every byte of data they name.

    Prints each finding with its error code and the object in which it shows, and ends with 1 if there is any. Without
    --trust a signed stream is held to the keys that it names itself.
    """
    from msgspec import to_builtins  # noqa: PLC0415 - heavy imports wait until a command runs

    from deltawire.cli.output import print_json  # noqa: PLC0415
    from deltawire.cli.progress import progress, wanted  # noqa: PLC0415
    from deltawire.inspecting.verification import bytes_to_verify, verify_stream  # noqa: PLC0415
    from deltawire.store import open_store  # noqa: PLC0415

    store = open_store(url)
    total = bytes_to_verify(store) if wanted() else None
    with progress("verify", total) as advance:
        result = verify_stream(store, deep=deep, trust=trust, timeout=timeout, advance=advance)
    if as_json:
        print_json({"sound": result.sound, **to_builtins(result)})
    else:
        _print_verified(result)
    if not result.sound:
        raise typer.Exit(FOUND)


def _print_verified(result: Verified) -> None:
    from deltawire.cli import units  # noqa: PLC0415
    from deltawire.cli.output import print_line  # noqa: PLC0415

    for finding in result.findings:
        print_line(f"{finding.code}  {finding.key}", style="bold red")
        print_line("    " + finding.message.removeprefix(finding.key).lstrip())
    for note in result.notes:
        print_line(f"note: {note}", style="dim")
    looked = (
        f"{units.plural(result.versions, 'version')}, {units.plural(result.anchors, 'anchor')},"
        f" {units.plural(result.spans, 'span')}, {units.plural(result.objects, 'data object')}"
        f" ({units.size(result.bytes)})"
    )
    if result.deep:
        looked += f", {units.plural(result.states, 'state')} rebuilt"
    verdict = "sound" if result.sound else units.plural(len(result.findings), "finding")
    print_line(f"{verdict}: {looked}", style="bold green" if result.sound else "bold red")


def probe(
    url: StoreUrl,
    writers: Writers = 16,
    rounds: Rounds = 3,
    single_writer: OneWriter = False,  # noqa: FBT002 - typer makes options of these
    as_json: AsJson = False,  # noqa: FBT002
) -> None:
    """Try on a live store whether it keeps the promises that a stream rests on.

    Writes a few small objects under a scratch prefix and deletes them again. Ends with 1 if a promise was broken.
    """
    from msgspec import to_builtins  # noqa: PLC0415 - heavy imports wait until a command runs

    from deltawire.cli.output import print_json  # noqa: PLC0415
    from deltawire.store import open_store  # noqa: PLC0415
    from deltawire.store.probe import probe  # noqa: PLC0415

    store = open_store(url)
    report = probe(store, writers=writers, rounds=rounds)
    alternative = store.alternative if report.fit == "single-writer" else ""
    if as_json:
        print_json({"fit": report.fit, **to_builtins(report), "alternative": alternative or None})
    else:
        _print_probe(report, alternative)
    enough = ("many-writers", "single-writer") if single_writer else ("many-writers",)
    if report.fit not in enough:
        raise typer.Exit(FOUND)


_VERDICTS: dict[str, tuple[str, Any]] = {
    "many-writers": ("fit for any number of writers", "bold green"),
    "single-writer": ("fit for a single declared writer only: publish with --single-writer", "bold yellow"),
    "unfit": ("not fit for a stream", "bold red"),
}


def _print_probe(report: ProbeReport, alternative: str) -> None:
    from deltawire.cli.output import Column, print_line, print_table  # noqa: PLC0415

    columns = [Column("promise"), Column("rule"), Column("kept"), Column("detail")]
    rows = [
        [result.name, result.requirement, "yes" if result.passed else "NO", result.detail] for result in report.results
    ]
    print_table(columns, rows)
    verdict, style = _VERDICTS[report.fit]
    print_line(f"{report.url} is {verdict}", style=style)
    if alternative:
        print_line(alternative)
