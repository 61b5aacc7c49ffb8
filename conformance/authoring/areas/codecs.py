"""Codecs: streams that decode, and those that do not (SPEC.md section 9 and appendix A)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from authoring.drafts import Draft, accepted, refused_next
from authoring.parts import RawRow, row_of
from authoring.states import State, Values, small_model, trained, values
from authoring.stream import Stream, small_stream

AREA = "codecs"
Streams = dict[str, bytes]


def drafts() -> Iterator[Draft]:
    """All cases."""
    yield from _bad_positions()
    yield from _bad_differences()
    yield from _bad_values()
    yield from _sound()


def _stream(name: str, state: State) -> Stream:
    stream = Stream(f"codecs {name}")
    stream.create()
    stream.rebase(state)
    return stream


def _next(
    name: str, title: str, requirements: Sequence[str], change: Callable[[Streams], object], *, codec: str = "gap",
    dtype: str = "BF16", elements: int = 300, positions: Sequence[int] = (3, 120, 200),
) -> Draft:  # fmt: skip
    """A row whose streams do not decode.

    Args:
        name, title, requirements: of the case.
        change: changes the streams.
        codec: of the row.
        dtype, elements: of its tensor.
        positions: that change.
    """
    state = State({"w": values(dtype, (elements,))})
    bits = state.tensors["w"].bits

    def change_first(rows: list[RawRow]) -> None:
        change(rows[0].streams)

    return refused_next(
        AREA, name, title, requirements, _stream(name, state), "malformed_row",
        grow=lambda s: s.delta(
            state.with_bits("w", positions, [int(bits[at]) ^ 1 for at in positions]),
            codec=codec, rows=change_first,
        ),
    )  # fmt: skip


def _put(stream: str, data: str) -> Callable[[Streams], object]:
    """Put hexadecimal bytes in the place of a stream."""
    return lambda streams: streams.update({stream: bytes.fromhex(data)})


def _bad_positions() -> Iterator[Draft]:
    yield _next("escape-at-end", "positions that end in an escape", ["GAP-2"], _put("positions", "ff"), positions=[254])
    yield _next(
        "position-past-box", "position 255 in a box of 255 elements", ["GAP-2"], _put("positions", "ff00"),
        elements=255, positions=[254],
    )  # fmt: skip
    yield _next(
        "positions-too-many", "two positions where one was counted", ["GAP-2", "COD-3"], _put("positions", "0000"),
        positions=[0],
    )  # fmt: skip
    yield _next(
        "positions-too-few", "one position where two were counted, in as many bytes as two can take",
        ["GAP-2", "COD-3"], _put("positions", "ff00"), positions=[0, 1], codec="gap-set",
    )  # fmt: skip
    yield _next(
        "positions-too-long", "positions of more bytes than as many of them can take", ["GAP-2", "LIM-3"],
        _put("positions", "ffff" + "ff" * 60 + "00"), positions=[255], elements=256, codec="gap-set",
    )  # fmt: skip


def _bad_differences() -> Iterator[Draft]:
    yield _next("signs-left-over", "a bit behind the last sign that is not 0", ["VAL-1"], _put("signs", "08"))
    yield _next("signs-too-long", "a byte of signs that no element needs", ["VAL-1", "COD-3"], _put("signs", "0000"))
    yield _next(
        "signs-too-short", "nine differences with the signs of eight", ["VAL-1"], _put("signs", "00"),
        positions=range(0, 270, 30),
    )  # fmt: skip

    def magnitude(sign: str, planes: str) -> Callable[[Streams], object]:
        bytes_of = {"signs": sign, "diff_0": planes[:2], "diff_1": planes[2:]}
        return lambda streams: streams.update({name: bytes.fromhex(data) for name, data in bytes_of.items()})

    yield _next(
        "difference-too-large", "a difference of 2^15 between bf16 elements", ["VAL-3"], magnitude("00", "ff7f"),
        positions=[5],
    )  # fmt: skip
    yield _next(
        "difference-too-small", "a difference of -2^15 - 1 between bf16 elements", ["VAL-3"], magnitude("01", "0080"),
        positions=[5],
    )  # fmt: skip
    yield _next(
        "difference-plane-short", "a plane of differences with a byte less than the others", ["VAL-2", "COD-3"],
        lambda streams: streams.update(diff_1=streams["diff_1"][:-1]),
    )  # fmt: skip


def _bad_values() -> Iterator[Draft]:
    yield _next(
        "value-plane-long", "a plane of new bits with a byte more than the others", ["COD-3"],
        lambda streams: streams.update(value_0=streams["value_0"] + b"\0"), codec="gap-set",
    )  # fmt: skip
    yield _next(
        "dense-of-changes", "a dense row with planes of the changed elements alone", ["DEN-1", "COD-3"],
        lambda streams: streams.update(
            {name: bytes(plane[at] for at in (3, 120, 200)) for name, plane in streams.items()}
        ),
        codec="dense",
    )  # fmt: skip
    yield _next(
        "dense-plane-empty", "a dense row with an empty plane", ["DEN-1", "ROW-3"],
        lambda streams: streams.update(value_1=b""), codec="dense",
    )  # fmt: skip

    def renamed(rows: list[RawRow]) -> None:
        rows[-1].codec = "ranked-9"

    yield refused_next(
        AREA, "unknown-codec", "a row with a codec that is not in the registry", ["COD-1"],
        small_stream("codecs unknown", versions=2), "unsupported_codec",
        grow=lambda s: s.delta(trained(s.states[-1], 9), rows=renamed),
    )  # fmt: skip


# Codec, dtype, old, new, streams: the vectors of appendix A.9, as they stand there.
CODEC_VECTORS = [
    ("gap", "BF16", "803f00800000c17f80bf", "803f00000000c27f7fbf",
     "positions=010100 signs=00 diff_0=000000 diff_1=000000"),
    ("gap", "U8", "00010203040506070809", "01000302050407060908",
     "positions=00000000000000000000 signs=aa02 diff_0=00000000000000000000"),
    ("gap", "F32", "0000803f00000040", "0000803f000000c0",
     "positions=01 signs=00 diff_0=fe diff_1=ff diff_2=ff diff_3=7f"),
    ("gap-set", "BF16", "803f00800000c17f80bf", "803f00000000c27f7fbf",
     "positions=010100 value_0=00c27f value_1=007fbf"),
    ("gap-set", "F8_E4M3", "38393a", "38393b", "positions=02 value_0=3b"),
    ("dense", "BF16", "803f00800000", "813f00000000", "value_0=810000 value_1=3f0000"),
    ("dense", "I64", "00000000000000000100000000000000", "ffffffffffffffff0100000000000000",
     "value_0=ff01 value_1=ff00 value_2=ff00 value_3=ff00 value_4=ff00 value_5=ff00 value_6=ff00 value_7=ff00"),
]  # fmt: skip
# Dtype, old and new as numbers, sign, planes: those of A.8.
DIFFERENCE_VECTORS = [
    ("BF16", "3f80", "3f81", 0, "0000"), ("BF16", "3f80", "3f7f", 1, "0000"), ("BF16", "8000", "0000", 0, "0000"),
    ("BF16", "0000", "8000", 1, "0000"), ("BF16", "8001", "0001", 0, "0200"), ("BF16", "7fff", "ffff", 0, "0000"),
    ("F8_E5M2", "7f", "ff", 0, "00"), ("F32", "3f800000", "bf800000", 1, "0000007f"),
    ("I16", "7fff", "8000", 0, "0000"), ("U8", "00", "80", 1, "7f"), ("U8", "80", "00", 1, "7f"),
    ("U8", "ff", "00", 0, "00"), ("BOOL", "00", "01", 0, "00"),
    ("C64", "0000000000000000", "0000000100000000", 0, "ffffffff00000000"),
]  # fmt: skip
# Elements, positions, stream: those of A.6.
POSITION_VECTORS = [
    (1, [0], "00"), (10, [0, 1, 2, 9], "00000006"), (300, [254], "fe"), (300, [255], "ff00"),
    (300, [256, 257], "ff0100"), (2000, [0, 510, 1999], "00fffeffffffffffd5"),
]  # fmt: skip
# Dtype, old and new bits: signed zeros, subnormals, infinities, NaNs with payloads, the ends of the order.
SPECIAL = [
    ("F32", [0, 1 << 31, 0x7FC00001, 0xFF800000, 1, 0x7FFFFFFF, 0x7F800000],
     [1 << 31, 0, 0x7FC00002, 0x7F800000, 0x80000001, 0xFFFFFFFF, 0x7F800001]),
    ("F16", [0, 0x8000, 0x7E01, 0xFC00, 0xFFFF], [0x8000, 0, 0x7D55, 0x7C00, 0x7FFF]),
    ("F64", [0, 1 << 63, 0x7FF8000000000001, (1 << 64) - 1], [1 << 63, 0, 0xFFF8000000000001, (1 << 63) - 1]),
    ("F8_E4M3", [0, 0x80, 0x7F, 0xFF], [0x80, 0, 0xFF, 0x7E]),
    ("I32", [0, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF], [0x80000000, 0x80000000, 0x7FFFFFFF, 0]),
]  # fmt: skip


def _vector_stream(name: str, vectors: Sequence[tuple[str, Values, Values, Streams]]) -> Stream:
    """A version with a row for each vector, whose streams are those of the vector."""
    old = State({f"v{number}": before for number, (_, before, _, _) in enumerate(vectors)})
    new = State({f"v{number}": after for number, (_, _, after, _) in enumerate(vectors)})
    rows = [row_of(old, new, number, codec) for number, (codec, _, _, _) in enumerate(vectors)]
    for row, (_, _, _, streams) in zip(rows, vectors, strict=True):
        assert row.streams == streams
        row.streams = streams
    stream = _stream(name, old)
    stream.delta(new, rows=lambda _: rows)
    return stream


def _codec_vectors() -> Iterator[tuple[str, Values, Values, Streams]]:
    for codec, dtype, old, new, said in CODEC_VECTORS:
        streams = {name: bytes.fromhex(data) for name, _, data in (part.partition("=") for part in said.split())}
        before, after = (bytes.fromhex(data) for data in (old, new))
        shape = (len(next(iter(streams.values()))) if codec == "dense" else len(before) // _width(dtype),)
        yield codec, Values(dtype, shape, before), Values(dtype, shape, after), streams


def _difference_vectors() -> Iterator[tuple[str, Values, Values, Streams]]:
    for dtype, old, new, sign, planes in DIFFERENCE_VECTORS:
        before, after = (bytes.fromhex(number)[::-1] for number in (old, new))
        streams = {"positions": b"\0", "signs": bytes([sign])}
        streams |= {f"diff_{plane}": bytes([byte]) for plane, byte in enumerate(bytes.fromhex(planes))}
        yield "gap", Values(dtype, (1,), before), Values(dtype, (1,), after), streams


def _position_vectors() -> Iterator[tuple[str, Values, Values, Streams]]:
    for elements, positions, said in POSITION_VECTORS:
        before = bytes(elements)
        after = bytes(7 if at in positions else 0 for at in range(elements))
        streams = {"positions": bytes.fromhex(said), "value_0": b"\7" * len(positions)}
        yield "gap-set", Values("U8", (elements,), before), Values("U8", (elements,), after), streams


def _width(dtype: str) -> int:
    return {"U8": 1, "F8_E4M3": 1, "BF16": 2, "F32": 4, "I64": 8}[dtype]


def _of_bits(dtype: str, bits: Sequence[int]) -> Values:
    blank = values(dtype, (len(bits),))
    return State({"": blank}).with_bits("", range(len(bits)), bits).tensors[""]


def _special() -> Stream:
    codecs = ("gap", "gap-set", "dense")
    old, new = (
        State({f"{dtype} {codec}": _of_bits(dtype, bits[at]) for codec in codecs for dtype, *bits in SPECIAL})
        for at in (0, 1)
    )
    stream = _stream("special", old)
    stream.delta(new, codec={name: name.partition(" ")[2] for name in old.tensors})
    return stream


def _sound() -> Iterator[Draft]:
    vectors = (
        ("codec-vectors", "the streams of appendix A.9", ["COD-1", "GAP-1", "VAL-2", "DEN-1"], _codec_vectors()),
        ("difference-vectors", "the differences of appendix A.8", ["VAL-2", "VAL-1", "DTY-2"], _difference_vectors()),
        ("position-vectors", "the positions of appendix A.6", ["GAP-1", "GAP-2"], _position_vectors()),
    )
    for name, title, requirements, made in vectors:
        yield accepted(AREA, name, title, requirements, _vector_stream(name, list(made)))
    yield accepted(
        AREA, "special-values", "signed zeros, NaNs with payloads, infinities and the ends of the order, by each codec",
        ["DTY-4", "VAL-2", "COD-1"], _special(),
    )  # fmt: skip
    state = small_model()
    stream = _stream("dense", state)
    stream.delta(state.with_bits("embed.weight", [17], [1]), codec="dense")
    yield accepted(
        AREA, "dense-for-one-change", "a dense row of a matrix in which one element changed", ["DEN-2", "DEN-1"], stream
    )
