"""Rows of the codec ``ranked``, bit by bit and by any code, sound or not (SPEC.md sections 9.6 and 9.7)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from authoring.parts import RawRow, row_of
from authoring.states import State, Values
from authoring.stream import Stream
from deltawire.format.boxes import Box, flat_indices
from deltawire.format.dtypes import DTYPES
from deltawire.kernels import oracle

AREA = "ranked"
FEATURES = ("ranked",)
CUT = (99, 126, 255)
"""Last levels of three classes."""
NONE, ALL, BITMAP = 64, 96, 128
CODES: tuple[int, ...] = (*range(64), NONE, ALL, BITMAP)
"""All code bytes that there are."""
Choose = Callable[[Sequence[int], int], int]
"""A code byte for a subset of so many things."""


@dataclass
class Piece:
    """What one subset takes, or the digits of a class, which have no code byte."""

    name: str
    code: int | None
    bits: str
    """The digits 0 and 1, in the order in which they are read."""


@dataclass
class Pieces:
    """A row before it is bytes."""

    ends: list[int]
    """Last levels of the classes."""
    pieces: list[Piece]

    def named(self, name: str) -> Piece:
        """A piece: ``changed``, ``flips``, ``down``, ``layer 1``, ``digits`` …, with the number of its class before."""
        return next(piece for piece in self.pieces if piece.name == name)

    def put(self, name: str, code: int, bits: str) -> None:
        """Write a subset in another way."""
        piece = self.named(name)
        piece.code, piece.bits = code, bits

    def streams(self) -> dict[str, bytes]:
        """As bytes."""
        codes = bytes(piece.code for piece in self.pieces if piece.code is not None)
        items = to_bytes("".join(piece.bits for piece in self.pieces))
        return {"classes": bytes([len(self.ends), *self.ends]) + codes, "items": items}


def to_bytes(bits: str) -> bytes:
    """Bits, the first one lowest, padded with zeros."""
    return bytes(int(bits[at : at + 8][::-1], 2) for at in range(0, len(bits), 8))


def low(number: int, count: int) -> str:
    """The low bits of a number, the least significant first."""
    return "".join(str(number >> place & 1) for place in range(count))


def gap(skipped: int, parameter: int) -> str:
    """A gap of a list. SUB-3"""
    quotient = skipped >> parameter
    if quotient < 24:
        return "1" * quotient + "0" + low(skipped, parameter)
    return long_gap(skipped)


def long_gap(skipped: int) -> str:
    """A gap in the longer form, whether it needs it or not."""
    return "1" * 24 + low(skipped, 32)


def subset(meant: Sequence[int], things: int, code: int) -> str:
    """Bits of a subset by a code that fits it. SUB-1, SUB-2"""
    if code in {NONE, ALL}:
        assert len(meant) == (things if code == ALL else 0)
        return ""
    if code == BITMAP:
        return "".join("01"[thing in meant] for thing in range(things))
    listed = meant if code < 32 else [thing for thing in range(things) if thing not in meant]
    numbers = [-1, *listed, things]
    return "".join(gap(after - before - 1, code % 32) for before, after in itertools.pairwise(numbers))


def shortest(meant: Sequence[int], things: int) -> int:
    """The code that takes the fewest bits."""
    if not meant or len(meant) == things:
        return ALL if meant else NONE
    lengths = {code: len(subset(meant, things, code)) for code in CODES if code not in {NONE, ALL}}
    return min(lengths, key=lambda code: lengths[code])


def listed(parameter: int) -> Choose:
    """Lists with one parameter, whatever they cost."""
    return lambda _meant, _things: parameter


def in_turn(seen: set[int]) -> Choose:
    """One code after the other, each where it fits.

    Args:
        seen: takes those that were chosen.
    """
    waiting = list(CODES)

    def choose(meant: Sequence[int], things: int) -> int:
        fits = {NONE: not meant, ALL: len(meant) == things}
        code = next(code for code in waiting if fits.get(code, True))
        waiting.remove(code)
        waiting.append(code)
        seen.add(code)
        return code

    return choose


def pieces(old: Sequence[int], new: Sequence[int], width: int, *, ends: Sequence[int], choose: Choose) -> Pieces:
    """Write the changes of a box.

    Args:
        old, new: all elements of the box.
        width: bytes of one.
        ends: last levels of the classes; other runs than those of RNK-1 are taken as they are.
        choose: the code of each subset.
    """
    half = 1 << (8 * width - 1)
    found: list[Piece] = []

    def say(name: str, meant: Sequence[int], things: int) -> None:
        code = choose(meant, things)
        found.append(Piece(name, code, subset(meant, things, code)))

    for number, (first, last) in enumerate(zip([0, *(end + 1 for end in ends)], ends, strict=False)):
        members = [at for at, bits in enumerate(old) if first <= (bits % half) >> max(8 * width - 9, 0) <= last]
        items = [rank for rank, at in enumerate(members) if old[at] != new[at]]
        say(f"{number} changed", items, len(members))
        if not items:
            continue
        pairs = [(old[members[rank]], new[members[rank]]) for rank in items]
        flips = [item for item, (before, after) in enumerate(pairs) if (before ^ after) & half]
        down = [item for item, (before, after) in enumerate(pairs) if after % half < before % half]
        say(f"{number} flips", flips, len(pairs))
        say(f"{number} down", down, len(pairs))
        values = [abs(after % half - before % half) - (item not in flips) for item, (before, after) in enumerate(pairs)]
        layer = list(range(len(values)))
        for length in range(1, 8 * width):
            kept = [item for item in layer if values[item].bit_length() >= length]
            say(f"{number} layer {length}", [layer.index(item) for item in kept], len(layer))
            layer = kept
            if not layer:
                break
        digits = "".join(low(value, value.bit_length() - 1) for value in values if value)
        found.append(Piece(f"{number} digits", None, digits))
    return Pieces(list(ends), found)


def ranked_row(
    old: State, new: State, ordinal: int, *, start: Sequence[int] | None = None, shape: Sequence[int] | None = None,
    ends: Sequence[int] = (255,), choose: Choose = shortest, change: Callable[[Pieces], object] | None = None,
) -> RawRow:  # fmt: skip
    """The row of a tensor, or of a box of it, in this codec.

    Args:
        old, new: states.
        ordinal: of the tensor.
        start, shape: of the box.
        ends, choose: see ``pieces``.
        change: makes a fault.
    """
    row = row_of(old, new, ordinal, "gap-set", start=start, shape=shape)
    tensor = old.table()[ordinal]
    box = Box(tuple(row.box_start), tuple(row.box_shape))
    inside = flat_indices(box, tensor.storage_shape, np.arange(box.elements, dtype=np.uint32)).astype(np.int64)
    before, after = (state.tensors[tensor.name].bits[inside] for state in (old, new))
    made = pieces(before.tolist(), after.tolist(), tensor.dtype.width, ends=ends, choose=choose)
    if change is None:
        streams = {name: np.frombuffer(data, np.uint8) for name, data in made.streams().items()}
        found = oracle.decode_ranked(before, tensor.dtype, streams["classes"], streams["items"])
        assert found == {int(at): int(after[at]) for at in np.flatnonzero(before != after)}
    else:
        change(made)
    row.codec, row.streams = "ranked", made.streams()
    return row


def ranked_stream(name: str, state: State, *, writer_features: Sequence[str] = ()) -> Stream:
    """A stream with the feature and one version."""
    stream = Stream(f"ranked {name}", reader_features=FEATURES, writer_features=writer_features)
    stream.create()
    stream.rebase(state)
    return stream


def of_bits(dtype: str, bits: Sequence[int], shape: Sequence[int] | None = None) -> Values:
    """A tensor of elements as they are stored."""
    kind = DTYPES[dtype]
    return Values(dtype, tuple(shape or (len(bits),)), np.array(bits, kind.storage).tobytes())
