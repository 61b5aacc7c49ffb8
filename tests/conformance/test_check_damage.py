"""Whatever becomes of the bytes of a stream, a check ends with findings or without, and never in another way."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from authoring.parts import write_part
from authoring.states import small_model, trained
from authoring.stream import Stream, small_stream
from deltawire.errors import StreamNotFoundError
from deltawire.format import keys
from deltawire_conformance.checking.checker import check_stream
from deltawire_conformance.checking.findings import CheckReport
from tests.inspecting.streams import new_store
from tests.strategies import load_profile

load_profile()


@cache
def objects() -> dict[str, bytes]:
    stream = small_stream("damage", signers=["a"])
    stream.anchor(2)
    stream.span(0, 2)
    stream.lease()
    stream.pin(0)
    stream.retention(0)
    return dict(stream.objects)


KEYS = sorted(objects())
RECORDS = [key for key in KEYS if key.endswith(".json")]
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
DAMAGE = st.one_of(
    st.tuples(st.just("flip"), st.integers(0, 1 << 20), st.binary(min_size=1, max_size=8)),
    st.tuples(st.just("cut"), st.integers(0, 1 << 20), st.just(b"")),
    st.tuples(st.just("insert"), st.integers(0, 1 << 20), st.binary(min_size=1, max_size=40)),
    st.tuples(st.just("replace"), st.just(0), st.binary(max_size=100)),
)


def damaged(data: bytes, how: str, at: int, put: bytes) -> bytes:
    at %= len(data)
    match how:
        case "flip":
            return data[:at] + put + data[at + len(put) :]
        case "cut":
            return data[:at]
        case "insert":
            return data[:at] + put + data[at:]
        case _:
            return put


def check(changed: dict[str, bytes], *, deep: bool) -> CheckReport | None:
    try:
        return check_stream(new_store(changed), deep=deep)
    except StreamNotFoundError:
        assert keys.STREAM not in changed
        return None


@given(key=st.sampled_from(KEYS), damage=DAMAGE, deep=st.booleans())
def test_damaged_bytes(key: str, damage: tuple[str, int, bytes], deep: bool) -> None:
    before = objects()[key]
    after = damaged(before, *damage)
    report = check(objects() | {key: after}, deep=deep)
    assert report is not None
    if key.startswith("data/") and after != before:  # every byte of these is covered by a sha256
        assert not report.ok(strict=False)


@given(key=st.sampled_from(KEYS), deep=st.booleans())
def test_missing_object(key: str, deep: bool) -> None:
    check({name: data for name, data in objects().items() if name != key}, deep=deep)


@given(key=st.sampled_from(RECORDS), data=st.data(), deep=st.booleans())
def test_any_member_is_anything(key: str, data: st.DataObject, deep: bool) -> None:
    record = json.loads(objects()[key])
    place: Any = record
    while True:
        names = sorted(place) if isinstance(place, dict) else range(len(place))
        name = data.draw(st.sampled_from(list(names)))
        if not isinstance(place[name], dict | list) or not place[name] or data.draw(st.booleans()):
            break
        place = place[name]
    place[name] = data.draw(ANY_JSON)
    assert check(objects() | {key: json.dumps(record).encode()}, deep=deep) is not None


@given(what=st.sampled_from(["part", "shard", "index", "table"]), damage=DAMAGE, deep=st.booleans())
def test_damaged_bytes_whose_digests_fit(what: str, damage: tuple[str, int, bytes], deep: bool) -> None:
    def spoil(data: bytes) -> bytes:
        return damaged(data, *damage)

    def shard(data: bytes, number: int) -> bytes:
        return spoil(data).ljust(8, b"\0")

    stream = Stream("damage")
    stream.create()
    stream.rebase(small_model(), shard=shard if what == "shard" else None)
    if what == "index":
        stream.anchor(0, index=spoil)
    if what == "part":
        stream.delta(
            trained(small_model(), 1), write=lambda rows: [write_part([rows]).reseal(spoil(write_part([rows]).data))]
        )
    if what == "table":
        stream = Stream("damage")
        stream.create()
        stream.rebase(small_model(), table_raw=spoil)
    assert check(stream.objects, deep=deep) is not None
