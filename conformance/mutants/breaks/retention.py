"""Boundaries that are not seen."""

from __future__ import annotations

from deltawire.errors import DeltawireError
from deltawire.reading import retention
from deltawire.reading.retention import Retention
from mutants import Mutant
from mutants.patching import replace, skip


def cases(names: str) -> tuple[str, ...]:
    """Ids of cases of this area."""
    return tuple(f"retention/{name}" for name in names.split())


_READ = retention.read_retention


def _if_readable(*arguments: object) -> Retention:
    try:
        return _READ(*arguments)  # type: ignore[arg-type]
    except DeltawireError:
        return Retention()


MUTANTS = [
    Mutant(
        name="no-retention",
        what="does not read retention.json",
        patch=replace("deltawire.reading.stream:read_retention", by=lambda *_: Retention()),
        caught_by=cases(
            "below-the-boundary between-kept boundary-ahead anchor-below-the-boundary kept-is-not-newest "
            "held-kept held-lost"
        ),
    ),
    Mutant(
        name="retention-if-readable",
        what="goes on where it cannot read retention.json",
        patch=replace("deltawire.reading.stream:read_retention", by=_if_readable),
        caught_by=cases("not-json another-stream major-version no-boundary"),
    ),
    Mutant(
        name="any-kept",
        what="takes any list of numbers for the versions kept",
        patch=skip("deltawire.format.records:_check_retention"),
        caught_by=cases("kept-descends kept-twice kept-at-the-boundary"),
    ),
    Mutant(
        name="nothing-kept",
        what="takes every version below the boundary for lost",
        patch=replace(
            "deltawire.reading.retention:Retention.__contains__", by=lambda self, version: version >= self.boundary
        ),
        caught_by=cases("kept"),
    ),
]
