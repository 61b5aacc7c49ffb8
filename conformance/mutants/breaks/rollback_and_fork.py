"""Origins that are believed."""

from __future__ import annotations

from typing import Any

from mutants import Mutant
from mutants.mending import lenient, mended
from mutants.patching import skip


def cases(names: str) -> tuple[str, ...]:
    """Ids of cases of this area."""
    return tuple(f"rollback-and-fork/{name}" for name in names.split())


def _no_rollback(value: dict[str, Any]) -> None:
    value.pop("rollback_of", None)


def _no_origin(value: dict[str, Any]) -> None:
    value.pop("origin", None)


MUTANTS = [
    Mutant(
        name="no-rollback",
        what="does not look at rollback_of",
        patch=mended(_no_rollback),
        caught_by=cases("rollback-to-itself rollback-to-later rollback-without-digest"),
    ),
    Mutant(
        name="any-rollback",
        what="does not hold a rollback against the version that it names",
        patch=skip("deltawire.reading.ways:check_rollbacks"),
        caught_by=cases("rollback-of-another-record rollback-to-another-state rollback-on-the-way"),
    ),
    Mutant(
        name="no-origin",
        what="does not look at the origin of a fork",
        patch=mended(_no_origin),
        caught_by=cases("origin-without-digest fork-of-another-state"),
    ),
    Mutant(
        name="any-url",
        what="takes any text for the URL of an origin",
        patch=lenient("Expected `str`"),
        caught_by=cases("url-user url-query url-fragment url-white-space url-relative url-long"),
    ),
]
