"""Whatever one object of a stream becomes, fsck finds it, or it is of a kind that misleads no reader."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from deltawire import Follower
from deltawire.format import keys
from deltawire.inspecting.diagnosis import Diagnosis, diagnose
from tests.inspecting.streams import NEWEST, collect, contents, final_bits, new_store, whole

KEYS = sorted(whole())
NOT_PROTECTED = {keys.STREAM, keys.HEAD, keys.LEASE, keys.RETENTION, keys.version_key(NEWEST)}
"""Objects of which no record has the sha256: the bytes that nothing else says anew can be changed unseen."""
INFORMING = {"created_at", "producer", "commit_id", "metadata", "epoch", "protocol_version"}
"""Members of the envelope on which nothing rests that a reader makes of a stream. REC-5, REC-6, VER-1"""


def collected() -> dict[str, bytes]:
    store = new_store(whole())
    collect(store, 5, 0)
    return contents(store)


COLLECTED = collected()


def misnamed(key: str, name: bytes, other: bytes) -> dict[str, bytes]:
    objects = COLLECTED | {key: COLLECTED[key].replace(b'"' + name + b'":', b'"' + other + b'":')}
    assert objects != COLLECTED
    return objects


def test_optional_members_that_lost_their_name() -> None:
    for key, name in ((keys.version_key(NEWEST), b"files"), (keys.RETENTION, b"kept")):
        found = examined(misnamed(key, name, b"fails"))
        assert found.clean
        assert [item.key for item in found.notes if item.sort == "member"] == [key]
    found = examined(misnamed(keys.version_key(NEWEST - 1), b"files", b"fails"))
    assert {item.code for item in found.damage} == {"broken_chain", "path_lost"}


def reads_right(objects: dict[str, bytes]) -> bool:
    """Whether one who comes from nothing reads the newest version that is there, bit for bit."""
    store = new_store(objects)
    newest = NEWEST if keys.version_key(NEWEST) in objects else NEWEST - 1
    with Follower(store) as follower:
        follower.poll()
        return follower.version == newest and {
            name: array.tobytes() for name, array in follower.arrays.items()
        } == final_bits(newest)


def examined(objects: dict[str, bytes]) -> Diagnosis:
    return diagnose(new_store(objects), deep=True)


@given(key=st.sampled_from(KEYS))
def test_deleted(key: str) -> None:
    objects = {name: data for name, data in whole().items() if name != key}
    found = examined(objects)
    if found.clean:
        # A hint, a lease and a pin are made again by whoever needs them. Without its record an anchor or a span was
        # never there, and what it named is an orphan; so was the newest version, and the head says more.
        assert key in NOT_PROTECTED or key.startswith((keys.ANCHORS, keys.SPANS, keys.PINS))
        assert reads_right(objects)
        noted = {item.sort for item in found.notes}
        assert key in {keys.HEAD, keys.LEASE} or key.startswith(keys.PINS) or noted & {"unreferenced", "under_way"}
        if key == keys.version_key(NEWEST):
            assert "head" in noted


@given(key=st.sampled_from(sorted(COLLECTED)))
def test_deleted_after_collecting(key: str) -> None:
    objects = {name: data for name, data in COLLECTED.items() if name != key}
    found = examined(objects)
    if found.clean:
        assert key in NOT_PROTECTED - {keys.RETENTION} or key.startswith((keys.ANCHORS, keys.SPANS, keys.PINS))
        assert reads_right(objects)


@settings(max_examples=300)
@given(data=st.data())
def test_flipped(data: st.DataObject) -> None:
    collected_too = data.draw(st.booleans())
    given_objects = COLLECTED if collected_too else dict(whole())
    key = data.draw(st.sampled_from(sorted(given_objects)))
    stored = bytearray(given_objects[key])
    stored[data.draw(st.integers(0, len(stored) - 1))] ^= data.draw(st.integers(1, 255))
    objects = given_objects | {key: bytes(stored)}
    found = examined(objects)
    if found.way is not None:
        assert reads_right(objects)
    if not found.clean:
        return
    assert found.way is not None
    if key.startswith("data/"):  # each byte of these is covered by a sha256
        raise AssertionError(key)
    if key in {keys.HEAD, keys.LEASE, keys.RETENTION} or key.startswith(keys.PINS):
        return  # they are written anew all the time; of retention.json below
    changed = difference(json.loads(given_objects[key]), json.loads(bytes(stored)))
    assert changed
    without_child = {keys.version_key(0)} if collected_too else set()  # version 1 had its sha256
    assert key in NOT_PROTECTED | without_child or key.startswith((keys.ANCHORS, keys.SPANS))
    if "files" in changed:  # an optional member that is not called so any more. VER-4
        changed = set()
        noted = {item.sort for item in found.notes}
        assert ("unreferenced" if key.startswith(keys.ANCHORS) else "member") in noted
    assert changed <= INFORMING | MORE, (key, changed)


MORE = {
    "media_type",  # of a table or an index, which are read as what they are
    "changed_tensors",  # informs people
}


def difference(one: Any, other: Any, name: str = "") -> set[str]:
    """Names of the members in which two JSON values differ, innermost, or the one of the envelope around them."""
    if isinstance(one, dict) and isinstance(other, dict) and name not in INFORMING:
        members = [(at, one.get(at), other.get(at)) for at in one.keys() | other.keys()]
        return set().union(*(difference(a, b, at) for at, a, b in members))
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return set().union(*(difference(a, b, name) for a, b in zip(one, other, strict=True)))
    return set() if one == other else {name}


@given(place=st.integers(0, len(COLLECTED[keys.RETENTION]) - 1), bits=st.integers(1, 255))
def test_retention_flipped(place: int, bits: int) -> None:
    """Another boundary or another version kept is found, unless all that is retained by it is there and whole."""
    stored = bytearray(COLLECTED[keys.RETENTION])
    stored[place] ^= bits
    objects = COLLECTED | {keys.RETENTION: bytes(stored)}
    found = examined(objects)
    if found.clean:
        assert reads_right(objects)
        assert found.newest == NEWEST
        assert found.boundary in {5, 9}  # those with a snapshot
        assert set(found.kept) <= {0, 5}
