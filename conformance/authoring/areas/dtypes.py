"""Dtypes, shapes and names of tensors (SPEC.md sections 7.2 and 16.2)."""

from __future__ import annotations

from collections.abc import Iterator

from authoring.drafts import Draft, accepted, refused_next
from authoring.states import State, small_model, trained, values
from authoring.stream import Json, Stream, small_stream
from deltawire.format.dtypes import DTYPES

AREA = "dtypes"
SUB_BYTE = ("F4", "F6_E2M3", "F6_E3M2")


def drafts() -> Iterator[Draft]:
    """All cases."""
    yield accepted(
        AREA, "snapshot", "a snapshot with tensors of every dtype", ["DTY-1", "DTY-3", "SNP-4"], _stream("snapshot")
    )
    for codec in ("gap", "gap-set", "dense"):
        stream = _stream(codec)
        stream.delta(_changed(stream.states[0]), codec=codec)
        title = f"a delta of tensors of every dtype with the codec {codec}"
        yield accepted(AREA, codec, title, ["DTY-1", "DTY-2", "DTY-3", "COD-1"], stream)
    yield accepted(
        AREA, "sub-byte", "tensors of four and six bits an element in several shapes", ["DTY-3", "BOX-3"],
        _trained("sub-byte", _sub_byte()),
    )  # fmt: skip
    yield accepted(
        AREA, "scalars", "tensors without dimensions, and boxes without dimensions in them", ["BOX-3", "DIG-1"],
        _trained("scalars", State({kind: values(kind, ()) for kind in ("F64", "BF16", "U8", "BOOL", "C64")})),
    )  # fmt: skip
    yield accepted(
        AREA, "empty", "tensors without elements beside one that has some", ["DIG-3", "DIG-1"],
        _trained("empty", State({"a": values("F32", (0, 4)), "b": values("BF16", (3,)), "c": values("U8", (2, 0))})),
    )  # fmt: skip
    yield accepted(
        AREA, "names", "tensor names of other scripts, alike but for their code points", ["TAB-3", "DIG-1"],
        _trained("names", State({name: values("BF16", (2, 3), seed=name) for name in NAMES})),
    )  # fmt: skip
    yield from _refused()


NAMES = (
    "模型.权重", "weights/ä b", "caf\u00e9", "cafe\u0301", "K", "\u212a", "🙂", " ", "../norm", '"quoted\\"',
)  # fmt: skip
"""With an e and its accent as one and as two code points, and two letters K."""


def _stream(name: str, state: State | None = None) -> Stream:
    stream = Stream(f"dtypes {name}")
    stream.create()
    stream.rebase(state or _every_dtype())
    return stream


def _every_dtype() -> State:
    return State({name.lower(): values(name, (2, 4) if name in SUB_BYTE else (3, 2)) for name in DTYPES})


def _changed(state: State) -> State:
    """Other bits in some elements of each tensor, by small steps and large ones."""
    for name, tensor in state.tensors.items():
        bits = [int(number) for number in tensor.bits]
        if tensor.dtype == "BOOL":
            state = state.with_bits(name, [1, 4], [bits[1] ^ 1, bits[4] ^ 1])
            continue
        whole = (1 << 8 * tensor.bits.itemsize) - 1
        new = [bits[0] ^ 1, (bits[1] + 1) & whole, bits[2] ^ whole]
        state = state.with_bits(name, [0, 1, 2], new)
    return state


def _trained(name: str, state: State) -> Stream:
    stream = _stream(name, state)
    stream.delta(trained(state, 1, changes=3))
    return stream


def _sub_byte() -> State:
    shapes: list[tuple[str, tuple[int, ...]]] = [("F4", (2, 4)), ("F4", (16,)), ("F4", (3, 1, 6))]
    shapes += [("F6_E2M3", (4,)), ("F6_E2M3", (2, 2, 3)), ("F6_E3M2", (8, 2))]
    return State({f"packed.{number}": values(*tensor) for number, tensor in enumerate(shapes)})


def _refused() -> Iterator[Draft]:
    for name, title, dtype in (
        ("unknown", "a tensor of a dtype that is not in the registry", "F12"),
        ("lower-case", "a tensor whose dtype is written in lower case", "f32"),
    ):
        yield refused_next(
            AREA, name, title, ["DTY-1"], small_stream(f"dtypes {name}", versions=1), "unsupported_dtype",
            grow=lambda s, dtype=dtype: s.rebase(  # type: ignore[misc]
                small_model(seed="next"),
                table=lambda table: table["tensors"][2].update(dtype=dtype),
                header=lambda header, _: header["norm.weight"].update(dtype=dtype),
            ),
        )  # fmt: skip

    def three(table: Json) -> None:
        table["tensors"][0]["shape"] = [3]

    yield refused_next(
        AREA, "sub-byte-part-of-byte", "a tensor of three elements of four bits", ["DTY-3"],
        small_stream("dtypes part of byte", versions=1), "malformed_record",
        grow=lambda s: s.rebase(State({"packed": values("F4", (4,))}), table=three),
    )  # fmt: skip
