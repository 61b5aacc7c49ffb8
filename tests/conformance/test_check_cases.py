"""What ``check`` makes of the streams that the cases are about: what a reader must refuse shows in the bucket."""

from __future__ import annotations

from functools import cache

import pytest

from deltawire.errors import StreamNotFoundError
from deltawire_conformance import case as cases
from deltawire_conformance.case import CaseFolder, find_cases
from deltawire_conformance.checking.checker import check_stream
from deltawire_conformance.checking.findings import Finding
from deltawire_conformance.resources import CASES
from deltawire_conformance.specification import requirement_texts
from tests.inspecting.streams import new_store

HELD = "the fault is in what is held or asked for, and the stream is sound"
GIVEN = "the fault is in what the consumer was given: limits, keys, names"

UNSEEN = {
    "chain/another-stream-in-place": HELD,
    "chain/held-record-replaced": HELD,
    "following/another-stream": HELD,
    "following/back": HELD,
    "following/follow-damaged": "the damage is put there in the middle of the case, and mended",
    "following/half-way": "the damage is put there in the middle of the case, and mended",
    "following/some-others": GIVEN,
    "following/some-unknown": GIVEN,
    "head/of-no-version": HELD,
    "hub/gone": "there is no stream to check, in the end",
    "hub/nothing-there": "there is no stream to check",
    "limits/metadata-of-numbers": GIVEN,
    "limits/set-files": GIVEN,
    "limits/set-kept": GIVEN,
    "limits/set-parts": GIVEN,
    "limits/set-shard-header-bytes": GIVEN,
    "limits/set-state-bytes": GIVEN,
    "limits/set-table-bytes": GIVEN,
    "limits/set-tensors": GIVEN,
    "planning/beyond-the-newest": HELD,
    "planning/no-version": HELD,
    "records/no-stream-record": "there is no stream to check",
    "records/no-version-yet": HELD,
    "requests/part-denied": "the store refuses, and the stream is sound",
    "retention/below-the-boundary": HELD,
    "retention/between-kept": HELD,
    "signatures/given-small-order": GIVEN,
    "signatures/no-key-in-the-list": GIVEN,
    "signatures/stream-by-listed": GIVEN,
    "signatures/stream-not-signed": GIVEN,
    "signatures/stream-of-another": GIVEN,
}
"""Negative cases of consumers in whose bucket nothing is wrong."""

OTHER_CODE = {
    "records/features-before-shape": "what an unknown feature stands for cannot be malformed; a lint says both",
    "retention/nothing-from-the-boundary-on": "who asks for the newest is told of none, who looks of what is missing",
    "retention/boundary-ahead": "who asks for the version is told that it is not found, who looks that it is missing",
}


def laid(case: CaseFolder) -> dict[str, bytes]:
    """What is in the store after all steps."""
    tree: dict[str, bytes] = {}
    for step in case.case.steps:
        match step:
            case cases.Put(where="store"):
                tree |= case.tree(step.tree)
            case cases.Delete():
                tree = {key: data for key, data in tree.items() if key not in step.keys}
            case cases.Pad() if step.key in tree:
                tree[step.key] = tree[step.key].ljust(step.bytes)
            case _:
                pass
    return tree


@cache
def errors(name: str) -> list[Finding]:
    case = ALL[name]
    try:
        found = check_stream(new_store(laid(case)), deep=True).findings
    except StreamNotFoundError:
        return []
    known = requirement_texts()
    assert all(one.requirement in known or one.requirement.startswith("section ") for one in found)
    return [one for one in found if one.severity == "error"]


ALL = {case.id: case for case in find_cases(CASES)}
NEGATIVE = sorted(name for name, case in ALL.items() if case.negative and case.case.role == "consumer")


@pytest.mark.parametrize("name", NEGATIVE)
def test_what_must_be_refused_is_found(name: str) -> None:
    found = errors(name)
    assert bool(found) is (name not in UNSEEN)
    codes = {code for step in ALL[name].case.steps if isinstance(step, cases.Call) for code in step.error}
    if found and name not in OTHER_CODE:
        assert codes & {one.code for one in found}, found


PASSED_OVER = {
    "limits/set-higher": "above the default limits (LIM-4)",
    "records/changed-tensors": "a number that informs, and is wrong",
    "records/no-such-day": "a time of the right form on no day",
    "snapshots/in-table-order": "an order of tensors that binds who writes, not who reads (SNP-4)",
}
"""Valid cases in which a producer did what it must not, and readers do not look."""

SOUND_AREAS = {"codecs", "dtypes", "digest", "rows", "tables", "limits", "records", "retention", "snapshots", "chain"}


@pytest.mark.parametrize(
    "name",
    sorted(
        name for name, case in ALL.items() if not case.negative and case.area in SOUND_AREAS and name not in PASSED_OVER
    ),
)
def test_what_must_be_read_is_sound(name: str) -> None:
    """In other areas a reader has to cope with damage, to an anchor or a head, and a check calls it by its name."""
    assert not errors(name)


def test_that_a_lint_names_the_requirement_of_the_case() -> None:
    """More often than not: the same fault breaks several, and a reader's rule may have one behind it for writers."""
    seen = [name for name in NEGATIVE if name not in UNSEEN]
    named = [name for name in seen if {one.requirement for one in errors(name)} & set(ALL[name].case.requirements)]
    assert len(named) >= 0.5 * len(seen)
