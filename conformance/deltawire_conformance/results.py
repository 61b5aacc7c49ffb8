"""What a run found: one result a case, and the score of each profile."""

from __future__ import annotations

from collections import Counter
from typing import Literal

from msgspec import Struct, field

from deltawire_conformance.adapter import Description
from deltawire_conformance.case import Level, Role
from deltawire_conformance.execution import StepLog

Status = Literal["pass", "fail", "error", "expected_failure", "unexpected_pass", "not_claimed", "not_scored"]
"""``error``: the adapter broke the contract, or a prerequisite is missing; it counts as a failure. ``not_claimed``: the
case is for a role, a feature or a kind of store that the adapter does not claim. ``not_scored``: it passed or failed,
but is not among the frozen requirements of the version claimed."""

PASSING: frozenset[Status] = frozenset({"pass", "expected_failure", "not_claimed", "not_scored"})
"""What lets a run succeed."""
NOT_COUNTED: frozenset[Status] = frozenset({"not_claimed", "not_scored"})


class CaseResult(Struct, kw_only=True, omit_defaults=True):
    """One case in one store."""

    id: str
    title: str
    area: str
    negative: bool
    role: Role
    level: Level
    requirements: tuple[str, ...]
    store: str
    status: Status
    seconds: float = 0.0
    reason: str | None = None
    """Why it was not run, or is expected to fail."""
    problems: list[str] = []
    """What was wrong, from the first step on that was."""
    steps: list[StepLog] = []
    """What was sent and what came back; only where something was wrong."""


class Profile(Struct, kw_only=True):
    """How one role did."""

    role: Role
    passed: int
    scored: int
    conforms: bool
    """Whether every case that counts has passed, at least one of them."""


class Results(Struct, kw_only=True):
    """``results.json``; see ``conformance/schemas/results.json``."""

    suite_version: str
    spec_version: str
    contract: int
    started_at: str
    seconds: float
    adapter: Description
    command: str
    stores: list[str]
    roles: list[Role]
    cases: list[CaseResult]
    strict: bool = False
    """Whether what SPEC.md only recommends counts too."""
    profiles: list[Profile] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether something was run, nothing failed that was not expected to, and nothing passed that was."""
        ran = any(case.status not in NOT_COUNTED for case in self.cases)
        return ran and not any(self._spoils(case) for case in self.cases)

    def _spoils(self, case: CaseResult) -> bool:
        recommended = case.level == "should" and case.status == "fail" and not self.strict
        return case.status not in PASSING and not recommended

    def counts(self) -> Counter[str]:
        """Cases by status."""
        return Counter(case.status for case in self.cases)


def profiles(roles: list[Role], cases: list[CaseResult], *, strict: bool) -> list[Profile]:
    """Score each role: ``should`` counts only if asked for."""
    made = []
    for role in roles:
        counted = [
            case
            for case in cases
            if case.role == role and case.status not in NOT_COUNTED and (strict or case.level == "must")
        ]
        passed = sum(case.status == "pass" for case in counted)
        made.append(
            Profile(role=role, passed=passed, scored=len(counted), conforms=bool(counted) and passed == len(counted))
        )
    return made
