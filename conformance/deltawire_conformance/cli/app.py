"""The application: its commands and its help text."""

from __future__ import annotations

from typing import Annotated

import typer

from deltawire.cli.group import CommandGroup
from deltawire_conformance import __version__
from deltawire_conformance.cli import checking, exporting, probing, running

_EPILOG = """[bold]Exit status[/bold]
    0  nothing was found
    1  something was found, a case failed, or a promise was broken
    2  wrong usage, or an adapter that does not keep to the contract
    3  no stream there
    4  the store failed, refused or is unfit
    6  a timeout passed
    7  the operating system refused a file or folder"""

app = typer.Typer(
    name="deltawire-conformance",
    cls=CommandGroup,
    no_args_is_help=True,
    add_completion=False,
    epilog=_EPILOG,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(value: bool) -> None:  # noqa: FBT001 - typer calls it
    if value:
        typer.echo(f"deltawire-conformance {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[  # noqa: FBT002 - its callback does the work
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Check implementations of Deltawire, streams and stores against SPEC.md."""


for command in (running.run, checking.check, probing.probe, exporting.vectors):
    app.command()(command)
