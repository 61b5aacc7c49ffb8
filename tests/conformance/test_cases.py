"""The cases themselves: each says what it shows, cites what exists, and has what it names."""

from __future__ import annotations

import re
from collections import Counter

import msgspec
import pytest

from deltawire.errors import DeltawireError
from deltawire_conformance.case import Call, CaseFolder, Follow, Lease, Materialize, Publish, Put, Race, find_cases
from deltawire_conformance.frozen import as_draft, read_frozen
from deltawire_conformance.neutral import NeutralState
from deltawire_conformance.resources import CASES
from tests.spec import document

ALL = list(find_cases(CASES))
DEFINED = {name for name, _ in document.requirements()}
CODES = {row["Code"] for row in document.table("table", "errors")}
AREAS = {
    "records", "keys", "chain", "parts", "rows", "codecs", "dtypes", "digest", "anchors", "planning", "commit", "lease",
    "fencing", "pins", "retention", "features", "limits", "signatures", "snapshots", "tables",
}  # fmt: skip
CALM = re.compile(r"\b(should|must|test|tests|testing|check that|verify)\b", re.IGNORECASE)


def steps(case: CaseFolder) -> list[object]:
    return [inner for step in case.case.steps for inner in [step, *_inner(step)]]


def _inner(step: object) -> tuple[object, ...]:
    return step.steps if isinstance(step, Race) else step.paused if isinstance(step, Publish) else ()


def test_there_are_as_many_cases_as_a_stranger_is_promised() -> None:
    assert len(ALL) >= 150
    assert sum(case.negative for case in ALL) >= 80
    assert {case.area for case in ALL} >= AREAS


def test_titles_are_unique_and_say_what_is_there() -> None:
    titles = Counter((case.area, case.case.title) for case in ALL)
    assert [title for title, times in titles.items() if times > 1] == []
    assert [title for _, title in titles if CALM.search(title) or title.endswith(".")] == []


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.id)
def test_case(case: CaseFolder) -> None:
    assert set(case.case.requirements) <= DEFINED
    calls = [step for step in steps(case) if isinstance(step, Call)]
    assert calls, "nothing is asked of the implementation"
    refused = [step for step in calls if step.error]
    assert {code for step in refused for code in step.error} <= CODES
    if case.negative:
        assert refused, "a negative case expects a refusal"
    named: set[str] = set()
    states: set[str] = set()
    for step in steps(case):
        if isinstance(step, Put):
            named.add(step.tree)
        if isinstance(step, Publish):
            named.add(step.input)
        if isinstance(step, Follow):
            named |= set(step.meanwhile)
        if isinstance(step, Lease) and step.meanwhile:
            named.add(step.meanwhile)
        if isinstance(step, (Materialize, Follow)) and step.state:
            states.add(step.state)
    for folder in named:
        assert any((case.path / folder).rglob("*")), f"{folder} is missing"
    for name in states:
        msgspec.json.decode((case.path / "expected" / f"{name}.json").read_bytes(), type=NeutralState)


def test_codes_of_the_reference_are_those_of_the_text() -> None:
    def below(kind: type[DeltawireError]) -> set[str]:
        return {kind.code, *(code for child in kind.__subclasses__() for code in below(child))}

    assert below(DeltawireError) >= CODES


def test_the_list_of_cases_is_up_to_date() -> None:
    """From the release of the version on its list never changes; until then it is what there is."""
    found = read_frozen("0.1")
    now = as_draft("0.1", ALL)
    if found.status == "draft":
        assert found == now, "run python -m authoring in conformance/"
    else:
        assert {name: now.cases.get(name) for name in found.cases} == found.cases
