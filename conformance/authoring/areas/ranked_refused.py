"""The codec ``ranked``: rows that do not decode, each with one fault (SPEC.md sections 9.6 and 9.7)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from authoring.drafts import Draft, refused_next
from authoring.parts import RawRow, write_part
from authoring.ranked import (
    ALL,
    AREA,
    BITMAP,
    CUT,
    FEATURES,
    NONE,
    Choose,
    Pieces,
    gap,
    listed,
    long_gap,
    of_bits,
    ranked_row,
    ranked_stream,
    shortest,
)
from authoring.states import State, small_model, values


def drafts() -> Iterator[Draft]:
    """All cases."""
    yield from _bad_classes()
    yield from _bad_streams()
    yield from _bad_values()
    yield from _bad_subsets()
    yield _bad_boxes()


def _next(
    name: str, title: str, requirements: Sequence[str], change: Callable[[Pieces], object], *, dtype: str = "BF16",
    old: Sequence[int] | None = None, new: dict[int, int] | None = None, ends: Sequence[int] = CUT,
    choose: Choose = shortest, streams: Callable[[dict[str, bytes]], object] | None = None, counted: int = 0,
) -> Draft:  # fmt: skip
    """A row with one fault.

    Args:
        name, title, requirements: of the case.
        change: makes it in the pieces of the row.
        dtype, old: the tensor; 300 elements of BF16 if None.
        new: what changes, by position; three elements by a few units if None.
        ends, choose: see ``authoring.ranked.pieces``.
        streams: makes the fault in the bytes instead.
        counted: how many more changes the row counts than there are.
    """
    held = values("BF16", (300,)) if old is None else of_bits(dtype, old)
    state = State({"w": held})
    changes = new or {at: int(held.bits[at]) ^ mask for at, mask in ((3, 1), (120, 0x16), (200, 0x8009))}
    after = state.with_bits("w", list(changes), list(changes.values()))

    def rows(_: list[RawRow]) -> list[RawRow]:
        row = ranked_row(state, after, 0, ends=ends, choose=choose, change=change)
        if streams is not None:
            streams(row.streams)
        row.changed += counted
        return [row]

    return refused_next(
        AREA, name, title, requirements, ranked_stream(name, state), "malformed_row",
        grow=lambda s: s.delta(after, rows=rows), features=FEATURES,
    )  # fmt: skip


def _as_it_is(_: Pieces) -> None:
    """Leave the row as it is."""


def _bytes(**parts: Callable[[bytes], bytes]) -> Callable[[dict[str, bytes]], object]:
    """Change the bytes of streams."""
    return lambda streams: streams.update({name: change(streams[name]) for name, change in parts.items()})


def _bad_classes() -> Iterator[Draft]:
    yield _next(
        "classes-none", "a row without classes, and with code bytes as of one class", ["RNK-1"], _as_it_is, ends=(255,),
        streams=_bytes(classes=lambda data: b"\0" + data[2:]),
    )  # fmt: skip
    yield _next("classes-seventeen", "seventeen classes", ["RNK-1"], _as_it_is, ends=(*range(100, 132, 2), 255))
    yield _next(
        "classes-cut-short", "a row that ends before the last level of its only class", ["RNK-1", "RNK-2"], _as_it_is,
        dtype="U8", old=[0] * 40, new={7: 1, 30: 1}, ends=(0,), choose=listed(0),
        streams=_bytes(classes=lambda data: data[:1]),
    )  # fmt: skip
    yield _next("levels-repeat", "two classes with one last level", ["RNK-1"], _as_it_is, ends=(99, 99, 255))
    yield _next(
        "levels-descend", "a last level below that of the class before", ["RNK-1"], _as_it_is, ends=(126, 99, 255)
    )
    yield _next(
        "levels-above-left-out", "classes up to the highest level that an element of one byte can have", ["RNK-1"],
        _as_it_is, dtype="U8", old=list(range(0, 200, 3)), new={4: 13, 60: 182}, ends=(99, 127),
    )  # fmt: skip


def _bad_streams() -> Iterator[Draft]:
    yield _next(
        "codes-missing", "a row without its last code byte", ["RNK-2", "COD-3"], _as_it_is, choose=listed(0),
        new={3: 0x3F80, 9: 0x3F80}, old=[0x3F81] * 20, ends=(255,), streams=_bytes(classes=lambda data: data[:-1]),
    )  # fmt: skip
    yield _next(
        "codes-left-over", "a code byte behind the last", ["RNK-2", "COD-3"], _as_it_is,
        streams=_bytes(classes=lambda data: data + bytes([NONE])),
        new={3: 0x3F80, 9: 0x3F82}, old=[0x3F81] * 20,
    )  # fmt: skip
    yield _next(
        "items-too-short", "bits that end within the digits of the last value", ["RNK-2", "COD-3"], _as_it_is,
        old=[0x3F81] * 20, new={3: 0x3F81 + 0x101}, ends=(255,),
        streams=_bytes(items=lambda data: data[:-1]),
    )  # fmt: skip
    yield _next(
        "items-too-long", "a byte of zeros behind the padding", ["RNK-2", "COD-3"], _as_it_is,
        streams=_bytes(items=lambda data: data + b"\0"),
    )  # fmt: skip
    yield _next(
        "items-where-none", "a byte of zeros where no subset takes bits", ["RNK-2", "COD-3"], _as_it_is,
        dtype="U8", old=[5] * 9, new=dict.fromkeys(range(9), 6), ends=(255,), streams=_bytes(items=lambda _: b"\0"),
    )  # fmt: skip
    yield _next(
        "padding-not-zero", "a bit behind the last value that is not 0", ["RNK-2"], _as_it_is,
        streams=_bytes(items=lambda data: data[:-1] + bytes([data[-1] | 128])),
    )  # fmt: skip
    yield _next(
        "bitmap-too-short", "a subset bit by bit, of which the last is missing", ["RNK-2"],
        lambda row: row.put("0 changed", BITMAP, "00100010"),
        dtype="U8", old=[5] * 9, new={2: 6, 6: 6}, ends=(255,),
    )  # fmt: skip
    yield _next("changed-more", "a row that counts one change more than it has items", ["RNK-3"], _as_it_is, counted=1)
    yield _next(
        "changed-fewer", "a row that counts one change less than it has items", ["RNK-3"], _as_it_is, counted=-1
    )


def _bad_values() -> Iterator[Draft]:
    def down(row: Pieces) -> None:
        row.put("0 down", ALL, "")

    def up(row: Pieces) -> None:
        row.put("0 down", NONE, "")

    yield _next(
        "down-by-nothing", "an item that flips and goes down by nothing", ["RNK-4"], down,
        old=[0x3F80, 0x4000], new={1: 0xC000}, ends=(255,),
    )  # fmt: skip
    yield _next(
        "below-zero", "an item that goes down by more than its magnitude", ["RNK-4"], down,
        old=[0x3F80, 2], new={1: 5}, ends=(255,),
    )  # fmt: skip
    yield _next(
        "above-the-top", "an item that goes up past the highest magnitude", ["RNK-4"], up,
        old=[0x3F80, 0x7FFE], new={1: 0x7FFC}, ends=(255,),
    )  # fmt: skip
    half = 1 << 63
    yield _next(
        "below-zero-of-64-bits", "a distance of 2^63 down from a magnitude of 2^63 - 2", ["RNK-4"],
        lambda row: _farthest(row, down), dtype="F64", old=[half - 2, 7], new={0: 0}, ends=(255,),
    )  # fmt: skip
    yield _next(
        "above-the-top-of-64-bits", "a distance of 2^63 up from a magnitude of 2^63 - 1", ["RNK-4"],
        lambda row: _farthest(row, up), dtype="F64", old=[half - 1, 7], new={0: 0}, ends=(255,),
    )  # fmt: skip


def _farthest(row: Pieces, then: Callable[[Pieces], object]) -> None:
    row.named("0 digits").bits = "1" * 62
    then(row)


def _bad_subsets() -> Iterator[Draft]:
    lone: dict[str, Any] = {"dtype": "U8", "old": [5] * 9, "ends": (255,)}
    for code, natural, new in ((65, NONE, {2: 6, 6: 6}), (97, ALL, dict.fromkeys(range(9), 6)), (129, BITMAP, {2: 6})):
        name = "flips" if natural == NONE else "changed"

        def change(row: Pieces, name: str = name, code: int = code, natural: int = natural) -> None:
            piece = row.named(f"0 {name}")
            assert piece.code == natural
            piece.code = code

        yield _next(
            f"code-{code}", f"the code byte {code}", ["SUB-1"], change, new=new,
            choose=(lambda meant, things: BITMAP if 0 < len(meant) < things else shortest(meant, things)), **lone,
        )  # fmt: skip
    yield _next(
        "gap-past-the-end", "a list of two things of nine that ends with a gap past the ninth", ["SUB-2"],
        lambda row: row.put("0 changed", 1, gap(2, 1) + gap(3, 1) + gap(3, 1)), new={2: 6, 6: 6}, **lone,
    )  # fmt: skip
    yield _next(
        "gap-past-the-end-of-others", "a list of those that did not change, with a gap past the end", ["SUB-2"],
        lambda row: row.put("0 changed", 33, gap(2, 1) + gap(3, 1) + gap(3, 1)),
        new={at: 6 for at in range(9) if at not in {2, 6}}, **lone,
    )  # fmt: skip
    yield _next(
        "list-without-end", "a list whose last number is not there", ["SUB-2"],
        lambda row: row.put("0 changed", 6, gap(70, 6)), dtype="U8", old=[5] * 300, new={70: 6}, ends=(255,),
    )  # fmt: skip
    yield _next(
        "gap-in-the-longer-form", "a gap with the quotient 23 in the longer form", ["SUB-3"],
        lambda row: row.put("0 changed", 2, long_gap(95) + gap(204, 2)),
        dtype="U8", old=[5] * 300, new={95: 6}, ends=(255,),
    )  # fmt: skip


def _bad_boxes() -> Draft:
    old = small_model()
    middle = old.with_bits("embed.weight", [0, 14], [7, 8])
    new = middle.with_bits("embed.weight", [26, 45], [2, 3])
    made = [
        ranked_row(old, middle, 0, start=[0, 0], shape=[5, 6]),
        ranked_row(middle, new, 0, start=[4, 0], shape=[4, 5]),
    ]
    return refused_next(
        AREA, "boxes-of-more-than-the-tensor", "rows in two parts whose boxes have two elements more than their tensor",
        ["RNK-5"], ranked_stream("boxes", old), "malformed_row",
        grow=lambda s: s.delta(new, rows=lambda _: made, write=lambda rows: [write_part([[row]]) for row in rows]),
        features=FEATURES,
    )  # fmt: skip
