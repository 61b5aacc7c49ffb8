"""Rows that are believed."""

from __future__ import annotations

from deltawire.errors import MalformedPartError
from mutants import Mutant
from mutants.patching import edit, replace, skip

_CHECK_BOX = "deltawire.format.boxes:check_box"

MUTANTS = [
    Mutant(
        name="rows-as-parts",
        what="reports rows that are no good as parts that are no good",
        patch=replace(
            "deltawire.parts.reader:MalformedRowError",
            "deltawire.format.boxes:MalformedRowError",
            "deltawire.codecs.base:MalformedRowError",
            "deltawire.codecs.gap:MalformedRowError",
            by=MalformedPartError,
        ),
        caught_by=(
            "rows/ordinal",
            "rows/box-overflow",
            "rows/box-empty",
            "rows/box-rank",
            "rows/box-starts",
            "rows/box-scalar",
            "rows/changed-above-box",
            "rows/stream-missing",
            "rows/planes-missing",
            "codecs/positions-too-few",
            "codecs/positions-too-long",
        ),
    ),
    Mutant(
        name="box-beyond-tensor",
        what="does not look whether a box lies in its tensor",
        patch=edit(
            _CHECK_BOX,
            ("if extent < 1 or start + extent > size:", "if extent < 1:"),
            also=("deltawire.parts.reader:check_box",),
        ),
        caught_by=("rows/box-leaves-tensor",),
    ),
    Mutant(
        name="no-changes",
        what="takes rows in which nothing changed",
        patch=edit("deltawire.parts.reader:_check_row", ("if not 1 <= changed <= box.elements:", "if False:")),
        caught_by=("rows/changed-none",),
    ),
    Mutant(
        name="any-count",
        what="does not count what a row changes",
        patch=edit(
            "deltawire.consumer.staging:stage_row",
            ("if int(np.count_nonzero(old != patch.bits)) != row.changed:", "if False:"),
            also=("deltawire.consumer.small_rows:stage_row",),
        ),
        caught_by=("rows/changed-too-few", "rows/changed-all", "rows/covered-unchanged"),
    ),
    Mutant(
        name="covered-twice",
        what="does not look whether rows cover the same elements",
        patch=skip("deltawire.consumer.steps:check_disjoint"),
        caught_by=("rows/covered-twice", "rows/two-values"),
    ),
    Mutant(
        name="boxes-apart",
        what="takes boxes that overlap for rows that cover the same elements",
        patch=edit(
            "deltawire.consumer.staging:_overlap",
            ("every = ", "return True\n    every = "),
        ),
        caught_by=("rows/boxes-overlap",),
    ),
    Mutant(
        name="any-streams",
        what="does not look at streams that a row has no use for",
        patch=edit(
            "deltawire.parts.reader:_check_streams",
            (
                "if columns.filled[index] != sum(len(columns.streams[stream][index]) > 0 for stream in needed):",
                "if False:",
            ),
        ),
        caught_by=("rows/stream-not-needed",),
    ),
    Mutant(
        name="boxes-end-to-end",
        what="takes the elements of every box to lie end to end in the tensor",
        patch=edit(
            "deltawire.format.boxes:flat_range",
            ("if seen_partial and extent != 1:", "if False:"),
            also=("deltawire.consumer.staging:flat_range",),
        ),
        caught_by=("rows/boxes",),
    ),
]
