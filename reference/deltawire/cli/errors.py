"""What a failed command prints, and the status it ends with.

====== =============================================================================================
status meaning
====== =============================================================================================
0      done
1      the data is not what it should be: malformed, damaged, of the wrong base; ``verify`` or ``fsck`` found
       something; ``probe`` saw a promise broken; ``diff --exit-code`` saw a difference
2      the command cannot be used like this: a wrong option, state, directory or target
3      nothing there: no stream, no such version, no way to it
4      the store failed, refused or is unfit
5      the version was not committed, or may not have been: another writer, or a lost answer
6      a timeout passed
7      the operating system refused a file or directory
130    interrupted
141    whoever read the output closed it
====== =============================================================================================

Status 1 to 6 are ``exit_status`` of the error, whose code is printed.
"""

from __future__ import annotations

import errno
import json
import sys

from deltawire.errors import DeltawireError

SYSTEM_CODE = "os_error"
SYSTEM_STATUS = 7
INTERRUPTED = 130
PIPE_CLOSED = 141
_FULL = (errno.ENOSPC, errno.EDQUOT)

TABLE = (
    (0, "done"),
    (1, "the data is damaged or of the wrong base; verify, fsck, probe or diff --exit-code found something"),
    (2, "wrong usage, state or target"),
    (3, "no such stream or version, or no way to it"),
    (4, "the store failed, refused or is unfit"),
    (5, "not committed, or maybe not: another writer, or a lost answer"),
    (6, "a timeout passed"),
    (7, "the operating system refused a file or directory"),
    (130, "interrupted"),
    (141, "the reader of the output went away"),
)
"""Exit statuses and what they mean, for the help text."""


def clean(text: str) -> str:
    """One line without control characters: what is printed may come from a store that is not trusted."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def report(code: str, message: str, hint: str, *, as_json: bool) -> None:
    """Print one error: a line and a hint on stderr, and an object on stdout if JSON was asked for."""
    red, bold, dim, plain = ("\033[31m", "\033[1m", "\033[2m", "\033[0m") if _in_colour() else ("",) * 4
    lines = f"{bold}deltawire: {red}error[{code}]{plain}: {clean(message)}\n"
    if hint:
        lines += f"{dim}  hint: {hint}{plain}\n"
    sys.stderr.write(lines)
    sys.stderr.flush()
    if as_json:
        sys.stdout.write(json.dumps({"error": code, "message": message, "hint": hint}) + "\n")
        sys.stdout.flush()


def report_error(error: DeltawireError | OSError, *, as_json: bool) -> int:
    """Print an error and return the status to exit with."""
    if isinstance(error, DeltawireError):
        report(error.code, str(error), error.hint, as_json=as_json)
        return error.exit_status
    where = f"{error.filename}: " if error.filename is not None else ""
    hint = "make room and try again" if error.errno in _FULL else "check the path and its permissions"
    report(SYSTEM_CODE, where + (error.strerror or str(error)), hint, as_json=as_json)
    return SYSTEM_STATUS


def warn(message: str) -> None:
    """Print one line on stderr about something that did not stop the command."""
    sys.stderr.write(f"deltawire: warning: {clean(message)}\n")
    sys.stderr.flush()


def _in_colour() -> bool:
    from rich.console import Console  # noqa: PLC0415 - knows terminals, TERM and NO_COLOR

    console = Console(file=sys.stderr)
    return console.color_system is not None and not console.no_color
