"""Digests of rows, deltas and states (SPEC.md sections 8.2 and 10)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from authoring.drafts import Draft, accepted, refused_next
from authoring.parts import RawRow, row_of
from authoring.states import M64, State, digest_of, small_model, trained
from authoring.stream import Stream, small_stream

AREA = "digest"
NORM = 2


def drafts() -> Iterator[Draft]:
    """All cases."""
    yield from _rows()
    yield from _sums()
    stream = small_stream("digest unchanged", versions=1)
    stream.delta(stream.states[0])
    stream.delta(trained(stream.states[0], 1))
    yield accepted(
        AREA,
        "nothing-changed",
        "a version in which nothing changed, and one after it",
        ["VSN-7", "DLT-4", "DIG-6"],
        stream,
    )


def _next(
    name: str, title: str, requirements: Sequence[str], error: str, *, grow: Callable[[Stream], object]
) -> Draft:  # fmt: skip
    return refused_next(
        AREA, name, title, requirements, small_stream(f"digest {name}", versions=2), error, grow=grow
    )  # fmt: skip


def _opposed(member: str) -> Callable[[Stream], object]:
    """Two rows whose digests are wrong, by as much in opposite directions, so that every sum is right."""

    def rows(made: list[RawRow]) -> None:
        for row, by in ((made[0], 1), (made[1], -1)):
            setattr(row, member, (getattr(row, member) + by) & M64)

    return lambda s: s.delta(trained(s.states[-1], 9), rows=rows)


def _one_row(row: Callable[[State, State], RawRow]) -> Callable[[Stream], object]:
    """A version that changes two elements of one tensor, with a row of one's own."""

    def grow(stream: Stream) -> None:
        old = stream.states[-1]
        new = old.with_bits("norm.weight", [2, 5], [1, 2])
        made = row(old, new)
        digest = old.digest + made.digest_after - made.digest_before
        stream.delta(new, rows=lambda _: [made], edit=lambda record: record.update(state_digest=f"{digest & M64:016x}"))

    return grow


def _dense_of_changes(old: State, new: State) -> RawRow:
    row, changes = (row_of(old, new, NORM, codec) for codec in ("dense", "gap"))
    row.digest_before, row.digest_after = changes.digest_before, changes.digest_after
    return row


def _counted_in_the_box(old: State, new: State) -> RawRow:
    row = row_of(old, new, NORM, "gap-set", start=[1], shape=[6])
    tensor, places = old.table()[NORM], np.array([2, 5])
    row.digest_before, row.digest_after = (
        digest_of(tensor, state.tensors["norm.weight"].bits[places], places - 1) for state in (old, new)
    )
    return row


def _other_base(stream: Stream) -> None:
    held = stream.states[-1]
    other = held.with_bits("embed.weight", [0, 7], [3, 4])
    new = trained(other, 9, changes=48)
    rows = [row_of(other, new, ordinal, "gap") for ordinal in range(3)]
    digest = held.digest + sum(row.digest_after - row.digest_before for row in rows)
    stream.delta(new, rows=lambda _: rows, edit=lambda record: record.update(state_digest=f"{digest & M64:016x}"))


def _rows() -> Iterator[Draft]:
    yield _next(
        "before-wrong", "two rows whose digest_before are wrong, in a delta whose sums are right", ["DIG-4", "ROW-5"],
        "wrong_base", grow=_opposed("digest_before"),
    )  # fmt: skip
    yield _next(
        "after-wrong", "two rows whose digest_after are wrong, in a delta whose sums are right", ["DIG-5", "ROW-5"],
        "state_mismatch", grow=_opposed("digest_after"),
    )  # fmt: skip
    yield _next(
        "other-base", "a delta that was made from other bits than its parent's", ["DLT-1", "DIG-4"], "wrong_base",
        grow=_other_base,
    )  # fmt: skip
    yield _next(
        "dense-of-changes", "a dense row whose digests are those of the changed elements alone", ["DEN-2", "ROW-5"],
        "wrong_base", grow=_one_row(_dense_of_changes),
    )  # fmt: skip
    yield _next(
        "index-in-box", "a row whose digests count indices within its box", ["DIG-2", "ROW-5"], "wrong_base",
        grow=_one_row(_counted_in_the_box),
    )  # fmt: skip


def _delta(**members: Any) -> Callable[[Stream], object]:
    """A version with nothing wrong but members of its delta."""
    return lambda s: s.delta(trained(s.states[-1], 9), edit=lambda record: record["delta"].update(members))


def _both_one_more(stream: Stream) -> None:
    def edit(record: dict[str, Any]) -> None:
        delta = record["delta"]
        for member in ("digest_before", "digest_after"):
            delta[member] = f"{(int(delta[member], 16) + 1) & M64:016x}"

    stream.delta(trained(stream.states[-1], 9), edit=edit)


def _no_parts(**members: Any) -> Callable[[Stream], object]:
    return lambda s: s.delta(s.states[-1], edit=lambda record: record["delta"].update(members))


def _sums() -> Iterator[Draft]:
    yield _next(
        "changed-elements", "a delta whose record counts an element more than its rows", ["DLT-3"], "state_mismatch",
        grow=_delta(changed_elements=16),
    )  # fmt: skip
    yield _next(
        "sums", "a delta whose sums in the record are both one more than those of its rows", ["DLT-3"],
        "state_mismatch", grow=_both_one_more,
    )  # fmt: skip
    yield _next(
        "no-parts-but-changes", "a delta without parts that counts a change", ["DLT-4"], "malformed_record",
        grow=_no_parts(changed_elements=1),
    )  # fmt: skip
    yield _next(
        "no-parts-but-sums", "a delta without parts whose sums differ", ["DLT-4"], "malformed_record",
        grow=_no_parts(digest_before="0000000000000001", digest_after="0000000000000002"),
    )  # fmt: skip
    yield _next(
        "state-digest-of-snapshot", "a rebase with another state digest than its snapshot has", ["VSN-6", "DIG-3"],
        "state_mismatch",
        grow=lambda s: s.rebase(
            small_model(seed="next"), edit=lambda record: record.update(state_digest=f"{s.states[0].digest:016x}")
        ),
    )  # fmt: skip
