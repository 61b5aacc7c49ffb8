"""Options that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
Strict = Annotated[bool, typer.Option("--strict", help="Count what SPEC.md only recommends, too.")]
