"""Followers that go where they are told."""

from __future__ import annotations

from mutants import Mutant
from mutants.patching import edit

_STAGE = "return list(stage_rows(rows, table, bits_of, sums)), sums"
_WRITE = """changes = list(stage_rows(rows, table, bits_of, sums))
        for change in changes:
            bits_of(change.tensor).scatter(change.where, change.new)
        return changes, sums"""

MUTANTS = [
    Mutant(
        name="back",
        what="holds its tongue when it is asked to go back",
        patch=edit("deltawire.consumer.follower:Follower.poll", ("if to is not None and to < previous:", "if False:")),
        caught_by=("following/back",),
    ),
    Mutant(
        name="another-stream",
        what="does not look whose version it holds",
        patch=edit(
            "deltawire.consumer.follower:Follower._held_here",
            ("if held is not None and held.committed.record.stream_id != stream.stream_id:", "if False:"),
        ),
        caught_by=("following/another-stream",),
    ),
    Mutant(
        name="unknown-names",
        what="does without tensors that are not there",
        patch=edit("deltawire.consumer.selection:_matching", ("if not found:", "if False:")),
        caught_by=("following/some-unknown",),
    ),
    Mutant(
        name="other-selection",
        what="goes on with the tensors that it holds, whichever are wanted",
        patch=edit(
            "deltawire.consumer.follower:Follower._take",
            ("if step.delta is not None and held is not None and list(held.tensors) != selected:", "if False:"),
        ),
        caught_by=("following/some-others",),
    ),
    Mutant(
        name="no-aliases",
        what="does not know tensors by their aliases",
        patch=edit(
            "deltawire.consumer.selection:select",
            ("table.aliases.get(name, name) for", "name for"),
            also=("deltawire.consumer.follower:select",),
        ),
        caught_by=("following/some-tensors",),
    ),
    Mutant(
        name="every-batch",
        what="fetches every batch, whatever is wanted",
        patch=edit(
            "deltawire.consumer.steps:stage_delta",
            ("if every or _any_between(ordinals, batch.first_tensor, batch.last_tensor)", ""),
        ),
        caught_by=("following/some-batches",),
    ),
    Mutant(
        name="writes-at-once",
        what="writes the bits of each row before it has seen the others",
        patch=edit(
            "deltawire.consumer.steps:stage_delta",
            (_STAGE, _WRITE),
        ),
        caught_by=("digest/sums", "digest/changed-elements", "rows/covered-twice"),
    ),
]
