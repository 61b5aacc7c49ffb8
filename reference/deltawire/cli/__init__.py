"""The command line; ``deltawire`` is ``deltawire.cli:main``."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line and exit with its status."""
    try:
        from deltawire.cli.app import app  # noqa: PLC0415 - so that importing this package stays free

        app(prog_name="deltawire")
    except KeyboardInterrupt:  # before a command began, or after it ended
        sys.exit(130)
