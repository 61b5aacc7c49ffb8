"""JSON Schemas of the suite's own files, made from the types: ``python -m deltawire_conformance.schemas DIR``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import msgspec

from deltawire_conformance.adapter import Description
from deltawire_conformance.case import Case
from deltawire_conformance.results import Results

_TYPES: dict[str, tuple[type[msgspec.Struct], str]] = {
    "case.json": (Case, "A case of the conformance suite"),
    "describe.json": (Description, "What an adapter says of itself"),
    "results.json": (Results, "What a run found"),
}


def suite_schemas() -> dict[str, bytes]:
    """The text of each schema by its file name."""
    return {name: _text(name, kind, title) for name, (kind, title) in _TYPES.items()}


def _text(name: str, kind: type[msgspec.Struct], title: str) -> bytes:
    (reference,), components = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    made: dict[str, Any] = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"https://deltawire.dev/conformance/0.1/{name}",
        "title": title,
        **reference,
        "$defs": dict(sorted(components.items())),
    }
    return json.dumps(made, indent=2, ensure_ascii=False).encode() + b"\n"


def main() -> None:
    """Write them into a folder."""
    for name, text in suite_schemas().items():
        (Path(sys.argv[1]) / name).write_bytes(text)


if __name__ == "__main__":
    main()
