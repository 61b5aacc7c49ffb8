"""The command line; ``deltawire-conformance`` is ``deltawire_conformance.cli:main``."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line and exit with its status."""
    try:
        from deltawire_conformance.cli.app import app  # noqa: PLC0415 - an interrupt is caught from here on

        app(prog_name="deltawire-conformance")
    except ModuleNotFoundError as missing:
        if missing.name not in {"jsonschema", "cryptography"}:
            raise
        sys.exit(f"deltawire-conformance needs {missing.name}: pip install 'deltawire[conformance]'")
    except KeyboardInterrupt:  # before a command began, or after it ended
        sys.exit(130)
