"""Limits (SPEC.md section 14): the defaults, and others that an operator has set."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from authoring.drafts import Draft, accepted, changed, refused
from authoring.nexts import assign, bad_next, good_next, text
from authoring.states import State, small_model, trained, values
from authoring.stream import Edit, Json, Stream, dump, small_stream
from deltawire.format.keys import version_key
from deltawire_conformance.case import Case, Materialize, Pad, Put

AREA = "limits"
LARGEST = 16777216
"""Bytes of a record."""
REQUIREMENTS = ("LIM-1",)


def drafts() -> Iterator[Draft]:
    """All cases."""
    yield _padded("record-bytes", "a record one byte larger than record_bytes", LARGEST + 1, ("limit_exceeded",))
    yield _padded("record-bytes-reached", "a record of exactly record_bytes", LARGEST, ())
    yield from _records()
    yield from _tables()
    yield from _signing_keys()
    yield from _set_by_the_operator()


def _padded(name: str, title: str, size: int, error: tuple[str, ...]) -> Draft:
    stream = small_stream(name, versions=1)
    before = dict(stream.objects)
    stream.delta(trained(stream.states[0], 1))
    return Draft(
        AREA,
        name,
        negative=bool(error),
        case=Case(
            title=title,
            requirements=("LIM-1", "STO-12"),
            role="consumer",
            steps=(
                Put(),
                Materialize(version=0, state="0"),
                Put(tree="then"),
                Pad(key=version_key(1), bytes=size),
                Materialize(version="latest", state="0" if error else "1", error=error),
            ),
        ),
        trees={"store": before, "then": changed(before, stream.objects)},
        states={str(number): stream.states[number].neutral(number) for number in ((0,) if error else (0, 1))},
    )


def _metadata(size: int) -> Json:
    """Metadata of so many bytes."""
    return {"x": "n" * (size - len(dump({"x": ""})))}


def _nested(depth: int) -> Any:
    """Arrays within arrays, so that a record whose metadata has them as a member is nested so deep."""
    value: Any = 1
    for _ in range(depth - 2):
        value = [value]
    return value


def _features(count: int) -> list[str]:
    return [f"f-{number}" for number in range(count)]


def _claim(member: str, value: int) -> Edit:
    """A batch that claims something, in a part that is as large as it must be then."""

    def edit(record: Json) -> None:
        [part] = record["delta"]["parts"]
        part["batches"][0][member] = value
        part["bytes"] = max(part["bytes"], part["batches"][0]["offset"] + part["batches"][0]["bytes"])

    return edit


def _records() -> Iterator[Draft]:
    above: list[tuple[str, str, Edit]] = [
        ("metadata-bytes", "metadata one byte larger than metadata_bytes", assign("metadata", _metadata(65537))),
        ("features", "one writer feature more than features", assign("writer_features", _features(65))),
        ("json-depth", "metadata nested one deeper than json_depth", assign("metadata", {"x": _nested(33)})),
        ("batch-bytes", "a batch that claims to be larger than batch_bytes", _claim("bytes", 268435457)),
        ("rows", "a batch that claims more rows than rows", _claim("rows", 4000001)),
        (
            "file-bytes",
            "an auxiliary file that claims to be larger than file_bytes",
            assign("files.0.bytes", 268435457),
        ),
    ]
    for name, title, edit in above:
        yield bad_next(AREA, name, title, REQUIREMENTS, "limit_exceeded", edit=edit)
    yield bad_next(
        AREA, "json-depth-far", "metadata nested ten thousand deep", ["JSN-2", "LIM-1", "ERR-2"], "limit_exceeded",
        raw=text('"metadata":{}', '"metadata":{"x":' + "[" * 10000 + "]" * 10000 + "}"),
    )  # fmt: skip
    reached: list[tuple[str, str, Edit]] = [
        ("metadata-bytes-reached", "metadata of exactly metadata_bytes", assign("metadata", _metadata(65536))),
        ("features-reached", "as many writer features as features", assign("writer_features", _features(64))),
        ("json-depth-reached", "metadata nested as deep as json_depth", assign("metadata", {"x": _nested(32)})),
    ]
    for name, title, edit in reached:
        yield _good(name, title, edit)
    header = Stream("shard-header-bytes")
    header.create()
    header.rebase(small_model(), edit=_large_header)
    yield refused(
        AREA, "shard-header-bytes", "a shard that claims a header larger than shard_header_bytes", REQUIREMENTS,
        header, "limit_exceeded",
    )  # fmt: skip


def _good(name: str, title: str, edit: Edit, **more: Any) -> Draft:
    return good_next(
        AREA, name, title, REQUIREMENTS, stream=small_stream(name, versions=1),
        grow=lambda s: s.delta(trained(s.states[-1], 1), edit=edit), **more,
    )  # fmt: skip


def _large_header(record: Json) -> None:
    record["snapshot"]["shards"][0].update(bytes=200000000, header_bytes=100000009)


def _named(name: str) -> State:
    return State({name: values("BF16", (3,))})


def _shaped(*shape: int) -> State:
    return State({"x": values("U8", shape)})


def _stream(name: str, state: State, table: Edit | None = None) -> Stream:
    stream = Stream(name)
    stream.create()
    if table is None:
        stream.rebase(state)
    else:
        stream.rebase(state, table=table)
    return stream


def _claims(*tensors: tuple[str, Sequence[int]]) -> Edit:
    """A table that claims other tensors than are there."""
    return assign("tensors", [{"name": f"t{n}", "dtype": d, "shape": list(s)} for n, (d, s) in enumerate(tensors)])


def _tables() -> Iterator[Draft]:
    above: list[tuple[str, str, State, Edit | None]] = [
        ("name-bytes", "a tensor's name one byte longer than name_bytes", _named("n" * 1025), None),
        ("name-bytes-of-letters", "a tensor's name of 600 letters and 1200 bytes", _named("ä" * 600), None),
        ("dims", "a tensor with one dimension more than dims", _shaped(*[1] * 17), None),
        ("tensor-bytes", "a shape one byte above tensor_bytes", small_model(), _claims(("U8", [(1 << 44) + 1]))),
        (
            "tensor-bytes-of-elements",
            "a shape above tensor_bytes in bytes, not in elements",
            small_model(),
            _claims(("F64", [1 << 30, 1 << 12])),
        ),
        (
            "tensor-bytes-overflow",
            "a shape whose product is 2^64, and 0 in 64 bits",
            small_model(),
            _claims(("U8", [1 << 32, 1 << 32])),
        ),
        (
            "state-bytes",
            "tensors of tensor_bytes each that are above state_bytes together",
            small_model(),
            _claims(*[("U8", (1 << 44,))] * 65),
        ),
    ]
    for name, title, state, table in above:
        yield refused(AREA, name, title, ["LIM-1", "TAB-2"], _stream(name, state, table), "limit_exceeded")
    reached: list[tuple[str, str, State]] = [
        ("name-bytes-reached", "a tensor's name of exactly name_bytes", _named("ä" * 511 + "nn")),
        ("dims-reached", "a tensor with as many dimensions as dims", _shaped(*[1] * 15, 5)),
    ]
    for name, title, state in reached:
        yield accepted(AREA, name, title, ["LIM-1", "TAB-2"], _stream(name, state))


def _signing_keys() -> Iterator[Draft]:
    def signed(name: str, count: int) -> Stream:
        return small_stream(name, versions=1, signers=[f"key {number}" for number in range(count)])

    yield refused(
        AREA, "signing-keys", "one key more than signing_keys", ["SIG-1", "LIM-1"], signed("signing-keys", 17),
        "limit_exceeded",
    )  # fmt: skip
    yield accepted(
        AREA, "signing-keys-reached", "as many keys as signing_keys", ["SIG-1", "LIM-1"],
        signed("signing-keys-reached", 16),
    )  # fmt: skip


def _set_by_the_operator() -> Iterator[Draft]:
    """Lower limits, at which every one can be seen with small objects, and higher ones."""
    state = small_model()
    size = sum(len(tensor.data) for tensor in state.tensors.values())
    many = {f"{number}.json": b"{}" for number in range(4)}
    small: list[tuple[str, str, dict[str, int], Callable[[str], Stream]]] = [
        ("set-tensors", "three tensors where two are allowed", {"tensors": 2}, _one),
        ("set-state-bytes", "a state one byte above what is allowed", {"state_bytes": size - 1}, _one),
        ("set-table-bytes", "a tensor table above what is allowed", {"table_bytes": 100}, _one),
        (
            "set-files",
            "four auxiliary files where three are allowed",
            {"files": 3},
            lambda name: _stream(name, small_model(files=many)),
        ),
        (
            "set-parts",
            "three shards where two are allowed",
            {"parts": 2},
            _stream_of_shards,
        ),
        (
            "set-shard-header-bytes",
            "a shard's header above what is allowed",
            {"shard_header_bytes": 100},
            _one,
        ),
        ("set-kept", "two kept versions where one is allowed", {"kept": 1}, _two_kept),
    ]
    for name, title, limits, made in small:
        yield refused(
            AREA, name, title, REQUIREMENTS, made(name), "limit_exceeded", options={"limits": limits},
            features=("limits",),
        )  # fmt: skip
    exact = {"tensors": 3, "state_bytes": size, "files": 1, "parts": 1, "dims": 2, "name_bytes": 19}
    yield good_next(
        AREA, "set-and-reached", "a stream that is just as large as is allowed", REQUIREMENTS,
        stream=_one("set-and-reached"), grow=lambda s: s.delta(trained(s.states[-1], 1)), options={"limits": exact},
        features=("limits",),
    )  # fmt: skip
    yield _good(
        "set-higher", "metadata nested deeper than by default, where that is allowed",
        assign("metadata", {"x": _nested(60)}), options={"limits": {"json_depth": 60}}, features=("limits",),
    )  # fmt: skip


def _one(name: str) -> Stream:
    return small_stream(name, versions=1)


def _stream_of_shards(name: str) -> Stream:
    stream = Stream(name)
    stream.create()
    stream.rebase(small_model(), shard_tensors=1)
    return stream


def _two_kept(name: str) -> Stream:
    stream = small_stream(name, versions=1)
    stream.rebase(small_model(seed="1"))
    stream.rebase(small_model(seed="2"))
    stream.retention(2, 0, 1)
    return stream
