"""``deltawire-conformance vectors``: everything as plain files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from deltawire.cli.output import print_line
from deltawire_conformance.vectors import write_vectors


def vectors(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="An empty folder, or none yet.", show_default=False)],
) -> None:
    """Write cases and the vectors of appendix A as plain files, for a harness of your own."""
    counts = write_vectors(folder)
    said = ", ".join(f"{counts[name]} files in {name}/" for name in ("vectors", "examples", "cases"))
    print_line(f"{folder}: {said}; README.txt says what they are")
