"""The command line; ``deltawire`` is ``deltawire.cli:main``."""

from __future__ import annotations


def main() -> None:
    """Run the command line and exit with its status."""
    from deltawire.cli.app import app  # noqa: PLC0415 - so that importing this package stays free

    app(prog_name="deltawire")
