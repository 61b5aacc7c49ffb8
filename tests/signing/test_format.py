"""What of a record is signed, whatever else stands in it."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltawire import ed25519
from deltawire.errors import InvalidArgumentError, MalformedRecordError
from deltawire.format import records, signing
from deltawire.format.public_keys import signs_anything
from deltawire.format.records import HeadRecord
from deltawire.limits import DEFAULT_LIMITS
from deltawire.producer.envelope import envelope

UUID = "01234567-89ab-4def-8123-456789abcdef"
KEY = ed25519.generate()

awkward = st.one_of(
    st.integers(0, 300).map(lambda count: "0" * count),
    st.text("0123456789abcdef", min_size=120, max_size=140),
    st.text(),
    st.just('"signature":{"value":"' + "0" * 128 + '"}'),
)


@given(metadata=st.dictionaries(awkward, awkward | st.lists(awkward), max_size=4))
def test_a_record_and_its_signature(metadata: dict[str, Any]) -> None:
    record = HeadRecord(**envelope(UUID, "head", epoch=1, writer_features=(), metadata=metadata), version=3)
    data = signing.encode(record, KEY)
    assert signing.encode(record, KEY) == data, "all attempts at a commit send the same bytes"
    again = records.decode(data, HeadRecord, what="it", limits=DEFAULT_LIMITS)
    assert again.signature is not None
    assert again.metadata == metadata
    message = signing.signed_message(data, again.signature.value, what="it")
    assert ed25519.verify(KEY.key, again.signature.value, message)
    blank = json.loads(message.removeprefix(b"deltawire-signature-1\n"))
    assert blank["signature"] == {"key": KEY.key, "value": "0" * 128}
    assert blank["metadata"] == metadata
    assert json.loads(data) == blank | {"signature": {"key": KEY.key, "value": again.signature.value}}
    assert signing.encode(record, None) == records.encode(record)


@pytest.mark.parametrize("between", ["", ",", "0"])
def test_digits_that_stand_in_two_places(between: str) -> None:
    value = hashlib.sha512(b"").hexdigest()
    for data in ("", value + between + value):
        with pytest.raises(MalformedRecordError):
            signing.signed_message(data.encode(), value, what="it")
    assert signing.signed_message(value.encode(), value, what="it") == signing.CONTEXT + signing.BLANK


def test_places_that_overlap_are_two() -> None:
    value = "ab" * 64
    with pytest.raises(MalformedRecordError):
        signing.signed_message(b"x" + value.encode() + b"ab", value, what="it")


@given(
    message=st.binary(max_size=99), key=st.binary(min_size=32, max_size=32), value=st.binary(min_size=64, max_size=64)
)
def test_no_key_and_no_signature_is_too_strange(message: bytes, key: bytes, value: bytes) -> None:
    # Neither need be a point of the curve, or a number below its order.
    assert signs_anything("ed25519:" + key.hex()) or not ed25519.verify("ed25519:" + key.hex(), value.hex(), message)
    assert not ed25519.verify(KEY.key, value.hex(), message)
    assert ed25519.verify(KEY.key, KEY.sign(message), message)


P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
Point = tuple[int, int]


def add(a: Point, b: Point) -> Point:
    """RFC 8032 section 5.1.4."""
    (x1, y1), (x2, y2) = a, b
    product = D * x1 * x2 * y1 * y2
    return (x1 * y2 + x2 * y1) * pow(1 + product, -1, P) % P, (y1 * y2 + x1 * x2) * pow(1 - product, -1, P) % P


def times(number: int, point: Point) -> Point:
    found = (0, 1)
    while number:
        if number & 1:
            found = add(found, point)
        point, number = add(point, point), number >> 1
    return found


def point_of(y: int) -> Point | None:
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    for root in (x, x * pow(2, (P - 1) // 4, P) % P):
        if root * root % P == square:
            return root, y
    return None


def test_keys_for_which_anyone_can_sign() -> None:
    torsion = {times(ORDER, point) for y in range(2, 60) if (point := point_of(y)) is not None}
    torsion |= {times(number, point) for point in list(torsion) for number in range(8)}
    assert len(torsion) == 8
    encodings = set()
    for x, y in torsion:
        for same in (y, y + P):
            if same < 2**255:
                encodings |= {(same | sign << 255).to_bytes(32, "little") for sign in (x & 1, 1 - (x & 1))}
    assert len(encodings) == 14
    for key in encodings:
        assert signs_anything("ed25519:" + key.hex())
        with pytest.raises(InvalidArgumentError):
            ed25519.public_key("ed25519:" + key.hex())
    assert not any(signs_anything("ed25519:" + y.to_bytes(32, "little").hex()) for y in range(2, 1000))
    assert not signs_anything(KEY.key)


def test_a_signature_has_one_form() -> None:
    first = bytes.fromhex(KEY.sign(b"x"))
    number = int.from_bytes(first[32:], "little") + ORDER
    assert not ed25519.verify(KEY.key, (first[:32] + number.to_bytes(32, "little")).hex(), b"x")
    for key in (b"\xff" * 32, b"\x02" + b"\x00" * 31):  # no points
        assert not ed25519.verify("ed25519:" + key.hex(), first.hex(), b"x")
