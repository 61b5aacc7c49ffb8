"""Running many cases: which of them, at the same time, and what is expected of each."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from deltawire.errors import StoreError
from deltawire_conformance.adapter import SECONDS, Adapter
from deltawire_conformance.case import CaseFolder, Role
from deltawire_conformance.execution import CaseRun, scratch_folder
from deltawire_conformance.places import Place
from deltawire_conformance.results import CaseResult, Status


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What to run, and what is known beforehand."""

    roles: Sequence[Role]
    frozen: frozenset[str] | None = None
    """Cases that count for the version claimed; None if all do."""
    expected: Mapping[str, str] = field(default_factory=dict)
    """Cases that are known to fail, with the reason."""
    seconds: float = SECONDS
    """What a call may take."""
    workers: int = 2


def run_cases(
    cases: Iterable[CaseFolder],
    adapter: Adapter,
    places: Sequence[Place],
    plan: Plan,
    *,
    tell: Callable[[CaseResult], None] = lambda _: None,
) -> list[CaseResult]:
    """Run each case in each place that it is for.

    Args:
        cases: what to run.
        adapter: with what.
        places: where; at most one of each kind.
        plan: what to run, and what is expected.
        tell: told of each result, from several threads.
    """

    def one(work: tuple[CaseFolder, Place]) -> CaseResult:
        result = run_case(*work, adapter, plan)
        tell(result)
        return result

    todo = [(case, place) for case in cases for place in places if place.takes(case)]
    with ThreadPoolExecutor(plan.workers) as pool:
        return list(pool.map(one, todo))


def run_case(folder: CaseFolder, place: Place, adapter: Adapter, plan: Plan) -> CaseResult:
    """Run one case in one place."""
    case = folder.case
    result = CaseResult(
        id=folder.id,
        title=case.title,
        area=folder.area,
        negative=folder.negative,
        role=case.role,
        level=case.level,
        requirements=case.requirements,
        store=place.kind,
        status="not_claimed",
    )
    result.reason = _not_claimed(folder, place, adapter, plan)
    if result.reason is not None:
        return result
    started = time.monotonic()
    run: CaseRun | None = None
    try:
        with place.spot(folder) as spot, scratch_folder() as scratch:
            run = CaseRun(folder, adapter, spot, Path(scratch), seconds=plan.seconds)
            status: Status = run.run()
    except StoreError as error:  # of the suite's own access: nothing is known of the implementation
        status = "error"
        result.problems = [f"the suite's own access to the store failed: {error.code}: {error}"]
    result.seconds = round(time.monotonic() - started, 3)
    if status != "pass" and run is not None:
        last = run.logs[-1]
        result.problems += ([last.trouble] if last.trouble else []) + last.problems
        result.steps = run.logs
    result.status, result.reason = _as_expected(folder.id, status, plan)
    return result


def _not_claimed(folder: CaseFolder, place: Place, adapter: Adapter, plan: Plan) -> str | None:
    case, claimed = folder.case, adapter.description
    if case.role not in plan.roles or case.role not in claimed.roles:
        return f"the role {case.role} is not claimed"
    missing = [feature for feature in case.features if feature not in claimed.features]
    if missing:
        return f"the feature {missing[0]} is not claimed"
    needed = "s3" if place.kind == "simulator" else place.kind  # the simulator speaks S3
    return None if needed in claimed.stores else f"stores of the kind {needed} are not claimed"


def _as_expected(case: str, status: Status, plan: Plan) -> tuple[Status, str | None]:
    reason = plan.expected.get(case)
    if reason is not None:
        return ("unexpected_pass" if status == "pass" else "expected_failure"), reason
    if plan.frozen is not None and case not in plan.frozen:
        return "not_scored", f"newer than the version claimed; it would be: {status}"
    return status, None


def read_expected_failures(path: Path, known: Iterable[str]) -> dict[str, str]:
    """Read an implementer's file of expected failures: a case id to a line, the reason after ``#``.

    Raises:
        ValueError: a line has no reason, or names no case.
    """
    found: dict[str, str] = {}
    cases = set(known)
    for number, line in enumerate(path.read_text().splitlines(), 1):
        name, _, reason = (part.strip() for part in line.partition("#"))
        if not name:
            continue
        if name not in cases:
            raise ValueError(f"{path}:{number}: there is no case {name!r}")
        if not reason:
            raise ValueError(f"{path}:{number}: {name!r} has no reason; write one after #")
        found[name] = reason
    return found
