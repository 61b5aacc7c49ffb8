"""Writing all reports of a run into a folder."""

from __future__ import annotations

import json
from pathlib import Path

from deltawire_conformance.report.badge import badge
from deltawire_conformance.report.junit import junit
from deltawire_conformance.report.page import page
from deltawire_conformance.report.plain import plain_results
from deltawire_conformance.results import Results


def write_report(results: Results, folder: Path) -> None:
    """Write ``results.json``, ``junit.xml``, ``badge.json`` and ``report.html``; what was there is replaced.

    Raises:
        OSError: they cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    made = {
        "results.json": _json(plain_results(results)),
        "badge.json": _json(badge(results)),
        "junit.xml": junit(results),
        "report.html": page(results).encode(),
    }
    for name, data in made.items():
        (folder / name).write_bytes(data)


def _json(value: object) -> bytes:
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False).encode() + b"\n"
