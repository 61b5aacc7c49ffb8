"""The reference passes its own suite, in every store; what that shows of SPEC.md is written down."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from deltawire.store import open_store
from deltawire.store.probe import probe
from deltawire_conformance.adapter import Adapter
from deltawire_conformance.case import find_cases
from deltawire_conformance.places import Place, StorePlace
from deltawire_conformance.resources import CASES, REQUIREMENTS
from deltawire_conformance.results import CaseResult
from deltawire_conformance.runner import Plan, run_cases
from deltawire_conformance.traceability import Traceability, defined, trace

REFERENCE = Path(__file__).resolve().parents[2] / "conformance" / "adapters" / "reference" / "adapter.py"
ALL = list(find_cases(CASES))


@pytest.fixture(scope="module")
def reference() -> Iterator[Adapter]:
    made = Adapter(shlex.join([sys.executable, str(REFERENCE)]))
    yield made
    made.close()


def run(adapter: Adapter, *places: Place) -> list[CaseResult]:
    results = run_cases(ALL, adapter, places, Plan(roles=adapter.description.roles))
    wrong = [(case.id, case.store, case.status, case.problems) for case in results if case.status != "pass"]
    assert wrong == []
    return results


def test_on_disk(reference: Adapter, tmp_path: Path) -> None:
    results = run(reference, StorePlace(str(tmp_path / "streams")))
    report = probe(open_store(tmp_path / "probed"))
    probed = [(check.name, check.requirement) for check in report.results if check.passed]
    found = trace(results, probed)
    written = REQUIREMENTS / "traceability.json"
    assert found == msgspec.json.decode(written.read_bytes(), type=Traceability), f"{written} is not what a run shows"


def test_every_requirement_is_shown_or_excluded() -> None:
    found = msgspec.json.decode((REQUIREMENTS / "traceability.json").read_bytes(), type=Traceability)
    assert [name for name in defined() if name not in found.shown and name not in found.excluded] == []
    assert [name for name in found.excluded if name in found.shown] == []
