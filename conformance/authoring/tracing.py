"""Writes down what runs have shown of SPEC.md: ``python -m authoring.tracing RESULTS...``, in ``conformance/``."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import msgspec

from authoring.drafts import pretty
from deltawire.store import open_store
from deltawire.store.probe import probe
from deltawire_conformance.resources import REQUIREMENTS
from deltawire_conformance.results import Results
from deltawire_conformance.traceability import trace


def main() -> None:
    """Write ``requirements/traceability.json`` from results of the reference, of one or several runs."""
    runs = [msgspec.json.decode(Path(name).read_bytes(), type=Results) for name in sys.argv[1:]]
    results = [case for run in runs for case in run.cases]
    with tempfile.TemporaryDirectory() as folder:
        checks = probe(open_store(folder)).results
    found = trace(results, [(check.name, check.requirement) for check in checks if check.passed])
    (REQUIREMENTS / "traceability.json").write_bytes(pretty(msgspec.to_builtins(found)))


if __name__ == "__main__":
    main()
