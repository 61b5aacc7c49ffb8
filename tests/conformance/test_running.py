"""What a run makes of adapters: a crash is no refusal, what is not there is no success, expectations do not rot."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from deltawire_conformance.adapter import Adapter, AdapterError, Description
from deltawire_conformance.case import CaseFolder
from deltawire_conformance.cli import running
from deltawire_conformance.cli.app import app
from deltawire_conformance.neutral import NeutralState
from deltawire_conformance.places import StorePlace
from deltawire_conformance.resources import CASES
from deltawire_conformance.results import CaseResult, Results
from deltawire_conformance.runner import Plan, read_expected_failures, run_case

CASE = "records/member-twice"
REFUSED = CaseFolder(CASES / "records" / "invalid" / "member-twice")
DESCRIBED = {
    "contract": 1, "name": "scripted", "version": "1", "spec_versions": ["0.1"], "roles": ["consumer"],
    "stores": ["disk"],
}  # fmt: skip
RIGHT = 'print(json.dumps({"error": "malformed_record"})); sys.exit(1)'
HOLDS_NOTHING = 'print(json.dumps({"version": None}))'


def adapter_of(folder: Path, materialize: str = RIGHT, show: str = HOLDS_NOTHING, **described: Any) -> str:
    """A command line of an adapter that does as the given lines of Python say."""
    script = folder / "adapter.py"
    script.write_text(
        "import json, os, sys, time\n"
        f"if sys.argv[1] == 'describe': print({json.dumps({**DESCRIBED, **described})!r})\n"
        f"elif sys.argv[1] == 'show': {show}\n"
        f"else: {materialize}\n"
    )
    return shlex.join([sys.executable, str(script)])


def result_of(folder: Path, command: str, *, expected: Mapping[str, str] | None = None, **plan: object) -> CaseResult:
    made = Adapter(command, seconds=5)
    chosen = msgspec.convert({"expected": expected or {}, "seconds": 5, **plan}, dict)
    return run_case(REFUSED, StorePlace(str(folder / "streams")), made, Plan(roles=["consumer"], **chosen))


def cli(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        app(["run", *arguments], prog_name="deltawire-conformance")
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_a_right_refusal_passes(tmp_path: Path) -> None:
    assert result_of(tmp_path, adapter_of(tmp_path)).status == "pass"


@pytest.mark.parametrize(
    ("does", "status"),
    [
        ('print(json.dumps({"error": "wrong_base"})); sys.exit(1)', "fail"),
        (HOLDS_NOTHING, "fail"),  # done, where it must refuse
        ("raise RuntimeError", "error"),  # which ends with status 1, and names no code
        ('print(json.dumps({"error": "malformed_record"})); sys.exit(2)', "error"),
        ("os.abort()", "error"),
        ("print('malformed_record'); sys.exit(1)", "error"),
        ("pass", "error"),
        ("time.sleep(60)", "error"),
    ],
)
def test_nothing_else_does(tmp_path: Path, does: str, status: str) -> None:
    result = result_of(tmp_path, adapter_of(tmp_path, does))
    assert result.status == status
    assert result.problems


def test_a_target_that_changed_fails(tmp_path: Path) -> None:
    shown = 'print(json.dumps({"version": 1, "state_digest": "0" * 16}))'
    assert result_of(tmp_path, adapter_of(tmp_path, show=shown)).status == "fail"


def test_a_producer_that_does_not_wait_fails(tmp_path: Path) -> None:
    lost = 'print(json.dumps({"error": "conflict"})); sys.exit(1)'
    case = CaseFolder(CASES / "single-writer" / "invalid" / "another-first")
    made = Adapter(adapter_of(tmp_path, lost, roles=["producer"], features=["pause"]), seconds=5)
    result = run_case(case, StorePlace(str(tmp_path / "streams")), made, Plan(roles=["producer"], seconds=5))
    assert result.status == "fail"
    assert result.problems == ["it does not say that it waits"]


def test_expected_failures_are_strict(tmp_path: Path) -> None:
    wrong = adapter_of(tmp_path, HOLDS_NOTHING)
    assert result_of(tmp_path, wrong, expected={CASE: "later"}).status == "expected_failure"
    assert result_of(tmp_path, adapter_of(tmp_path), expected={CASE: "later"}).status == "unexpected_pass"


def test_a_file_of_expected_failures(tmp_path: Path) -> None:
    file = tmp_path / "failures"
    file.write_text(f"# nothing yet\n\n{CASE}  # is being mended\n")
    assert read_expected_failures(file, [CASE]) == {CASE: "is being mended"}
    for text in (f"{CASE}\n", "records/no-such  # why\n"):
        file.write_text(text)
        with pytest.raises(ValueError, match="failures:1"):
            read_expected_failures(file, [CASE])
        assert cli("--adapter", adapter_of(tmp_path), "--expect-failures", str(file)) == 2


def test_what_is_newer_is_not_scored(tmp_path: Path) -> None:
    assert result_of(tmp_path, adapter_of(tmp_path), frozen=frozenset()).status == "not_scored"


def test_the_status_of_a_run(tmp_path: Path) -> None:
    chosen = ("--case", CASE, "--store", str(tmp_path / "streams"))
    assert cli("--adapter", adapter_of(tmp_path), *chosen) == 0
    assert cli("--adapter", adapter_of(tmp_path, HOLDS_NOTHING), *chosen) == 1


@pytest.mark.parametrize("role", ["producer", "emperor"])
def test_a_profile_that_is_not_claimed_is_no_success(tmp_path: Path, role: str) -> None:
    assert cli("--adapter", adapter_of(tmp_path), "--profile", role) == 2


@pytest.mark.parametrize("described", [{"roles": ["producer"]}, {"stores": ["s3"]}])
def test_a_run_in_which_nothing_counts_is_no_success(tmp_path: Path, described: dict[str, Any]) -> None:
    command = adapter_of(tmp_path, **described)
    assert cli("--adapter", command, "--case", CASE, "--store", str(tmp_path / "streams")) == 1


@pytest.mark.parametrize("described", [{"contract": 2}, {"roles": ["emperor"]}])
def test_a_description_that_cannot_be(tmp_path: Path, described: dict[str, Any]) -> None:
    command = adapter_of(tmp_path, **described)
    with pytest.raises(AdapterError):
        Adapter(command)
    assert cli("--adapter", command, "--case", CASE) == 2


def test_what_is_only_recommended_counts_if_asked(tmp_path: Path) -> None:
    def results(*cases: CaseResult, strict: bool) -> Results:
        described = msgspec.convert(DESCRIBED, Description)
        return Results(
            suite_version="1", spec_version=running.SPEC_VERSION, contract=1, started_at="", seconds=0, command="",
            adapter=described, stores=["disk"], roles=["consumer"], cases=list(cases), strict=strict,
        )  # fmt: skip

    passed = result_of(tmp_path, adapter_of(tmp_path))
    failed = msgspec.structs.replace(passed, status="fail", level="should")
    assert results(passed, failed, strict=False).ok
    assert not results(passed, failed, strict=True).ok
    assert not results(passed, msgspec.structs.replace(failed, status="error"), strict=False).ok


def test_examples_of_the_contract() -> None:
    text = (CASES.resolve().parent / "ADAPTER.md").read_text()
    described, state = (json.loads(block) for block in re.findall(r"```json\n(.*?)```", text, re.DOTALL))
    msgspec.convert(described, Description)
    msgspec.convert(state, NeutralState)
