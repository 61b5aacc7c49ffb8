"""The suite has teeth: each broken implementation is caught by the cases that say so, and each negative case by one."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from deltawire_conformance.adapter import Adapter
from deltawire_conformance.case import CaseFolder, find_cases
from deltawire_conformance.places import Place, StorePlace
from deltawire_conformance.resources import CASES
from deltawire_conformance.results import CaseResult
from deltawire_conformance.runner import Plan, run_case
from deltawire_conformance.simulator.place import SimulatorPlace
from deltawire_conformance.simulator.server import Simulator
from mutants import Mutant, all_mutants
from mutants.uncaught import UNCAUGHT
from tests.conformance.conftest import Hub
from tests.conformance.forked import ForkedAdapter

CONFORMANCE = Path(__file__).resolve().parents[2] / "conformance"
PATHS = os.pathsep.join(map(str, (CONFORMANCE.parent / "reference", CONFORMANCE)))
"""Whatever is installed: the reference of this very tree."""
SECONDS = 60.0
"""What a call may take."""
ALL = {case.id: case for case in find_cases(CASES)}


@pytest.fixture(scope="module")
def simulator() -> Iterator[Simulator]:
    with closing(Simulator()) as running:
        yield running


def run(case: CaseFolder, made: Adapter, places: Sequence[Place]) -> CaseResult:
    place = next(place for place in places if place.takes(case))
    return run_case(case, place, made, Plan(roles=[case.case.role], seconds=SECONDS))


@pytest.mark.parametrize("mutant", all_mutants().values(), ids=lambda mutant: mutant.name)
def test_mutant_is_caught(mutant: Mutant, tmp_path: Path, simulator: Simulator, hub: Hub) -> None:
    assert mutant.caught_by
    places = StorePlace(str(tmp_path)), SimulatorPlace(simulator), hub.place
    environment = {**hub.environment, **simulator.environment, "PYTHONPATH": PATHS}
    with closing(ForkedAdapter(mutant, environment=environment, seconds=SECONDS)) as made:
        for name in mutant.caught_by:
            result = run(ALL[name], made, places)
            # A crash would be caught by anything, and proves nothing.
            assert result.status == "fail", (name, result.status, result.problems)


def test_there_are_enough_mutants() -> None:
    assert len(all_mutants()) >= 25


def test_each_negative_case_catches_a_mutant_or_says_why_not() -> None:
    catching = {case for mutant in all_mutants().values() for case in mutant.caught_by}
    negative = {case.id for case in ALL.values() if case.negative}
    assert negative - catching == set(UNCAUGHT)
    assert all(UNCAUGHT.values())
