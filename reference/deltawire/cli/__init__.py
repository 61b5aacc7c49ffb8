"""The command line; ``deltawire`` is ``deltawire.cli:main``."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress


def main() -> None:
    """Run the command line and exit with its status."""
    try:
        from deltawire.cli.app import app  # noqa: PLC0415 - so that importing this package stays free

        app(prog_name="deltawire")
    except KeyboardInterrupt:  # before a command began, or after it ended
        _end(130)
    except SystemExit as end:
        _end(end.code)


def _end(status: str | int | None) -> None:
    """Exit; after a failure without waiting for requests that go on for nobody, which may be minutes."""
    if isinstance(status, int) and status != 0 and any(map(_works, threading.enumerate())):
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):  # nobody reads it any more
                stream.flush()
        os._exit(status)
    sys.exit(status)


def _works(thread: threading.Thread) -> bool:
    return thread.name.startswith("deltawire-") and not thread.daemon
