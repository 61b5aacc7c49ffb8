"""Records that are believed too soon."""

from __future__ import annotations

from mutants import Mutant
from mutants.patching import replace, skip

MUTANTS = [
    Mutant(
        name="member-twice",
        what="keeps the last of two members of one name",
        patch=replace("deltawire.format.strict_json:_unique", by=dict),
        caught_by=("records/member-twice",),
    ),
    Mutant(
        name="any-stream",
        what="does not look whether a record belongs to the stream",
        patch=skip("deltawire.reading.stream:check_ours"),
        caught_by=("records/wrong-stream-id",),
    ),
]
