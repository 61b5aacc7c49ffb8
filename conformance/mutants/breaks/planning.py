"""Ways that are not looked for, or not checked."""

from __future__ import annotations

from mutants import Mutant
from mutants.patching import both, edit, replace, skip

MUTANTS = [
    Mutant(
        name="no-other-way",
        what="stops at the first record that is no good",
        patch=edit(
            "deltawire.reading.ways:WayFinder._unusable",
            ("if number == target or not isinstance(error, no_good):", "if True:"),
        ),
        caught_by=("planning/path-lost", "planning/span-over-malformed", "anchors/overtaken"),
    ),
    Mutant(
        name="always-lost",
        what="says that no way is left where it could say why",
        patch=edit(
            "deltawire.reading.ways:WayFinder._cheapest",
            ("raise self._lost(start, target)", "raise lost(start, target)"),
        ),
        caught_by=("planning/malformed-between",),
    ),
    Mutant(
        name="lost-if-not-found",
        what="reports a version that is not there as one to which no way leads",
        patch=replace("deltawire.errors:VersionNotFoundError.code", by="path_lost"),
        caught_by=("planning/beyond-the-newest", "planning/no-version"),
    ),
    Mutant(
        name="any-span",
        what="does not hold a span against its versions and its rows",
        patch=both(skip("deltawire.reading.ways:check_span"), skip("deltawire.consumer.steps:check_totals")),
        caught_by=(
            "planning/span-other-base",
            "planning/span-other-target",
            "planning/span-other-table",
            "planning/span-other-state",
            "planning/span-other-sums",
        ),
    ),
    Mutant(
        name="any-span-size",
        what="takes spans that are larger than what they replace",
        patch=edit("deltawire.format.records:_check_span", ("if size > record.replaces_bytes:", "if False:")),
        caught_by=("planning/span-other-size",),
    ),
    Mutant(
        name="spans-stop",
        what="stops at a span that cannot be read",
        patch=edit(
            "deltawire.reading.ways:WayFinder._read_spans",
            ("self._pass_over_record(link, record)  # SPN-6", "raise record"),
        ),
        caught_by=(
            "planning/span-passed-over-cut",
            "planning/span-passed-over-key",
            "planning/span-passed-over-backwards",
            "planning/span-passed-over-size",
        ),
    ),
]
