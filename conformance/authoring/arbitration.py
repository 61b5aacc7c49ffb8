"""Which cases need a store that arbitrates between writers (STO-3, STO-4)."""

from __future__ import annotations

from typing import Any

from deltawire_conformance.case import Case, Collect, Fork, Lease, Publish, Race, Rollback


def needs_arbitration(case: Case) -> bool:
    """Whether somebody writes in it without the word that nobody else does (OPN-1, RET-5)."""
    return any(isinstance(step, (Lease, Race)) or _undeclared(step) for step in case.steps)


def _undeclared(step: Any) -> bool:
    if isinstance(step, (Publish, Rollback, Fork)):
        return not step.options.get("single_writer", False)
    return isinstance(step, Collect) and not step.options.get("single_maintainer", False)
