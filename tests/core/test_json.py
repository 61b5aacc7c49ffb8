"""JSON is read strictly: what two readers could understand differently is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltawire.errors import DeltawireError, LimitExceededError, MalformedRecordError
from deltawire.format import strict_json
from deltawire.format.records import HeadRecord
from deltawire.limits import DEFAULT_LIMITS, Limits
from tests.core.refusal import refusal

# A lone surrogate is not Unicode text; everything else is.
text = st.text(st.characters(codec="utf-8"), max_size=8)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4), max_leaves=15
)
REFUSALS = (None, "malformed_record", "limit_exceeded")
objects = st.dictionaries(text, values, max_size=5)


def parse(data: bytes, limits: Limits = DEFAULT_LIMITS) -> dict[str, Any]:
    return strict_json.parse(data, what="test", limits=limits)


@given(objects, st.booleans())
def test_objects_come_back(value: dict[str, Any], ascii_only: bool) -> None:
    assert parse(json.dumps(value, ensure_ascii=ascii_only).encode()) == value


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    assert refusal(lambda: parse(data)) in REFUSALS


@given(objects, st.data())
def test_damaged_objects_are_read_or_refused(value: dict[str, Any], data: st.DataObject) -> None:
    stored = bytearray(json.dumps(value, ensure_ascii=False).encode())
    stored[data.draw(st.integers(0, len(stored) - 1))] = data.draw(st.integers(0, 255))
    assert refusal(lambda: parse(bytes(stored))) in REFUSALS


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"   ",
        b"{",
        b"{}{}",
        b"{} x",
        b"[]",
        b"null",
        b"7",
        b'"text"',
        b"{'a': 1}",
        b'{"a": 1,}',
        b'{"a": 01}',
        b'{"a": +1}',
        b'{"a": .5}',
        b'{"a": 0x10}',
        b'{"a": 1} // note',
        b'{"a": "\n"}',  # a control character in a string
        b'{"a": "\\x"}',
        b'{"a": 1, "a": 1}',
        b'{"a": 1, "\\u0061": 2}',  # the same name in another spelling
        b'{"m": {"x": [{"a": 1, "a": 2}]}}',
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b'{"a": -Infinity}',
        b'{"a": 1e999}',  # beyond any double: one reader's infinity, another's error
        b'{"a": [-1e400]}',
        b'{"a": 1' + b"0" * 309 + b"}",
        b'{"a": "\\ud800"}',  # half a character
        b'{"a": "\\udc00x"}',
        b'{"a": "\\udc00\\ud800"}',  # the halves in the wrong order
        b'{"\\uD800": 1}',
        b'{"a": {"b": ["\\udfff"]}}',
        b"\xef\xbb\xbf{}",  # a byte order mark
        "{}".encode("utf-16"),
        b'{"a": "\xff"}',
        b'{"a": "\xc0\x80"}',  # overlong
        b'{"a": "\xed\xa0\x80"}',  # a surrogate in UTF-8
        b'{"a": 1\x00}',
        b'{"a": ' + b"9" * 5000 + b"}",
    ],
)
def test_refused(data: bytes) -> None:
    with pytest.raises(MalformedRecordError) as raised:
        parse(data)
    assert len(str(raised.value)) < 500
    str(raised.value).encode()


def test_accepted() -> None:
    assert parse(b' {"a": "\\ud83d\\ude00"} \n') == {"a": "\U0001f600"}
    assert parse(b'{"a": "\\\\ud800"}') == {"a": "\\ud800"}  # a backslash and letters
    assert parse(b'{"a": "\xf0\x9f\x98\x80", "\xc3\xa4": 1e300}') == {"a": "\U0001f600", "ä": 1e300}
    assert parse(b'{"a": 1e-999, "b": -0}') == {"a": 0.0, "b": 0}
    assert parse(b'{"a": 123456789012345678901234567890}') == {"a": 123456789012345678901234567890}


def nested(depth: int, opening: bytes, closing: bytes) -> bytes:
    return b'{"a":' + opening * (depth - 1) + b"1" + closing * (depth - 1) + b"}"


@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_depth(opening: bytes, closing: bytes) -> None:
    limits = Limits(json_depth=5)
    parse(nested(5, opening, closing), limits)
    for depth in (6, 7, 500, 200_000):
        with pytest.raises(LimitExceededError):
            parse(nested(depth, opening, closing), limits)


def test_unclosed_depth() -> None:
    for data in (b'{"a":' * 200_000, b'{"a":' + b"[" * 200_000):
        with pytest.raises(DeltawireError):
            parse(data)


@given(objects, objects)
def test_merge_keeps_what_it_does_not_know(old: dict[str, Any], new: dict[str, Any]) -> None:
    kept, given_new = json.dumps(old), json.dumps(new)
    merged = strict_json.merge(old, new)
    assert (json.dumps(old), json.dumps(new)) == (kept, given_new), "its arguments are as they were"
    assert merged == {name: new.get(name, old.get(name)) for name in {*old, *new}}


def test_members_that_are_known_do_not_stay() -> None:
    old = {"version": 3, "anchor": 2, "signature": {"key": "x"}, "later": {"anchor": 1}}
    assert strict_json.unknown(old, HeadRecord) == {"later": {"anchor": 1}}


def test_merge_by_hand() -> None:
    old = {"a": 1, "metadata": {"x": 1, "y": {"z": 2}}, "list": [1, 2], "later": {"b": None}}
    new = {"a": 2, "metadata": {"y": {}}, "list": []}
    assert strict_json.merge(old, new) == {**new, "later": {"b": None}}


@pytest.mark.parametrize(
    ("written", "compact"),
    [
        ("{}", "{}"),
        (' { "a" : [ 1 , 2 ] , "b" : { } } ', '{"a":[1,2],"b":{}}'),
        ('{"\\u0041":"\\u00fc\\/\\u000a"}', '{"A":"ü/\\n"}'),
        ('{"\\u0001":"\\ud83d\\ude00"}', '{"\\u0001":"😀"}'),
        ('{"x":[1.50,1E+2,-0,12345678901234567890,true,null]}', '{"x":[1.50,1E+2,-0,12345678901234567890,true,null]}'),
    ],
)
def test_the_size_of_a_member(written: str, compact: str) -> None:
    """Section 14: numbers count as they are written, everything else as if it were written anew."""
    data = f'{{"metadata":{written},"more":1}}'.encode()
    assert strict_json.member_bytes(data, "metadata") == len(compact.encode())


def test_digests_are_written_one_way() -> None:
    assert strict_json.sha256(b"") == "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
