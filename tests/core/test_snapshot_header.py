"""Snapshots are plain safetensors: other libraries read ours, we read theirs, and hostile headers are refused."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import load as load_numpy
from safetensors.numpy import save as save_numpy
from safetensors.torch import load as load_torch
from safetensors.torch import save as save_torch

from deltawire import torch_bits
from deltawire.errors import CODES, DeltawireError, LimitExceededError, MalformedShardError, UnsupportedDtypeError
from deltawire.format.dtypes import DTYPES
from deltawire.format.tensors import build_table
from deltawire.limits import DEFAULT_LIMITS, Limits
from deltawire.snapshots.header import (
    DIGESTS,
    Header,
    build_header,
    check_against_table,
    file_order,
    header_length,
    parse_header,
)
from deltawire.snapshots.writer import plan_shards, write_snapshot
from deltawire.store.memory import MemoryStore
from tests.core.refusal import refusal
from tests.strategies import State, states


def parse(file: bytes, limits: Limits = DEFAULT_LIMITS) -> Header:
    return parse_header(file[: header_length(file, limits=limits)], len(file), limits=limits)


def framed(members: Any, data: int = 0) -> bytes:
    text = members if isinstance(members, bytes) else json.dumps(members).encode()
    return len(text).to_bytes(8, "little") + text + bytes(data)


def entry(dtype: str, shape: list[Any], begin: Any, end: Any) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


@given(states())
def test_headers_come_back(state: State) -> None:
    tensors = state.table().tensors
    order = file_order(tensors)
    digests = {tensor.name: 2**64 - 1 - tensor.ordinal for tensor in tensors}
    data = build_header(order, digests)
    assert len(data) % 8 == 0, "tensors begin aligned"
    header = parse_header(data, len(data) + state.table().state_bytes, limits=DEFAULT_LIMITS)
    assert [each.name for each in header.entries if each.end > each.begin] == [t.name for t in order if t.bytes]
    assert check_against_table(header, tensors, what="test") == digests
    widths = {tensor.name: tensor.dtype.width for tensor in tensors}
    assert all(each.begin % widths[each.name] == 0 for each in header.entries), "every element is aligned"


def snapshot_of(state: State, store: MemoryStore, shard_bytes: int) -> list[bytes]:
    table = state.table()
    snapshot = write_snapshot(
        store.write_batch(),
        table,
        lambda tensor: [state.bits[tensor.name].tobytes()] if tensor.bytes else [],
        [0] * len(table.tensors),
        prefix="data/s/",
        shard_bytes=shard_bytes,
        files={},
    )
    return [store.get(shard.key, max_bytes=1 << 30).data for shard in snapshot.shards]


@given(states(aliases=False), st.sampled_from([1, 100, 1 << 20]))
def test_the_safetensors_library_reads_our_shards(state: State, shard_bytes: int) -> None:
    found: dict[str, bytes] = {}
    kinds: dict[str, tuple[str, tuple[int, ...]]] = {}
    for file in snapshot_of(state, MemoryStore("header-test"), shard_bytes):
        # Its own parser checks offsets, holes and sizes; the elements are compared as bytes.
        for name, view in deserialized(file).items():
            found[name] = bytes(view["data"])
            kinds[name] = (view["dtype"], tuple(view["shape"]))
    assert found == {name: bits.tobytes() for name, bits in state.bits.items()}
    assert kinds == {name: (state.dtypes[name].name, state.shapes[name]) for name in state.bits}


def deserialized(file: bytes) -> dict[str, Any]:
    from safetensors import deserialize  # noqa: PLC0415 - its own raw view of a file

    return dict(deserialize(file))  # type: ignore[no-untyped-call]


def test_torch_and_numpy_load_our_shards() -> None:
    # Of the dtypes that torch has, its own loader does not know these yet.
    unknown = ("F4", "F8_E8M0")
    kinds = {name: kind for kind, name in torch_bits.DTYPE_NAMES.items() if name not in unknown}
    rng = np.random.default_rng(0)
    bits = {name: np.frombuffer(rng.bytes(6 * DTYPES[name].width), DTYPES[name].storage).copy() for name in kinds}
    bits["BOOL"] &= 1
    state = State(bits, {name: DTYPES[name] for name in kinds}, dict.fromkeys(kinds, (2, 3)))
    [file] = snapshot_of(state, MemoryStore("torch-test"), 1 << 20)
    for name, tensor in load_torch(file).items():
        assert tensor.dtype is kinds[name]
        assert tensor.shape == (2, 3)
        assert torch_bits.to_numpy(torch_bits.flat_bits(tensor)).tobytes() == bits[name].tobytes()
    plain = {name: array for name, array in bits.items() if name in ("F32", "I8", "U64", "BOOL", "F16")}
    state = State(plain, {name: DTYPES[name] for name in plain}, dict.fromkeys(plain, (6,)))
    [file] = snapshot_of(state, MemoryStore("np-test"), 1 << 20)
    assert {name: array.tobytes() for name, array in load_numpy(file).items()} == {
        name: array.tobytes() for name, array in plain.items()
    }


def test_the_index_is_what_hugging_face_expects(tmp_path: Path) -> None:
    names = [f"layer.{index}.weight" for index in range(5)]
    bits = {name: np.arange(10, dtype=np.uint16) for name in names}
    state = State(bits, dict.fromkeys(names, DTYPES["BF16"]), dict.fromkeys(names, (10,)))
    store = MemoryStore("index-test")
    assert len(snapshot_of(state, store, 45)) == 3
    index = json.loads(store.get("data/s/model.safetensors.index.json", max_bytes=1 << 20).data)
    assert index["metadata"]["total_size"] == 100
    assert set(index["weight_map"]) == set(names)
    for name, shard in index["weight_map"].items():
        path = tmp_path / shard
        path.write_bytes(store.get(f"data/s/{shard}", max_bytes=1 << 20).data)
        with safe_open(path, framework="pt") as file:
            assert file.metadata()["format"] == "pt"
            assert file.get_tensor(name).shape == (10,)


@given(st.data())
def test_shards_are_runs_of_the_table(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(0, 50), min_size=1, max_size=12))
    most = data.draw(st.integers(1, 80))
    table = build_table([(f"t{i}", "U8", (size,)) for i, size in enumerate(sizes)], limits=DEFAULT_LIMITS)
    runs = plan_shards(table.tensors, most)
    assert [tensor for run in runs for tensor in run] == list(table.tensors)
    assert all(len(run) == 1 or sum(tensor.bytes for tensor in run) <= most for run in runs)
    assert all(runs)


def test_we_read_what_the_library_writes() -> None:
    b = torch.arange(6, dtype=torch.bfloat16).reshape(2, 3)
    tensors = {"b": b, "scalar": torch.tensor(1.5), "none": torch.empty(0, 4)}
    theirs = save_torch(tensors, {"format": "pt", "note": "ä"})
    header = parse(theirs)
    assert {each.name: (each.dtype, each.shape) for each in header.entries} == {
        "b": ("BF16", (2, 3)),
        "scalar": ("F32", ()),
        "none": ("F32", (0, 4)),
    }
    assert header.metadata == {"format": "pt", "note": "ä"}
    assert header.digests() == {}
    assert parse(save_numpy({"x": np.zeros((2, 2), np.float64)})).entries[0].end == 32
    assert parse(framed({})).entries == ()
    # Spaces in front of the brace are the one thing the format forbids that JSON allows; behind it they are padding.
    assert parse(framed(b"{}     ")).entries == ()


A = entry("F32", [2], 0, 8)

HOSTILE: list[tuple[str, bytes, type[DeltawireError]]] = [
    ("nothing", b"", MalformedShardError),
    ("seven bytes", b"\0" * 7, MalformedShardError),
    ("no JSON", framed(b""), MalformedShardError),
    ("an array", framed([]), MalformedShardError),
    ("not UTF-8", framed(b"\xff\xfe"), MalformedShardError),
    ("a length beyond the file", (50).to_bytes(8, "little") + b"{}", MalformedShardError),
    ("a huge length", (2**63).to_bytes(8, "little") + b"{}", LimitExceededError),
    ("the largest length", b"\xff" * 8, LimitExceededError),
    ("a name twice", framed(b'{"a":%s,"a":%s}' % ((json.dumps(A).encode(),) * 2), 8), MalformedShardError),
    ("overlap", framed({"a": A, "b": entry("F32", [2], 4, 12)}, 12), MalformedShardError),
    ("the same place", framed({"a": A, "b": A}, 8), MalformedShardError),
    ("a hole", framed({"a": A, "b": entry("F32", [2], 12, 20)}, 20), MalformedShardError),
    ("a hole in front", framed({"a": entry("F32", [2], 4, 12)}, 12), MalformedShardError),
    ("bytes left over", framed({"a": A}, 9), MalformedShardError),
    ("bytes missing", framed({"a": A}, 7), MalformedShardError),
    ("end before begin", framed({"a": entry("F32", [2], 8, 0)}, 8), MalformedShardError),
    ("negative begin", framed({"a": entry("F32", [2], -8, 0)}, 8), MalformedShardError),
    ("size against shape", framed({"a": entry("F32", [3], 0, 8)}, 8), MalformedShardError),
    ("size against dtype", framed({"a": entry("F64", [2], 0, 8)}, 8), MalformedShardError),
    ("half a byte", framed({"a": entry("F4", [3], 0, 2)}, 2), MalformedShardError),
    ("a dtype of nobody", framed({"a": entry("F31", [2], 0, 8)}, 8), UnsupportedDtypeError),
    ("a dtype in small letters", framed({"a": entry("f32", [2], 0, 8)}, 8), UnsupportedDtypeError),
    ("no dtype", framed({"a": {"shape": [2], "data_offsets": [0, 8]}}, 8), MalformedShardError),
    ("a dtype that is a number", framed({"a": A | {"dtype": 32}}, 8), MalformedShardError),
    ("no shape", framed({"a": {"dtype": "F32", "data_offsets": [0, 8]}}, 8), MalformedShardError),
    ("a negative extent", framed({"a": entry("F32", [-2], 0, 8)}, 8), MalformedShardError),
    ("an extent of text", framed({"a": entry("F32", ["2"], 0, 8)}, 8), MalformedShardError),
    ("an extent of a fraction", framed({"a": entry("F32", [2.0], 0, 8)}, 8), MalformedShardError),
    ("an extent of a truth", framed({"a": entry("U8", [True], 0, 1)}, 1), MalformedShardError),
    ("an extent of 2^53", framed({"a": entry("F32", [2**53, 0], 0, 0)}), MalformedShardError),
    ("a product that wraps", framed({"a": entry("U8", [2**32, 2**32], 0, 0)}), MalformedShardError),
    ("offsets of truths", framed({"a": entry("U8", [1], False, True)}, 1), MalformedShardError),
    ("offsets of fractions", framed({"a": entry("F32", [2], 0.0, 8.0)}, 8), MalformedShardError),
    ("one offset", framed({"a": A | {"data_offsets": [8]}}, 8), MalformedShardError),
    ("three offsets", framed({"a": A | {"data_offsets": [0, 4, 8]}}, 8), MalformedShardError),
    ("huge offsets", framed({"a": entry("U8", [2**52], 0, 2**52)}, 8), MalformedShardError),
    ("an entry that is a list", framed({"a": []}), MalformedShardError),
    ("an entry that is null", framed({"a": None}), MalformedShardError),
    ("metadata that is text", framed({"__metadata__": "x", "a": A}, 8), MalformedShardError),
    ("metadata that is null", framed({"__metadata__": None, "a": A}, 8), MalformedShardError),
    ("metadata of numbers", framed({"__metadata__": {"x": 1}, "a": A}, 8), MalformedShardError),
    ("half a character", framed(b'{"\\ud800":%s}' % json.dumps(A).encode(), 8), MalformedShardError),
    ("deep", framed(b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}"), LimitExceededError),
]


@pytest.mark.parametrize(("file", "error"), [case[1:] for case in HOSTILE], ids=[case[0] for case in HOSTILE])
def test_hostile_headers(file: bytes, error: type[DeltawireError]) -> None:
    with pytest.raises(error):
        parse(file)


def test_a_shape_of_a_million_extents_is_refused_at_once() -> None:
    # The product of as many extents would be a number of millions of digits, and would take hours.
    file = framed({"a": entry("U8", [2**53 - 1] * 1_000_000, 0, 8)}, 8)
    started = time.monotonic()
    with pytest.raises(LimitExceededError):
        parse(file)
    assert time.monotonic() - started < 10


def test_limits() -> None:
    file = framed({"a": A, "b": entry("F32", [0], 8, 8)}, 8)
    parse(file)
    for limits in (Limits(shard_header_bytes=10), Limits(tensors=1), Limits(dims=0)):
        with pytest.raises(LimitExceededError):
            parse(file, limits)


def test_a_header_that_is_too_deep() -> None:
    file = framed({"a": A | {"later": [[[]]]}}, 8)
    parse(file)
    with pytest.raises(LimitExceededError):
        parse(file, Limits(json_depth=4))


@pytest.mark.parametrize(
    "digests",
    ["", "null", "[]", "7", '{"a":7}', '{"a":null}', '{"a":""}', '{"a":"xyz"}', '{"a":"-1"}', '{}',
     '{"a":"0","b":"0"}', '{"a":"10000000000000000"}', '{"a":' * 100_000,
     '{"a":"0"}', '{"a":"0x00000000000000"}', '{"a":"0_00000000000000"}', '{"a":" 000000000000000"}',
     '{"a":"000000000000000A"}', '{"a":"0000000000000000","a":"0000000000000001"}'],
)  # fmt: skip
def test_hostile_digests(digests: str) -> None:
    [tensor] = build_table([("a", "F32", (2,))], limits=DEFAULT_LIMITS).tensors
    file = framed({"__metadata__": {DIGESTS: digests}, "a": A}, 8)
    with pytest.raises(MalformedShardError):
        check_against_table(parse(file), [tensor], what="test")


@pytest.mark.parametrize(
    "members",
    [
        {},
        {"b": A},
        {"a": entry("I32", [2], 0, 8)},
        {"a": entry("F32", [1, 2], 0, 8)},
        {"a": A, "b": entry("U8", [0], 8, 8)},
    ],
)
def test_shards_of_other_tensors(members: dict[str, Any]) -> None:
    [tensor] = build_table([("a", "F32", (2,))], limits=DEFAULT_LIMITS).tensors
    digests = json.dumps(dict.fromkeys(members, "0" * 16))
    file = framed({"__metadata__": {DIGESTS: digests}} | members, 8 if members else 0)
    with pytest.raises(MalformedShardError):
        check_against_table(parse(file), [tensor], what="test")


@given(st.data())
def test_any_damage_is_refused_or_read(data: st.DataObject) -> None:
    state = data.draw(states())
    table = state.table()
    whole = bytearray(build_header(file_order(table.tensors), dict.fromkeys(state.bits, 1)) + bytes(table.state_bytes))
    for _ in range(data.draw(st.integers(1, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(whole[: data.draw(st.integers(0, len(whole)))] if data.draw(st.booleans()) else whole)
    code = refusal(lambda: check_against_table(parse(cut), table.tensors, what="test"))
    assert code is None or code in CODES
