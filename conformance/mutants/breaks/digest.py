"""Digests that nobody compares."""

from __future__ import annotations

from collections.abc import Callable

from mutants import Mutant
from mutants.patching import edit, skip


def _rows_without(member: str, found: str) -> Callable[[], None]:
    return edit(
        "deltawire.consumer.staging:stage_row",
        (f"if {found} != row.{member}:", "if False:"),
        also=("deltawire.consumer.small_rows:stage_row",),
    )


MUTANTS = [
    Mutant(
        name="any-base",
        what="does not compare the old bits with digest_before",
        patch=_rows_without("digest_before", "before"),
        caught_by=("digest/before-wrong", "digest/other-base", "digest/dense-of-changes", "digest/index-in-box"),
    ),
    Mutant(
        name="any-result",
        what="does not compare the new bits with digest_after",
        patch=_rows_without("digest_after", "after"),
        caught_by=("digest/after-wrong", "planning/span-rows"),
    ),
    Mutant(
        name="any-sums",
        what="does not hold the sum of all rows against the record",
        patch=skip("deltawire.consumer.steps:check_totals"),
        caught_by=("digest/changed-elements", "digest/sums"),
    ),
    Mutant(
        name="changes-without-parts",
        what="takes a delta without parts that says that something changed",
        patch=edit("deltawire.format.records:check_delta", ("if not delta.parts and (", "if False and (")),
        caught_by=("digest/no-parts-but-changes", "digest/no-parts-but-sums"),
    ),
    Mutant(
        name="snapshot-of-any-state",
        what="does not hold a snapshot as a whole against the record",
        patch=edit(
            "deltawire.consumer.loading:load_snapshot",
            ("if len(wanted) == len(table.tensors) and loaded.digest != state_digest:", "if False:"),
            ("if snapshot.shards[-1].last_tensor != len(table.tensors) - 1:", "if False:"),
            also=("deltawire.consumer.steps:load_snapshot",),
        ),
        caught_by=("digest/state-digest-of-snapshot", "snapshots/last-shard-missing", "anchors/other-state"),
    ),
]
