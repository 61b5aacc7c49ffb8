"""The codec ``ranked``: rows that decode (SPEC.md sections 9.6 and 9.7)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from authoring.drafts import Draft, accepted
from authoring.parts import RawRow, row_of, write_part
from authoring.ranked import AREA, CODES, CUT, FEATURES, in_turn, of_bits, ranked_row, ranked_stream
from authoring.states import State, Values, small_model, trained, values
from authoring.stream import Stream
from deltawire.format.dtypes import DTYPES
from deltawire_conformance.case import Case, Materialize, Put


def drafts() -> Iterator[Draft]:
    """All cases."""
    yield from _vectors()
    yield from _sound()
    yield from _parts_of_states()


# Dtype, old, new, streams: the vectors of appendix A.9.
VECTORS = [
    ("BF16", "803f00800000c17f80bf", "803f00000000c27f7fbf", "0263ff8060404080408040", "59"),
    ("BF16", "803f8036010001b7813f82bff03f00400140003f", "803f913601800137823f82bff03f00400140ff3e",
     "03707eff6080408060606060406040604080404040", "0e08"),
    ("F8_E4M3", "38393a", "38393b", "01ff80404040", "04"),
    ("F32", "0000803f00000040", "0000803f000000c0", "01ff80604040", "02"),
    ("U8", "00017f80ff", "ff017f8000", "020aff8060406060606060606080606060606060606060", "f9fd01"),
]  # fmt: skip
# Things, subset, code, stream: those of A.15, the empty one left out.
SUBSETS = [
    (5, range(5), 96, ""), (10, [0, 3, 5, 9], 128, "2902"), (40, [7, 20], 3, "1e37"), (40, [39], 3, "ef00"),
    (24, [*range(21), 22, 23], 35, "2b01"),
]  # fmt: skip
LONG_SUBSETS = [([5, 99999], 14, "0a805fa6010000"), ([5], 0, "dfffffbfa6610000")]


def _with_streams(old: State, new: State, ordinal: int, classes: str, items: str) -> RawRow:
    row = row_of(old, new, ordinal, "gap-set")
    row.codec, row.streams = "ranked", {"classes": bytes.fromhex(classes), "items": bytes.fromhex(items)}
    return row


def _accepted(name: str, title: str, requirements: Sequence[str], stream: Stream, **more: object) -> Draft:
    return accepted(AREA, name, title, requirements, stream, **{"features": FEATURES, **more})


def _vectors() -> Iterator[Draft]:
    old, new = (
        State({f"v{at}": _of_raw(vector[0], bytes.fromhex(vector[which])) for at, vector in enumerate(VECTORS)})
        for which in (1, 2)
    )
    stream = ranked_stream("vectors", old)
    rows = [_with_streams(old, new, at, *vector[3:]) for at, vector in enumerate(VECTORS)]
    stream.delta(new, rows=lambda _: rows)
    yield _accepted("vectors", "the streams of appendix A.9", ["COD-1", "RNK-1", "RNK-2", "RNK-4"], stream)

    old = State({f"v{at}": of_bits("U8", [0] * things) for at, (things, *_) in enumerate(SUBSETS)})
    new = old
    for at, (_, meant, _, _) in enumerate(SUBSETS):
        new = new.with_bits(f"v{at}", list(meant), [1] * len(meant))
    made = [_with_streams(old, new, at, f"01ff{code:02x}404040", said) for at, (_, _, code, said) in enumerate(SUBSETS)]
    stream = ranked_stream("subset vectors", old)
    stream.delta(new, rows=lambda _: made)
    yield _accepted("subset-vectors", "the subsets of appendix A.15", ["SUB-1", "SUB-2", "SUB-3"], stream)

    state = State({"w": of_bits("U8", [0] * 100_000)})
    stream = ranked_stream("long gaps", state)
    for meant, code, said in LONG_SUBSETS:
        held = stream.states[-1]
        after = held.with_bits("w", meant, [int(held.tensors["w"].bits[at]) + 1 for at in meant])
        row = _with_streams(held, after, 0, f"01ff{code:02x}404040", said)
        stream.delta(after, rows=lambda _, row=row: [row])  # type: ignore[misc]
    yield _accepted("long-gaps", "gaps of nearly 100,000, one in the longer form", ["SUB-3"], stream)


def _of_raw(dtype: str, data: bytes) -> Values:
    return Values(dtype, (len(data) // DTYPES[dtype].width,), data)


def _moved(held: Values, *, seed: int, share: float = 0.3) -> list[int]:
    """Other bits for some elements: some low bits, and the uppermost one of every third."""
    random = np.random.Generator(np.random.PCG64(seed))
    top = 8 * DTYPES[held.dtype].width - 1
    found = []
    for bits in held.bits.tolist():
        mask = int(random.integers(0, 1 << min(int(random.integers(1, top + 1)), 62)))
        mask |= int(random.random() < 0.3) << top
        mask = 1 if held.dtype == "BOOL" else mask
        found.append(bits ^ (mask if random.random() < share else 0))
    return found


def _changed(old: State, **more: float) -> State:
    new = old
    for at, (name, held) in enumerate(old.tensors.items()):
        new = new.with_values(name, of_bits(held.dtype, _moved(held, seed=at, **more), held.shape))
    return new


# Dtype, old and new bits: signed zeros, subnormals, infinities, NaNs with payloads, the ends of the magnitudes.
SPECIAL = [
    ("F32", [0, 1 << 31, 0x7FC00001, 0xFF800000, 1, 0x7FFFFFFF, 0x7F800000, 0xFFC12345],
     [1 << 31, 0, 0x7FC00002, 0x7F800000, 0x80000001, 0xFFFFFFFF, 0x7F800001, 0x7FC54321]),
    ("F16", [0, 0x8000, 0x7E01, 0xFC00, 0xFFFF], [0x8000, 0, 0x7D55, 0x7C00, 0x7FFF]),
    ("BF16", [0, 0x8000, 0x7FC1, 0xFF80, 0x7F7F], [0x8000, 0, 0xFFC1, 0x7F80, 0x7F80]),
    ("F64", [0, 1 << 63, 0x7FF8000000000001, (1 << 64) - 1], [1 << 63, 0, 0xFFF8000000000001, (1 << 63) - 1]),
    ("F8_E4M3", [0, 0x80, 0x7F, 0xFF], [0x80, 0, 0xFF, 0x7E]),
    ("F8_E5M2", [0, 0x80, 0x7C, 0xFD], [0x80, 0, 0xFC, 0x7E]),
    ("I32", [0, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF], [0x80000000, 0x80000000, 0x7FFFFFFF, 0]),
]  # fmt: skip
CUTS: dict[str, Sequence[int]] = {
    "one": (255,), "three": CUT, "bottom": (0, 255), "top": (254, 255), "sixteen": (*range(115, 130), 255),
    "spread": (*range(15, 256, 16),), "empty": (1, 2, 3, 253, 254, 255), "of a byte": (0, 1, 63, 64, 126, 127, 255),
}  # fmt: skip


def _sound() -> Iterator[Draft]:
    old = State({name: values(name, (48,)) for name in DTYPES})
    yield _accepted(
        "dtypes", "a tensor of every dtype", ["RNK-1", "RNK-4", "COD-1"],
        _stepped("dtypes", old, _changed(old), ends=(3, 63, 126, 255)),
    )  # fmt: skip

    old, new = (State({dtype: of_bits(dtype, bits[at]) for dtype, *bits in SPECIAL}) for at in (0, 1))
    yield _accepted(
        "special-values", "signed zeros, NaNs with payloads, infinities and the ends of the magnitudes",
        ["RNK-4", "DTY-4"], _stepped("special", old, new),
    )  # fmt: skip

    yield _accepted(
        "longest-values", "values of as many digits as there are layers, up and down, with and without a flip",
        ["RNK-2", "RNK-4"], _stepped("longest", *_longest()),
    )  # fmt: skip

    dtypes = ("BF16", "F8_E5M2", "F32")
    old = State({f"{cut} {dtype}": values(dtype, (300,), seed=cut) for cut in CUTS for dtype in dtypes})
    new = _changed(old, share=0.1)
    made = [ranked_row(old, new, at, ends=CUTS[name.rpartition(" ")[0]]) for at, name in enumerate(old.tensors)]
    stream = ranked_stream("classes", old)
    stream.delta(new, rows=lambda _: made)
    yield _accepted("classes", "one to sixteen classes, some without elements or changes", ["RNK-1", "RNK-3"], stream)

    seen: set[int] = set()
    choose = in_turn(seen)
    old = State({"a": values("F32", (200,)), "b": values("BF16", (400,)), "c": values("F8_E4M3", (130,))})
    new = _changed(old)
    made = [ranked_row(old, new, at, ends=(0, *range(115, 128), 200, 255), choose=choose) for at in range(3)]
    assert seen == set(CODES)
    stream = ranked_stream("codes", old)
    stream.delta(new, rows=lambda _: made)
    yield _accepted("codes", "every code byte, whatever it costs", ["SUB-1", "SUB-2", "SUB-3"], stream)

    old = State({"w": of_bits("BF16", [0x3F80] * 20), "one": of_bits("F32", [7])})
    new = State({"w": of_bits("BF16", [0x3F81] * 20), "one": of_bits("F32", [6])})
    stream = _stepped("empty items", old, new)
    yield _accepted("no-items", "rows whose subsets take no bits at all", ["RNK-2", "SUB-1", "ROW-3"], stream)

    yield _accepted(
        "boxes", "boxes in two and three dimensions, several of a tensor, beside other codecs", ["RNK-5", "BOX-3"],
        _boxes(),
    )  # fmt: skip


def _stepped(name: str, old: State, new: State, *, ends: Sequence[int] = CUT) -> Stream:
    made = [ranked_row(old, new, at, ends=ends) for at in range(len(old.tensors))]
    stream = ranked_stream(name, old)
    stream.delta(new, rows=lambda _: made)
    return stream


def _longest() -> tuple[State, State]:
    before, after = {}, {}
    for dtype in ("F8_E4M3", "F16", "BF16", "F32", "F64", "I64"):
        half = 1 << (8 * DTYPES[dtype].width - 1)
        most = half - 1
        pairs = [(0, most), (most, 0), (half, most), (most, half), (half + most, half), (3, 4), (1, half)]
        before[dtype], after[dtype] = (of_bits(dtype, [pair[at] for pair in pairs]) for at in (0, 1))
    return State(before), State(after)


def _boxes() -> Stream:
    old = State({"a": values("BF16", (8, 6)), "b": values("F32", (3, 4, 5)), "c": values("F8_E4M3", (300,))})
    new = trained(old, 1, changes=25)
    cuts = [
        (1, [1, 1, 1], [2, 3, 4]), (1, [0, 0, 0], [1, 4, 5]), (0, [0, 0], [8, 2]), (0, [0, 2], [3, 4]),
        (2, [25], [275]), (2, [0], [25]),
    ]  # fmt: skip
    rows = [ranked_row(old, new, at, start=start, shape=shape, ends=CUT) for at, start, shape in cuts]
    # The rest, by boxes that overlap: those of other codecs do not count, and those of ranked are within the tensor.
    done = old
    for at, start, shape in cuts:
        name = list(old.tensors)[at]
        done = _within(done, new, name, start, shape)
    rows += [row_of(done, new, 0, "gap"), row_of(done, new, 1, "gap-set")]
    stream = ranked_stream("boxes", old)
    stream.delta(
        new, rows=lambda _: [row for row in rows if row.changed],
        write=lambda made: [write_part([made[:3], made[3:4]]), write_part([made[4:]])],
    )  # fmt: skip
    # Now boxes of this codec that overlap, and have as many elements as the tensor at most.
    held = stream.states[-1]
    middle = held.with_bits("a", [1, 14, 15], [7, 8, 9])
    last = middle.with_bits("a", [8, 21, 22], [1, 2, 3])
    overlapping = [
        ranked_row(held, middle, 0, start=[0, 0], shape=[4, 6]),
        ranked_row(middle, last, 0, start=[1, 1], shape=[6, 4]),
    ]
    stream.delta(last, rows=lambda _: overlapping)
    return stream


def _within(old: State, new: State, name: str, start: Sequence[int], shape: Sequence[int]) -> State:
    """The old state with what is in a box taken from the new one."""
    held = old.tensors[name]
    bits, other = (state.tensors[name].bits.reshape(held.shape) for state in (old, new))
    bits = bits.copy()
    box = tuple(slice(begin, begin + extent) for begin, extent in zip(start, shape, strict=True))
    bits[box] = other[box]
    return old.with_values(name, Values(held.dtype, held.shape, bits.tobytes()))


def _parts_of_states() -> Iterator[Draft]:
    state = small_model()
    stream = ranked_stream("steps", state)
    for step in (1, 2, 3):
        state = _changed(state) if step == 2 else trained(state, step)
        stream.delta(state, codec={"embed.weight": "ranked", "norm.weight": "ranked"} if step != 2 else "ranked")
    stream.head(3)
    yield Draft(
        AREA,
        "steps",
        negative=False,
        case=Case(
            title="three versions, each by the levels of the one before, with rows of another codec too",
            requirements=("COD-4", "RNK-1", "STR-4"),
            role="consumer",
            features=FEATURES,
            steps=(Put(), Materialize(version=1, state="1"), Materialize(version="latest", state="3")),
        ),
        trees={"store": dict(stream.objects)},
        states={str(version): stream.states[version].neutral(version) for version in (1, 3)},
    )
    chosen = {"tensors": ["norm.weight"]}
    yield Draft(
        AREA,
        "some-tensors",
        negative=False,
        case=Case(
            title="one of three tensors over versions in the codec ranked",
            requirements=("COD-4", "FOL-6"),
            role="consumer",
            features=("ranked", "partial"),
            steps=(Put(), Materialize(version="latest", state="3", options=chosen)),
        ),
        trees={"store": dict(stream.objects)},
        states={"3": stream.states[3].neutral(3, only=["norm.weight"])},
    )
    spanned = ranked_stream("span", small_model())
    for step in (1, 2):
        spanned.delta(trained(spanned.states[-1], step), codec="ranked")
    spanned.span(0, 2, codec="ranked")
    for key in [key for key in spanned.objects if key.startswith("data/00000000000000000001-")]:
        del spanned.objects[key]
    yield _accepted(
        "span", "a span in the codec ranked, where the delta of the version between is gone", ["COD-4", "SPN-4"],
        spanned, features=("ranked", "spans"),
    )  # fmt: skip
