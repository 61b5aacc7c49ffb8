"""Rows and boxes (SPEC.md sections 7.4 and 8.6)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from authoring.drafts import Draft, accepted, refused_next
from authoring.parts import RawPart, RawRow, row_of, stream_names, write_part
from authoring.states import M64, State, digest_of, small_model, trained, values
from authoring.stream import Stream, small_stream

AREA = "rows"
EMBED, NORM = 0, 2
"""Ordinals of ``small_model``: [8, 6] and [7]."""


def drafts() -> Iterator[Draft]:
    """All cases."""
    yield from _no_boxes()
    yield from _wrong_counts()
    yield from _wrong_streams()
    yield from _sound()


def _next(
    name: str, title: str, requirements: Sequence[str], change: Callable[[list[RawRow]], None], *,
    write: Callable[[list[RawRow]], list[RawPart]] | None = None, codec: str = "gap",
) -> Draft:  # fmt: skip
    """A version with one faulty row."""
    return refused_next(
        AREA, name, title, requirements, small_stream(f"rows {name}", versions=2), "malformed_row",
        grow=lambda s: s.delta(trained(s.states[-1], 9), rows=change, write=write, codec=codec),
    )  # fmt: skip


def _box(start: Sequence[int], shape: Sequence[int]) -> Callable[[list[RawRow]], None]:
    """Put the last row, of the tensor of seven elements, into a box."""

    def change(rows: list[RawRow]) -> None:
        rows[-1].box_start, rows[-1].box_shape = start, shape

    return change


def _beyond_the_table(rows: list[RawRow]) -> None:
    rows[-1].tensor = 3


def _no_boxes() -> Iterator[Draft]:
    yield _next("ordinal", "a row of a tensor that the table has not got", ["ROW-1"], _beyond_the_table)
    yield _next("box-leaves-tensor", "a box that ends behind its tensor", ["BOX-1", "ROW-1"], _box([1], [7]))
    yield _next(
        "box-overflow", "a box whose start and extent add up to seven modulo 2^64", ["BOX-1"], _box([2**64 - 1], [8])
    )
    yield _next("box-empty", "a box with an extent of 0", ["BOX-1"], _box([0], [0]))
    yield _next("box-rank", "a box of two dimensions in a tensor of one", ["BOX-1"], _box([0, 0], [1, 7]))
    yield _next("box-starts", "a box with a start more than it has extents", ["BOX-1"], _box([0, 0], [7]))
    yield _next("box-scalar", "a box without dimensions in a tensor of one", ["BOX-1"], _box([], []))


def _set(**members: int) -> Callable[[list[RawRow]], None]:
    """Say something else in the last row."""

    def change(rows: list[RawRow]) -> None:
        for name, value in members.items():
            setattr(rows[-1], name, value)

    return change


def _wrong_counts() -> Iterator[Draft]:
    yield refused_next(
        AREA, "changed-none", "a row in which nothing changed", ["ROW-2", "DLT-2"],
        small_stream("rows none", versions=2), "malformed_row",
        grow=lambda s: s.delta(
            s.states[-1].with_bits("embed.weight", [3], [77]),
            rows=lambda rows: [*rows, RawRow(1, [0, 0], [6, 10], "gap", 0, 0, 0)],
        ),
    )  # fmt: skip
    yield _next(
        "changed-above-box", "a row that counts more changes than its box has elements", ["ROW-2"],
        _set(changed=8), codec="dense",
    )  # fmt: skip
    yield _next(
        "changed-too-few", "a dense row that counts one change less than there are", ["ROW-2", "DEN-2"],
        _set(changed=4), codec="dense",
    )  # fmt: skip
    yield _next(
        "changed-all", "a dense row that counts every element of its box as changed", ["ROW-2", "DEN-2"],
        _set(changed=7), codec="dense",
    )  # fmt: skip
    yield refused_next(
        AREA, "covered-unchanged", "a gap-set row that covers an element that keeps its bits", ["ROW-2"],
        small_stream("rows unchanged", versions=2), "malformed_row", grow=_covers_unchanged,
    )  # fmt: skip
    yield refused_next(
        AREA, "covered-twice", "an element that two rows cover, and that keeps its bits", ["ROW-4", "APL-1", "APL-4"],
        small_stream("rows twice", versions=2), "malformed_row", grow=_covers_twice,
    )  # fmt: skip
    yield refused_next(
        AREA, "two-values", "an element to which two rows give different bits, in a record whose sums are right",
        ["ROW-4"], small_stream("rows two values", versions=2), "malformed_row", grow=_two_values,
    )  # fmt: skip


def _covers_unchanged(stream: Stream) -> None:
    old = stream.states[-1]
    new = old.with_bits("norm.weight", [1, 4], [1, 2])
    kept = int(old.tensors["norm.weight"].bits[2])
    row = row_of(old, old.with_bits("norm.weight", [1, 2, 4], [1, kept ^ 1, 2]), NORM, "gap-set")
    plane = bytearray(row.streams["value_0"])
    plane[1] ^= 1
    row.streams["value_0"] = bytes(plane)
    row.digest_after = digest_of(old.table()[NORM], new.tensors["norm.weight"].bits[[1, 2, 4]], np.array([1, 2, 4]))
    stream.delta(new, rows=lambda _: [row])


def _covers_twice(stream: Stream) -> None:
    old = stream.states[-1]
    new = old.with_bits("norm.weight", [1, 5], [1, 2])
    boxes = [([0], [4]), ([3], [3])]
    stream.delta(new, rows=lambda _: [row_of(old, new, NORM, "dense", start=a, shape=b) for a, b in boxes])


def _two_values(stream: Stream) -> None:
    old = stream.states[-1]
    new = old.with_bits("norm.weight", [1], [1])
    rows = [row_of(old, old.with_bits("norm.weight", [1], [bits]), NORM, "gap-set") for bits in (1, 9)]
    digest = old.digest + sum(row.digest_after - row.digest_before for row in rows)
    stream.delta(new, rows=lambda _: rows, edit=lambda record: record.update(state_digest=f"{digest & M64:016x}"))


def _as_they_are(rows: list[RawRow]) -> None:
    """Leave the rows as they are."""


def _wrong_streams() -> Iterator[Draft]:
    def signs(rows: list[RawRow]) -> None:
        rows[-1].streams["signs"] = b"\x01"

    yield _next(
        "stream-not-needed", "a dense row with a stream that dense does not have", ["ROW-3"], signs, codec="dense"
    )
    yield _next(
        "stream-missing", "a part without the stream signs, and rows that need it", ["ROW-3"], _as_they_are,
        write=lambda rows: [write_part([rows], streams=[n for n in stream_names(rows) if n != "signs"])],
    )  # fmt: skip
    yield _next(
        "planes-missing", "a part with two planes, and a row of a tensor that needs four", ["ROW-3"], _as_they_are,
        write=lambda rows: [write_part([rows], streams=["positions", "signs", "diff_0", "diff_1"])],
    )  # fmt: skip


def _sound() -> Iterator[Draft]:
    yield accepted(
        AREA, "boxes", "boxes of a matrix and of a tensor of three dimensions, with every codec, in no order",
        ["BOX-3", "ROW-1", "DIG-2"], _boxes("rows boxes"),
    )  # fmt: skip
    yield accepted(
        AREA, "boxes-overlap", "boxes that overlap, and rows in them that cover different elements", ["ROW-4"],
        _overlapping("rows overlap"),
    )  # fmt: skip
    yield accepted(
        AREA, "tensor-in-parts", "rows of one tensor in two batches and a second part", ["ROW-1"],
        _scattered("rows scattered"),
    )  # fmt: skip


def _stream(name: str, state: State) -> Stream:
    stream = Stream(name)
    stream.create()
    stream.rebase(state)
    return stream


def _boxes(name: str) -> Stream:
    old = State({"a": values("BF16", (8, 6)), "b": values("F32", (3, 4, 5)), "c": values("U8", (40,))})
    new = trained(old, 1, changes=30)
    cuts = [
        (1, "gap", [1, 1, 1], [2, 3, 4]), (1, "dense", [0, 0, 0], [1, 4, 5]), (1, "gap-set", [1, 0, 0], [2, 1, 5]),
        (1, "dense", [1, 1, 0], [2, 3, 1]), (2, "gap-set", [25], [15]), (2, "gap", [0], [25]),
        (0, "gap", [0, 0], [8, 2]), (0, "gap-set", [0, 2], [3, 4]), (0, "dense", [3, 2], [5, 4]),
    ]  # fmt: skip
    stream = _stream(name, old)
    stream.delta(new, rows=lambda _: [row_of(old, new, at, codec, start=s, shape=e) for at, codec, s, e in cuts])
    return stream


def _overlapping(name: str) -> Stream:
    old = small_model()
    middle = old.with_bits("embed.weight", [0, 14, 15], [7, 8, 9])
    new = middle.with_bits("embed.weight", [8, 20, 47], [1, 2, 3])
    stream = _stream(name, old)
    stream.delta(
        new,
        rows=lambda _: [
            row_of(old, middle, EMBED, "gap", start=[0, 0], shape=[5, 6]),
            row_of(middle, new, EMBED, "gap-set", start=[1, 1], shape=[7, 5]),
        ],
    )
    return stream


def _scattered(name: str) -> Stream:
    old = small_model()
    new = trained(old, 1, changes=20)
    stream = _stream(name, old)

    def rows(_: list[RawRow]) -> list[RawRow]:
        quarters = [row_of(old, new, EMBED, "gap", start=[2 * k, 0], shape=[2, 6]) for k in range(4)]
        return [*quarters, row_of(old, new, 1, "gap"), row_of(old, new, NORM, "gap-set")]

    stream.delta(
        new,
        rows=rows,
        write=lambda made: [write_part([[made[0]], [made[2], made[4]]]), write_part([[made[1], made[3], made[5]]])],
    )
    return stream
