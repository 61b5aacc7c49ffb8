"""What a check finds: each finding with the requirement that it is about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Literal

from msgspec import Struct, field

Severity = Literal["error", "should", "note"]
"""``error``: a MUST is broken. ``should``: a SHOULD is not followed. ``note``: worth knowing, but it breaks nothing."""

_ORDER: tuple[Severity, ...] = ("error", "should", "note")


class Finding(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing."""

    requirement: str
    """Its identifier in SPEC.md, or ``section 8.7`` where the text has none."""
    severity: Severity
    key: str
    """The object in which it shows."""
    message: str
    code: str | None = None
    """What a reader would say of it (SPEC.md section 13)."""


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """Each finding once: errors first, then by key."""
    return sorted(
        dict.fromkeys(findings), key=lambda one: (_ORDER.index(one.severity), one.key, one.requirement, one.message)
    )


class CheckReport(Struct, kw_only=True):
    """What was looked at, and what was found."""

    url: str
    deep: bool
    spec_version: str = "0.1"
    findings: list[Finding] = field(default_factory=list)
    versions: int = 0
    anchors: int = 0
    spans: int = 0
    records: int = 0
    """Records and tensor tables held to the schemas."""
    objects: int = 0
    """Parts, shards, indexes and files read in full."""
    bytes: int = 0
    states: int = 0
    """States rebuilt."""

    def counts(self) -> Counter[str]:
        """Findings by severity."""
        return Counter(one.severity for one in self.findings)

    def ok(self, *, strict: bool) -> bool:
        """Whether the stream passes: without errors, and if ``strict`` without a recommendation not followed."""
        counts = self.counts()
        return not counts["error"] and not (strict and counts["should"])
