"""The tensor table: names, limits, aliases."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltawire.errors import CODES, DeltawireError, InvalidStateError
from deltawire.format.strict_json import sha256
from deltawire.format.tensors import TensorTable, build_table, parse_table
from deltawire.limits import DEFAULT_LIMITS, Limits
from tests.core.refusal import refusal
from tests.strategies import State, states

Value = dict[str, Any]


def table(*tensors: tuple[str, str, list[int]], aliases: dict[str, str] | None = None) -> Value:
    return {
        "protocol": "deltawire",
        "protocol_version": "0.1",
        "kind": "tensor_table",
        "tensors": [{"name": name, "dtype": dtype, "shape": shape} for name, dtype, shape in tensors],
        "aliases": [{"name": name, "target": target} for name, target in (aliases or {}).items()],
    }


def parse(value: Value, limits: Limits = DEFAULT_LIMITS) -> TensorTable:
    return parse_table(json.dumps(value).encode(), limits=limits)


@given(states())
def test_tables_come_back(state: State) -> None:
    built = state.table()
    read = parse_table(built.data, limits=DEFAULT_LIMITS)
    assert read == built
    assert [tensor.name for tensor in read.tensors] == list(state.bits)
    assert [tensor.ordinal for tensor in read.tensors] == list(range(len(state.bits)))
    assert read.aliases == state.aliases
    assert read.state_bytes == sum(bits.nbytes for bits in state.bits.values())
    assert read.elements == sum(bits.size for bits in state.bits.values())
    described = built.described("x/table.json")
    assert (described.key, described.bytes, described.digest) == ("x/table.json", len(built.data), sha256(built.data))
    assert state.table().data == built.data, "equal tables have equal bytes"


def test_unknown_members_are_ignored() -> None:
    value = table(("a", "F32", [2]), aliases={"b": "a"}) | {"x-new": 1}
    value["tensors"][0]["x-new"] = {"y": 1}
    value["aliases"][0]["x-new"] = 1
    assert parse(value).aliases == {"b": "a"}


A = ("a", "F32", [2])


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (table(), "malformed_record"),
        (table(A, A), "malformed_record"),
        (table(A, aliases={"a": "a"}), "malformed_record"),
        (table(A, aliases={"b": "c"}), "malformed_record"),
        (table(A, aliases={"b": "a", "c": "b"}), "malformed_record"),  # an alias of an alias
        (table(A) | {"aliases": [{"name": "b", "target": "a"}] * 2}, "malformed_record"),
        (table(("", "F32", [2])), "malformed_record"),
        (table(("__metadata__", "F32", [2])), "malformed_record"),
        (table(A, aliases={"__metadata__": "a"}), "malformed_record"),
        (table(("a\nb", "F32", [2])), "malformed_record"),
        (table(("a\0", "F32", [2])), "malformed_record"),
        (table(("a\u202eb", "F32", [2])), "malformed_record"),
        (table(("\ud800", "F32", [2])), "malformed_record"),
        (table(("x" * 1025, "F32", [2])), "limit_exceeded"),
        (table(("ä" * 513, "F32", [2])), "limit_exceeded"),
        (table(A, aliases={"x" * 1025: "a"}), "limit_exceeded"),
        (table(("a", "F31", [2])), "unsupported_dtype"),
        (table(("a", "f32", [2])), "unsupported_dtype"),
        (table(("a", "F32", [-1])), "malformed_record"),
        (table(("a", "F32", [2**53])), "malformed_record"),
        (table(("a", "F32", [1.0])), "malformed_record"),  # type: ignore[list-item]
        (table(("a", "F32", [1] * 17)), "limit_exceeded"),
        (table(("a", "F32", [2**53 - 1] * 100_000)), "limit_exceeded"),
        (table(("a", "F32", [2**42 + 1])), "limit_exceeded"),
        (table(("a", "U8", [2**52, 2**52])), "limit_exceeded"),
        (table(*((f"t{i}", "U8", [2**44]) for i in range(65))), "limit_exceeded"),
        (table(("a", "F4", [3])), "malformed_record"),
        (table(("a", "F6_E2M3", [2])), "malformed_record"),
        (table(A) | {"kind": "version"}, "malformed_record"),
        (table(A) | {"protocol": "x"}, "unsupported_protocol"),
        (table(A) | {"protocol_version": "1.0"}, "unsupported_protocol"),
        (table(A) | {"protocol_version": "0.1\n"}, "malformed_record"),
        (table(A) | {"tensors": {}}, "malformed_record"),
        ({"protocol": "deltawire", "protocol_version": "0.1"}, "malformed_record"),
        ({}, "malformed_record"),
    ],
)
def test_refused(value: Value, code: str) -> None:
    with pytest.raises(DeltawireError) as raised:
        parse(value)
    assert raised.value.code == code
    str(raised.value).encode()
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    "limits", [Limits(tensors=2), Limits(table_bytes=50), Limits(state_bytes=7), Limits(dims=0), Limits(name_bytes=0)]
)
def test_limits(limits: Limits) -> None:
    value = table(A, ("c", "F32", [1]), aliases={"b": "a"})
    parse(value)
    with pytest.raises(DeltawireError) as raised:
        parse(value, limits)
    assert raised.value.code == "limit_exceeded"


def test_edges_that_are_good() -> None:
    found = parse(table(("a", "F32", []), ("empty", "BF16", [0, 2**53 - 1]), ("x" * 1024, "U8", [1] * 16)))
    assert [tensor.elements for tensor in found.tensors] == [1, 0, 1]
    parse(table(("weights with spaces / ünïcödé", "F4", [2**44 * 2])))
    parse(table(*((f"t{i}", "U8", [2**44]) for i in range(64))))


@pytest.mark.parametrize(
    "entries",
    [
        [],
        [("a", "F32", (1,)), ("a", "F32", (1,))],
        [("", "F32", (1,))],
        [("\ud800", "F32", (1,))],
        [("a\n", "F32", (1,))],
        [("a", "F33", (1,))],
        [("a", "F32", (-1,))],
        [("a", "F4", (1,))],
        [("x" * 2000, "F32", (1,))],
        [("a", "F32", (1,) * 20)],
    ],
)
def test_states_that_cannot_be_published(entries: list[tuple[str, str, tuple[int, ...]]]) -> None:
    with pytest.raises(InvalidStateError):
        build_table(entries, limits=DEFAULT_LIMITS)


@given(st.data())
def test_any_damage_is_refused_or_read(data: st.DataObject) -> None:
    stored = bytearray(json.dumps(table(A, ("c", "BF16", [2, 3]), aliases={"b": "a"})).encode())
    for _ in range(data.draw(st.integers(1, 3))):
        stored[data.draw(st.integers(0, len(stored) - 1))] = data.draw(st.integers(0, 255))
    code = refusal(lambda: parse_table(bytes(stored), limits=DEFAULT_LIMITS))
    assert code is None or code in CODES
