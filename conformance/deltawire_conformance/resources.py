"""Where the suite's files are: cases, frozen requirements, schemas of records, SPEC.md."""

from __future__ import annotations

from pathlib import Path

_DATA = Path(__file__).resolve().parent / "data"

CASES = _DATA / "cases"
REQUIREMENTS = _DATA / "requirements"
SCHEMAS = _DATA / "schemas"
SPEC = _DATA / "SPEC.md"
