"""Someone who can write to the store, but cannot sign, makes nobody hold anything that was not signed."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltawire import Follower, Publisher, fork, rollback
from deltawire.errors import CODES
from deltawire.format import keys
from deltawire.format.strict_json import sha256
from deltawire.format.tensors import digest_seed
from deltawire.store.memory import MemoryStore
from tests.core.refusal import refusal
from tests.signing.streams import (
    ANCHOR,
    NEWEST,
    NEXT,
    OURS,
    THEIRS,
    Objects,
    Record,
    another,
    changed,
    honest,
    is_state,
    new_store,
    nothing,
    resigned,
    state,
    taken_over,
    without_anchor,
)

V = keys.version_key


def follow(objects: Mapping[str, bytes], *, held: int | None = None, trust: Any = (OURS.key,)) -> str | None:
    """The code of the error in which following ends, from nothing or a version; what is held was signed."""
    with Follower(new_store(without_anchor()), trust=trust) as follower:
        if held is not None:
            follower.poll(to=held)
        target = follower.target
    with Follower(new_store(objects), target, trust=trust) as follower:
        code = refusal(follower.poll)
        assert code is None or code in CODES
        version = follower.version
        assert version == (NEWEST if code is None else held)
        if version is not None:
            assert is_state(follower, version)
            follower.verify()
    with Follower(new_store(without_anchor()), follower.target, trust=trust) as follower:  # and it can go on
        follower.poll()
        assert is_state(follower, NEWEST)
    return code


def without(record: Record, *names: str) -> None:
    for name in names:
        record.pop(name)


def as_without_signature(record: Record) -> None:
    without(record, "signature")


def as_unsigned(record: Record) -> None:
    without(record, "signature", "signing_keys")
    record["writer_features"] = []


GOOD = without_anchor()


def other_signature(version: int) -> Record:
    found: Record = json.loads(GOOD[V(version)])["signature"]
    return found


def padded(record: Record, value: str) -> None:
    record["metadata"] = {"value": value}


def escaped(key: str) -> Objects:
    value = json.loads(GOOD[key])["signature"]["value"]
    written = "".join(f"\\u{ord(digit):04x}" for digit in value)
    return {**GOOD, key: GOOD[key].replace(value.encode(), written.encode())}


def twice(key: str) -> Objects:
    value = json.loads(GOOD[key])["signature"]["value"]
    return resigned(GOOD, key, OURS, lambda record: padded(record, value)) | changed(
        GOOD, key, lambda record: padded(record, value)
    )


def of_another_stream(version: int) -> Objects:
    """A record of another stream of the same key, with what it names."""
    named = {key: data for key, data in another().items() if key.startswith(keys.DATA)}
    return {**GOOD, **named, V(version): another()[V(version)]}


STREAM_ATTACKS: dict[str, tuple[Objects, str]] = {
    "unsigned": (changed(GOOD, keys.STREAM, lambda record: without(record, "signature")), "bad_signature"),
    "an unsigned stream": (changed(GOOD, keys.STREAM, as_unsigned), "bad_signature"),
    "only its feature": (
        changed(GOOD, keys.STREAM, lambda record: without(record, "signature", "signing_keys")),
        "malformed_record",
    ),
    "the attacker's": (taken_over(GOOD, [THEIRS.key]), "bad_signature"),
    "the attacker's, who lists us too": (taken_over(GOOD, [THEIRS.key, OURS.key]), "bad_signature"),
    "the attacker's name, our signature": (
        changed(GOOD, keys.STREAM, lambda record: record["signature"].update(key=THEIRS.key)),
        "bad_signature",
    ),
    "one more key": (
        changed(GOOD, keys.STREAM, lambda record: record["signing_keys"].append(THEIRS.key)),
        "bad_signature",
    ),
    "signed by the next key": (resigned(GOOD, keys.STREAM, NEXT, nothing), "bad_signature"),
    "signed by a key that it does not list": (
        resigned(GOOD, keys.STREAM, OURS, lambda record: record.update(signing_keys=[NEXT.key])),
        "bad_signature",
    ),
    "the signature of a version": (
        changed(GOOD, keys.STREAM, lambda record: record.update(signature=other_signature(0))),
        "bad_signature",
    ),
    "escaped": (escaped(keys.STREAM), "malformed_record"),
    "twice": (twice(keys.STREAM), "malformed_record"),
}


@pytest.mark.parametrize("held", [None, 1])
@pytest.mark.parametrize("name", STREAM_ATTACKS)
def test_the_stream_record(name: str, held: int | None) -> None:
    objects, code = STREAM_ATTACKS[name]
    assert follow(objects, held=held) == code


def version_attacks(version: int) -> dict[str, tuple[Objects, str]]:
    key = V(version)
    return {
        "unsigned": (changed(GOOD, key, lambda record: without(record, "signature")), "bad_signature"),
        "the attacker's": (resigned(GOOD, key, THEIRS, nothing), "bad_signature"),
        "the attacker's under our name": (
            changed(GOOD, key, lambda record: record["signature"].update(value=THEIRS.sign(b"x"))),
            "bad_signature",
        ),
        "swapped": (
            changed(GOOD, key, lambda record: record.update(signature=other_signature(version - 1))),
            "bad_signature",
        ),
        "zeros": (
            changed(GOOD, key, lambda record: record["signature"].update(value="0" * 128)),
            "bad_signature",
        ),
        "other metadata": (changed(GOOD, key, lambda record: record["metadata"].update(step=9)), "bad_signature"),
        "a member that nobody knows": (changed(GOOD, key, lambda record: record.update(later=1)), "bad_signature"),
        "white space": ({**GOOD, key: GOOD[key] + b" "}, "bad_signature"),
        "another order": (
            {**GOOD, key: json.dumps(dict(reversed(json.loads(GOOD[key]).items()))).encode()},
            "bad_signature",
        ),
        "the version before": ({**GOOD, key: GOOD[V(version - 1)]}, "broken_chain"),
        "another stream's": (of_another_stream(version), "wrong_stream"),
        "escaped": (escaped(key), "malformed_record"),
        "twice": (twice(key), "malformed_record"),
        "long": (
            changed(GOOD, key, lambda record: record["signature"].update(value="0" * 1_000_000)),
            "malformed_record",
        ),
        "no object": (changed(GOOD, key, lambda record: record.update(signature=[])), "malformed_record"),
    }


@pytest.mark.parametrize("held", [None, 1])
@pytest.mark.parametrize("version", [2, NEWEST])
@pytest.mark.parametrize("name", version_attacks(NEWEST))
def test_a_version_record(name: str, version: int, held: int | None) -> None:
    objects, code = version_attacks(version)[name]
    assert follow(objects, held=held) == code


def test_versions_that_nobody_signed() -> None:
    """One who can write can stop a consumer, and no more: it stays where it is."""
    after = resigned(
        GOOD,
        V(NEWEST),
        THEIRS,
        lambda record: record.update(version=4, parent={"version": 3, "digest": sha256(GOOD[V(3)])}),
    )
    objects = {**GOOD, V(NEWEST + 1): after[V(NEWEST)]}
    with Follower(new_store(objects), trust=[OURS.key]) as follower:
        follower.poll(to=NEWEST)
        assert refusal(follower.poll) == "bad_signature"
        assert follower.version == NEWEST
        assert is_state(follower, NEWEST)


ANCHOR_KEY = keys.anchor_key(ANCHOR)


@pytest.mark.parametrize(
    "objects",
    [
        changed(honest(), ANCHOR_KEY, lambda record: without(record, "signature")),
        resigned(honest(), ANCHOR_KEY, THEIRS, nothing),
        changed(honest(), ANCHOR_KEY, lambda record: record.update(signature=other_signature(1))),
        {**honest(), ANCHOR_KEY: honest()[ANCHOR_KEY] + b"\n"},
        {**honest(), ANCHOR_KEY: another()[ANCHOR_KEY]},
    ],
    ids=["unsigned", "the attacker's", "swapped", "white space", "another stream's"],
)
def test_an_anchor_that_is_not_ours_is_of_no_use(objects: Objects) -> None:
    with Follower(new_store(objects), trust=[OURS.key]) as follower:
        update = follower.poll()
        assert update is not None
        assert update.steps == ("snapshot", *["delta"] * NEWEST)
        assert is_state(follower, NEWEST)
    with Follower(new_store(honest()), trust=[OURS.key]) as follower:
        update = follower.poll()
        assert update is not None
        assert update.steps[0] == "anchor"


@settings(max_examples=300)
@given(data=st.data())
def test_a_flipped_bit_anywhere_in_a_record(data: st.DataObject) -> None:
    used = [keys.STREAM, *map(V, range(NEWEST + 1))]
    key = data.draw(st.sampled_from(used))
    stored = bytearray(GOOD[key])
    stored[data.draw(st.integers(0, len(stored) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with Follower(new_store({**GOOD, key: bytes(stored)}), trust=[OURS.key]) as follower:
        assert refusal(follower.poll) in CODES
        assert not follower.arrays


@given(data=st.data())
def test_a_flipped_bit_anywhere_in_an_anchor(data: st.DataObject) -> None:
    stored = bytearray(honest()[ANCHOR_KEY])
    stored[data.draw(st.integers(0, len(stored) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with Follower(new_store({**honest(), ANCHOR_KEY: bytes(stored)}), trust=[OURS.key]) as follower:
        update = follower.poll()
        assert update is not None
        assert update.steps[0] == "snapshot"
        assert is_state(follower, NEWEST)


def test_hints_decide_nothing() -> None:
    for record in (b"{}", json.dumps(json.loads(GOOD[keys.HEAD]) | {"version": 9}).encode()):
        assert follow({**GOOD, keys.HEAD: record}) is None


def test_another_stream_of_the_same_key() -> None:
    with Follower(new_store(another()), trust=[OURS.key]) as follower:
        follower.poll()  # whoever holds nothing cannot know
        target = follower.target
    with Follower(new_store(GOOD), target, trust=[OURS.key]) as follower:
        assert refusal(follower.poll) == "wrong_base"


@pytest.mark.parametrize("kind", ["arrays", "directory"])
def test_what_was_taken_over_before_there_were_keys(kind: str, tmp_path: Path) -> None:
    forged = resigned(GOOD, V(0), THEIRS, nothing)
    target: Any = None if kind == "arrays" else tmp_path
    with Follower(new_store(forged), target) as follower:
        follower.poll(to=0)
        target = follower.target if target is None else target
    only = {key: data for key, data in GOOD.items() if not key.startswith(keys.VERSIONS) or key == V(0)}
    for objects in (GOOD, only):  # even where there is nothing new
        with Follower(new_store(objects), target, trust=[OURS.key]) as follower:
            assert refusal(follower.poll) == "bad_signature"
            assert follower.version == 0


# A digest of 64 bits that is a sum has no chance against someone who means it.

_M = (1 << 64) - 1
_G, _A, _B = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def _mix(x: int) -> int:
    x = ((x ^ (x >> 30)) * _A) & _M
    x = ((x ^ (x >> 27)) * _B) & _M
    return x ^ (x >> 31)


def _unmix(x: int) -> int:
    def unshift(x: int, by: int) -> int:
        found = x
        for _ in range(64 // by):
            found = x ^ (found >> by)
        return found

    x = (unshift(x, 31) * pow(_B, -1, 1 << 64)) & _M
    x = (unshift(x, 27) * pow(_A, -1, 1 << 64)) & _M
    return unshift(x, 30)


def forged_shard(shard: bytes, version: int) -> bytes:
    """Tensor ``b`` with other bits of the same digest: two elements, the second of which makes up for the first."""
    seed = digest_seed("b", "U64", (7,))
    old = state(version)["b"].tolist()

    def share(index: int, bits: int) -> int:
        return _mix(((seed + index * _G) & _M) ^ bits)

    wanted = (share(0, old[0]) + share(1, old[1])) & _M
    new = [0xBAD, _unmix((wanted - share(0, 0xBAD)) & _M) ^ ((seed + _G) & _M), *old[2:]]
    before, after = (struct.pack("<7Q", *values) for values in (old, new))
    assert shard.count(before) == 1
    return shard.replace(before, after)


def test_a_shard_of_which_a_part_is_read() -> None:
    [key] = [key for key in GOOD if key.endswith(".safetensors")]
    first = {key: data for key, data in GOOD.items() if not key.startswith(keys.VERSIONS) or key == V(0)}
    objects = {**first, key: forged_shard(first[key], 0)}
    with Follower(new_store(objects), tensors=["b"]) as follower:
        follower.poll()
        follower.verify()
        assert int(np.asarray(follower.arrays["b"]).view(np.uint64)[0]) == 0xBAD, "without keys it is believed"
    for tensors in (["b"], ["a"], None):
        with Follower(new_store(objects), tensors=tensors, trust=[OURS.key]) as follower:
            assert refusal(follower.poll) == "digest_mismatch"
            assert not follower.arrays
    with Follower(new_store(first), tensors=["b"], trust=[OURS.key]) as follower:
        update = follower.poll()
        assert update is not None
        assert list(follower.arrays) == ["b"]
        assert update.bytes_fetched == len(first[key])


def test_nobody_signs_what_a_forged_anchor_holds() -> None:
    """It has the digests that its version gives, and other bits; only its signature is missing."""
    [shard] = json.loads(honest()[ANCHOR_KEY])["snapshot"]["shards"]
    forged = forged_shard(honest()[shard["key"]], ANCHOR)
    objects = {**honest(), shard["key"]: forged}

    def believe(record: Record) -> None:
        record["snapshot"]["shards"][0]["digest"] = sha256(forged)

    def first_of(store: MemoryStore) -> int:
        with Follower(store) as follower:
            follower.poll()
            return int(np.asarray(follower.arrays["b"]).view(np.uint64)[0])

    for change in (as_without_signature, nothing):
        store = new_store(changed(changed(objects, ANCHOR_KEY, believe), ANCHOR_KEY, change))
        assert first_of(store) == 0xBAD, "without keys it is believed"
        for version in (ANCHOR, NEWEST):
            destination = new_store()
            assert fork(store, destination, version=version, trust=[OURS.key], signing_key=NEXT).how == "rebuilt"
            assert first_of(destination) == state(version)["b"][0]
        with Publisher(store, signing_key=OURS) as publisher:
            assert publisher.publish(state(NEWEST)).changed_elements == 0
        rollback(store, to=ANCHOR, signing_key=OURS)
        with Follower(store, trust=[OURS.key]) as follower:
            follower.poll()
            assert is_state(follower, ANCHOR)
