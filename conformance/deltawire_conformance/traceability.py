"""Which case shows which requirement of SPEC.md: made from a real run, never by hand."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import msgspec
from msgspec import Struct

from deltawire_conformance.resources import REQUIREMENTS
from deltawire_conformance.results import CaseResult
from deltawire_conformance.specification import requirement_texts


class Traceability(Struct, kw_only=True):
    """``requirements/traceability.json``."""

    spec_version: str
    shown: dict[str, list[str]]
    """By requirement: cases that cite it and passed, and checks of the store probe, as ``probe/<name>``."""
    excluded: dict[str, str]
    """By requirement: why no case shows it."""


def defined() -> list[str]:
    """Every requirement that SPEC.md has, in its order; dropped ones left out."""
    return [name for name, text in requirement_texts().items() if not text.startswith("Dropped:")]


def exclusions(folder: Path = REQUIREMENTS) -> dict[str, str]:
    """``requirements/excluded.json``: by requirement, why nothing from outside can show it."""
    return msgspec.json.decode((folder / "excluded.json").read_bytes(), type=dict[str, str])


def trace(results: Iterable[CaseResult], probed: Iterable[tuple[str, str]]) -> Traceability:
    """Gather what a run has shown.

    Args:
        results: of an implementation that claims everything.
        probed: name and requirement of each check of a store probe that passed.
    """
    shown: dict[str, set[str]] = defaultdict(set)
    for result in results:
        if result.status == "pass":
            for requirement in result.requirements:
                shown[requirement].add(result.id)
    for name, requirement in probed:
        shown[requirement].add("probe/" + name.replace(" ", "-"))
    excluded = exclusions()
    return Traceability(
        spec_version="0.1",
        shown={name: sorted(shown[name]) for name in defined() if name in shown},
        excluded={name: excluded[name] for name in defined() if name in excluded},
    )
