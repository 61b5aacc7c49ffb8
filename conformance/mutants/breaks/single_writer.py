"""Single writers that ask for no word, or do not look whether they are alone."""

from __future__ import annotations

from mutants import Mutant
from mutants.patching import edit, skip

MUTANTS = [
    Mutant(
        name="no-word-asked",
        what="opens a stream where the store cannot arbitrate, whatever the operator has said",
        patch=edit(
            "deltawire.producer.opening:open_line",
            ("if not store.guarantees.conditional_create and not single_writer:", "if False:"),
            also=("deltawire.producer.publisher:open_line",),
        ),
        caught_by=(
            "single-writer/not-declared",
            "single-writer/not-declared-again",
            "single-writer/rollback-not-declared",
        ),
    ),
    Mutant(
        name="one-of-many",
        what="writes to a stream of many where the store cannot arbitrate",
        patch=edit(
            "deltawire.producer.opening:_check_stream", ("and not store.guarantees.conditional_create", "and False")
        ),
        caught_by=("single-writer/stream-of-many",),
    ),
    Mutant(
        name="forks-for-anyone",
        what="forks into a store that cannot arbitrate, whatever the operator has said",
        patch=edit(
            "deltawire.lineage.fork:_Forking._make",
            ("and not single_writer:  # OPN-1", "and False:"),
        ),
        caught_by=("single-writer/fork-not-declared",),
    ),
    Mutant(
        name="one-of-many-maintainers",
        what="moves a boundary that it cannot swap, whatever the operator has said",
        patch=skip("deltawire.maintaining.boundary:Boundary.check"),
        caught_by=("single-writer/collect-not-declared",),
    ),
    Mutant(
        name="no-look-at-the-parent",
        what="does not look whether the parent still is what it was",
        patch=skip("deltawire.producer.publisher:check_parent"),
        caught_by=("single-writer/parent-replaced", "single-writer/parent-gone"),
    ),
    Mutant(
        name="takes-what-is-there",
        what="takes another writer's version for its own",
        patch=edit(
            "deltawire.producer.commit:create_record",
            ("== data else Outcome.LOST", "is not None else Outcome.LOST"),
            also=("deltawire.producer.publisher:create_record",),
        ),
        caught_by=("single-writer/another-first",),
    ),
]
