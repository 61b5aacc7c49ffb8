"""Consumers that ask for more than they need."""

from __future__ import annotations

from typing import Any

from mutants import Mutant
from mutants.patching import wrap


def _lists(latest: Any) -> Any:
    def changed(self: Any, deadline: Any, *, known: int | None = None, kept: bool = False) -> Any:
        return max(self._greatest(deadline), latest(self, deadline, known=known, kept=kept))

    return changed


MUTANTS = [
    Mutant(
        name="lists-versions",
        what="finds the newest version by listing all of them",
        patch=wrap("deltawire.reading.stream:StreamReader.latest", by=_lists),
        caught_by=("requests/no-listing", "requests/no-listing-behind", "requests/nothing-new"),
    ),
]
