"""``deltawire demo``: handed on to ``deltawire.demo`` when it is called, so that nothing else needs its packages."""

from __future__ import annotations

import typer

from deltawire.cli.options import help_of
from deltawire.errors import MissingDependencyError


def demo(context: typer.Context) -> None:
    """Train a real model, publish every step and follow it from another process, bit for bit.

    Needs the extra packages of 'deltawire[demo]'.
    """
    try:
        from deltawire.demo.command import demo as command  # noqa: PLC0415 - its packages are optional
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            f"the demo needs {error.name}, which is not installed; run pip install 'deltawire[demo]'"
        ) from None
    inner = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")
    inner.command(name="demo", help=help_of(command))(command)
    status = typer.main.get_command(inner).main(context.args, prog_name="deltawire demo", standalone_mode=False)
    raise typer.Exit(status or 0)
