"""Anchors that are believed, or that stop a reader."""

from __future__ import annotations

from mutants import Mutant
from mutants.patching import edit, skip

MUTANTS = [
    Mutant(
        name="any-anchor",
        what="does not hold an anchor against its version",
        patch=skip("deltawire.reading.ways:check_anchor"),
        caught_by=("anchors/other-version-digest", "anchors/other-state-digest", "anchors/other-table"),
    ),
    Mutant(
        name="anchors-stop",
        what="stops at an anchor that cannot be read",
        patch=edit("deltawire.reading.ways:WayFinder._newest_anchor", ("if error.retryable:", "if True:")),
        caught_by=("anchors/older-one", "anchors/passed-over-null", "anchors/passed-over-feature"),
    ),
]
