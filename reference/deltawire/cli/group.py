"""The command group: turns every failure into one line and an exit status."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import typer
from typer.core import TyperGroup

from deltawire.cli import errors
from deltawire.errors import DeltawireError, InvalidArgumentError


class CommandGroup(TyperGroup):
    """Commands in the order in which they were written, with errors as ``deltawire.cli.errors`` says."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,  # noqa: FBT001, FBT002 - the signature of the base class
        windows_expand_args: bool = True,  # noqa: FBT001, FBT002
        **extra: Any,
    ) -> Any:
        arguments = list(sys.argv[1:] if args is None else args)
        as_json = "--json" in arguments
        try:
            status = super().main(arguments, prog_name, complete_var, False, windows_expand_args, **extra)  # noqa: FBT003
        except typer.TyperException as error:  # wrong usage, found before a command began
            command = getattr(getattr(error, "ctx", None), "command_path", "deltawire")
            errors.report(
                InvalidArgumentError.code,
                error.format_message().rstrip("."),
                f"see '{command} --help'",
                as_json=as_json,
            )
            status = error.exit_code
        except DeltawireError as error:
            status = errors.report_error(error, as_json=as_json)
        except OSError as error:
            status = errors.report_error(error, as_json=as_json)
        if standalone_mode:
            sys.exit(status or 0)
        return status

    def invoke(self, ctx: Any) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()  # here rather than at exit, where a closed pipe could not be handled
        except BrokenPipeError:
            _silence_stdout()
            raise typer.Exit(errors.PIPE_CLOSED) from None
        except KeyboardInterrupt:
            sys.stderr.write("\ndeltawire: interrupted\n")
            raise typer.Exit(errors.INTERRUPTED) from None
        return result

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.commands)


def _silence_stdout() -> None:
    """Send what is still buffered nowhere, so that the interpreter's own flush at exit does not fail again."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
