"""The reference passes its own suite, in every store; what that shows of SPEC.md is written down."""

from __future__ import annotations

import shlex
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec
import pytest

from deltawire.store import open_store
from deltawire.store.probe import probe
from deltawire_conformance.adapter import Adapter
from deltawire_conformance.case import CaseFolder, find_cases
from deltawire_conformance.places import Place, StorePlace
from deltawire_conformance.resources import CASES, REQUIREMENTS
from deltawire_conformance.results import CaseResult
from deltawire_conformance.runner import Plan, run_cases
from deltawire_conformance.simulator.place import SimulatorPlace
from deltawire_conformance.simulator.server import Simulator
from deltawire_conformance.traceability import Traceability, defined, trace
from tests.conformance.conftest import Hub
from tests.store.servers import ACCESS_KEY, BUCKET, SECRET_KEY, S3Server

REFERENCE = Path(__file__).resolve().parents[2] / "conformance" / "adapters" / "reference" / "adapter.py"
COMMAND = shlex.join([sys.executable, str(REFERENCE)])


@contextmanager
def reference(environment: Mapping[str, str | None]) -> Iterator[Adapter]:
    with closing(Adapter(COMMAND, environment=environment)) as made:
        yield made


def run(adapter: Adapter, *places: Place, cases: Sequence[CaseFolder] | None = None) -> list[CaseResult]:
    plan = Plan(roles=adapter.description.roles, workers=4)
    results = run_cases(cases or list(find_cases(CASES)), adapter, places, plan)
    wrong = [(case.id, case.store, case.status, case.problems) for case in results if case.status != "pass"]
    assert wrong == []
    return results


@pytest.mark.lengthy
def test_on_disk_and_the_rest_on_the_simulator_and_the_hub(hub: Hub, tmp_path: Path) -> None:
    disk = StorePlace(str(tmp_path / "streams"))
    with closing(Simulator()) as simulator, reference({**hub.environment, **simulator.environment}) as adapter:
        places = disk, SimulatorPlace(simulator, rest=True)
        results = run(adapter, *places)
        rest = [case for case in find_cases(CASES) if not any(place.takes(case) for place in places)]
        results += run(adapter, hub.place, cases=rest)
    assert len(results) == len(list(find_cases(CASES)))
    report = probe(open_store(tmp_path / "probed"))
    found = trace(results, [(check.name, check.requirement) for check in report.results if check.passed])
    written = REQUIREMENTS / "traceability.json"
    told = "run the reference with --report, here and on hf://, then python -m authoring.tracing on both results.json"
    assert found == msgspec.json.decode(written.read_bytes(), type=Traceability), told


@pytest.mark.lengthy
@pytest.mark.integration
def test_on_a_real_s3_server(seaweedfs_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {
        "AWS_ENDPOINT_URL": seaweedfs_server.endpoint,
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_REGION": "us-east-1",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    # Here a few of each area, since each takes some seconds' worth of requests. All of them:
    # deltawire-conformance run --store s3://…
    place = StorePlace(f"s3://{BUCKET}/conformance", keep=True)
    with reference(environment) as adapter:
        run(adapter, place, cases=list(some_of_each_area(place, writing=3)))


def some_of_each_area(place: Place, *, writing: int) -> Iterator[CaseFolder]:
    """The first case of each area, and more of those who write, as there the store decides."""
    seen: Counter[tuple[str, bool]] = Counter()
    for case in find_cases(CASES):
        if place.takes(case):
            seen[case.area, case.negative] += 1
            if seen[case.area, case.negative] <= (1 if case.case.role == "consumer" else writing):
                yield case


def test_every_requirement_is_shown_or_excluded() -> None:
    found = msgspec.json.decode((REQUIREMENTS / "traceability.json").read_bytes(), type=Traceability)
    assert [name for name in defined() if name not in found.shown and name not in found.excluded] == []
    assert [name for name in found.excluded if name in found.shown] == []
