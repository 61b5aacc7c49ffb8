"""``deltawire-conformance check``: a lint of any stream, written by anyone."""

from __future__ import annotations

from typing import Annotated

import typer
from msgspec import to_builtins

from deltawire.cli import units
from deltawire.cli.output import print_json, print_line
from deltawire.cli.progress import progress, wanted
from deltawire.inspecting.verification import bytes_to_verify
from deltawire.store import open_store
from deltawire_conformance.checking.checker import check_stream
from deltawire_conformance.checking.findings import CheckReport
from deltawire_conformance.cli.options import AsJson, Strict

FOUND = 1
"""Exit status when something was found."""

_STYLES = {"error": "bold red", "should": "yellow", "note": "dim"}


def check(
    url: Annotated[str, typer.Argument(metavar="URL", help="The stream's prefix.", show_default=False)],
    deep: Annotated[  # noqa: FBT002 - typer makes options of these
        bool, typer.Option("--deep", help="Also rebuild every state and look at every row.")
    ] = False,
    trust: Annotated[
        list[str] | None, typer.Option(metavar="KEY", help="A public key by which the stream must be signed.")
    ] = None,
    strict: Strict = False,  # noqa: FBT002
    timeout: Annotated[float | None, typer.Option(metavar="SECONDS", help="Give up after so long.")] = None,
    as_json: AsJson = False,  # noqa: FBT002
) -> None:
    """Hold any stream to SPEC.md and its schemas, by whomever it was written; changes nothing.

    Prints each finding with the requirement, its severity and the object in which it shows. Ends with 1 if there is one
    of severity error, or, with --strict, should.
    """
    store = open_store(url)
    total = bytes_to_verify(store) if wanted() else None
    with progress("check", total) as advance:
        report = check_stream(store, deep=deep, trust=trust, timeout=timeout, advance=advance)
    passes = report.ok(strict=strict)
    if as_json:
        print_json({"ok": passes, **to_builtins(report)})
    else:
        _print(report, passes=passes)
    if not passes:
        raise typer.Exit(FOUND)


def _print(report: CheckReport, *, passes: bool) -> None:
    for one in report.findings:
        code = f" ({one.code})" if one.code else ""
        print_line(f"{one.severity:6}  {one.requirement:12}  {one.key}{code}", style=_STYLES[one.severity])
        print_line(f"        {one.message}")
    looked = (
        f"{units.plural(report.versions, 'version')}, {units.plural(report.anchors, 'anchor')},"
        f" {units.plural(report.spans, 'span')}, {units.plural(report.records, 'record')} held to the schemas,"
        f" {units.plural(report.objects, 'data object')} ({units.size(report.bytes)})"
    )
    if report.deep:
        looked += f", {units.plural(report.states, 'state')} rebuilt"
    counts = report.counts()
    found = ", ".join(f"{counts[name]} {said}" for name, said in (
        ("error", "broken"), ("should", "not as recommended"), ("note", "worth knowing")
    ) if counts[name])  # fmt: skip
    print_line(f"{found or 'nothing found'}: {looked}", style="bold green" if passes else "bold red")
