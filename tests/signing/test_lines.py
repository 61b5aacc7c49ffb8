"""Signed streams: written, rolled back, forked, handed over to another key, and read by those who know it."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from hypothesis import given, settings
from hypothesis import strategies as st

from deltawire import AnchorPolicy, Follower, Publisher, check_origin, fork, rollback
from deltawire.deadline import Deadline
from deltawire.ed25519 import SigningKey, generate
from deltawire.errors import BadSignatureError, DeltawireError
from deltawire.format import keys
from deltawire.inspecting.history import history
from deltawire.inspecting.verification import verify_stream
from deltawire.maintaining.collecting import CollectOptions
from deltawire.maintaining.maintainer import Maintainer
from deltawire.maintaining.retaining import RetentionPolicy
from deltawire.materializing import materialize
from deltawire.producer.anchors import NEVER
from deltawire.reading.stream import StreamReader
from deltawire.reading.transfer import Transfer
from deltawire.reading.trust import as_trust
from deltawire.store.memory import MemoryStore
from tests.signing.streams import (
    ANCHOR,
    NEWEST,
    NEXT,
    OURS,
    THEIRS,
    changed,
    contents,
    honest,
    is_state,
    new_store,
    resigned,
    state,
    without_anchor,
    write,
)
from tests.strategies import codec_options, lines, same_bits

KEYS = (OURS, NEXT, THEIRS)
STREAM_AND_HINTS = (keys.STREAM, keys.HEAD, keys.LEASE)


def signers(store: MemoryStore) -> dict[str, str]:
    """Who signed what, by RFC 8032 and nothing of ours."""
    found = {}
    for key, data in contents(store).items():
        if key in STREAM_AND_HINTS or key.startswith((keys.VERSIONS, keys.ANCHORS)):
            signature = json.loads(data).get("signature")
            if signature is None:
                continue
            message = b"deltawire-signature-1\n" + data.replace(signature["value"].encode(), b"0" * 128)
            public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(signature["key"].removeprefix("ed25519:")))
            public.verify(bytes.fromhex(signature["value"]), message)
            found[key] = signature["key"]
    return found


@settings(max_examples=25)
@given(line=lines(), every=st.sampled_from([None, 1, 2]), data=st.data())
def test_whatever_is_published_is_signed_and_read(line: Any, every: int | None, data: st.DataObject) -> None:
    store = new_store()
    policy = AnchorPolicy(every=every, outweigh=None) if every else NEVER
    with Publisher(store, signing_key=OURS, anchors=policy, **data.draw(codec_options)) as publisher:
        for drawn in line:
            done = publisher.publish(drawn.arrays(), dtypes=drawn.dtype_names())
            assert done.record.signature is not None
            publisher.wait_for_anchor()
        assert publisher.anchor_error is None
    with Follower(store, trust=[OURS.key]) as along:
        along.poll()
        assert same_bits(along.arrays, line[-1])
        to = data.draw(st.integers(0, len(line) - 1))
        assert rollback(store, to=to, signing_key=OURS).record.signature is not None
        along.poll()
        assert same_bits(along.arrays, line[to])
    records = {key for key in contents(store) if key == keys.STREAM or key.startswith((keys.VERSIONS, keys.ANCHORS))}
    assert signers(store) == dict.fromkeys(records, OURS.key)
    with Follower(store, trust=[THEIRS.key, OURS.key], tensors=[next(iter(line[-1].bits))]) as some:
        some.poll(to=len(line) - 1)
        some.verify()
    destination = new_store()
    fork(store, destination, version=to, trust=[OURS.key], signing_key=NEXT, co_signers=[THEIRS.key])
    assert set(signers(destination).values()) == {NEXT.key}
    check_origin(destination, store, trust=[OURS.key])
    with Follower(destination, trust=[NEXT.key]) as follower:
        follower.poll()
        assert same_bits(follower.arrays, line[to])
    for place, key in ((store, OURS), (destination, NEXT)):
        assert not verify_stream(place, deep=True, trust=[key.key]).findings
        assert not verify_stream(place).findings


@pytest.mark.parametrize("kind", ["arrays", "directory"])
def test_one_who_has_no_keys_reads_a_signed_stream_too(kind: str, tmp_path: Path) -> None:
    target: Any = None if kind == "arrays" else tmp_path
    store = new_store(honest())
    with Follower(store, target) as follower:
        follower.poll(to=1)
    with Follower(store, follower.target if target is None else target, trust=[OURS.key]) as follower:
        update = follower.poll()
        assert update is not None
        assert (update.version, update.steps) == (NEWEST, ("delta",) * 2)
        follower.verify()


def refused(call: Any) -> str:
    with pytest.raises(DeltawireError) as error:
        call()
    return error.value.code


def test_whose_key_may_write() -> None:
    signed, unsigned = new_store(honest()), new_store()
    write(unsigned, key=None)
    cases: list[tuple[MemoryStore, Any, Any]] = [
        (signed, None, None),
        (signed, THEIRS, None),
        (signed, THEIRS, [OURS.key]),
        (unsigned, OURS, None),
    ]
    for store, key, others in cases:
        before = contents(store)
        publish = partial(Publisher, store, signing_key=key, co_signers=others)
        go_back = partial(rollback, store, to=0, signing_key=key, trust=others)
        assert refused(publish) == refused(go_back) == "invalid_argument"
        assert contents(store) == before, "nothing is written, not even a lease"
    before = contents(signed)
    assert refused(lambda: rollback(signed, to=0, trust=[OURS.key])) == "invalid_argument"
    assert refused(lambda: rollback(unsigned, to=0, trust=[OURS.key])) == "bad_signature"
    assert refused(lambda: fork(unsigned, new_store(), trust=[OURS.key])) == "bad_signature"
    assert contents(signed) == before


def test_going_over_to_the_next_key() -> None:
    store = new_store(honest())
    before = contents(store)
    with pytest.raises(BadSignatureError) as refusal:  # its own key does not vouch for a list that another signed
        Publisher(store, signing_key=NEXT)
    assert "co-signer" in refusal.value.hint
    assert contents(store) == before
    with Publisher(store, signing_key=NEXT, co_signers=[OURS.key], anchors=AnchorPolicy(every=1, outweigh=None)) as new:
        new.publish(state(4))
        new.wait_for_anchor()
    rollback(store, to=0, signing_key=NEXT, trust=[OURS.key])
    with Publisher(store, signing_key=OURS) as old:  # and back
        old.publish(state(6))
    found = signers(store)
    assert [found[keys.version_key(number)] for number in range(7)] == [OURS.key] * 4 + [NEXT.key] * 2 + [OURS.key]
    assert found[keys.anchor_key(4)] == NEXT.key
    for held in (None, 1):
        with Follower(store, trust=[OURS.key]) as follower:
            if held is not None:
                follower.poll(to=held)
            follower.poll()
            assert is_state(follower, 6)
    for trusted in ([NEXT.key], [THEIRS.key]):
        with Follower(store, trust=trusted) as follower:
            assert refused(follower.poll) == "bad_signature"
            assert follower.version is None
    assert not verify_stream(store, deep=True, trust=[OURS.key]).findings


@pytest.mark.parametrize("source", [None, OURS])
@pytest.mark.parametrize("own", [None, NEXT])
def test_forks_have_keys_of_their_own(source: SigningKey | None, own: SigningKey | None) -> None:
    origin, destination = new_store(), new_store()
    write(origin, key=source)
    trust = None if source is None else [source.key]
    done = fork(origin, destination, version=ANCHOR, trust=trust, signing_key=own)
    assert ("signed" in done.record.writer_features) == (own is not None)
    assert set(signers(destination).values()) == (set() if own is None else {own.key})
    assert done.how == "copied"
    with Publisher(destination, signing_key=own) as publisher:
        publisher.publish(state(5))
    with Follower(destination, trust=None if own is None else [own.key]) as follower:
        follower.poll()
        assert is_state(follower, 5)


def test_a_fork_that_was_interrupted_is_finished_with_its_key() -> None:
    source, destination = new_store(honest()), new_store()
    fork(source, destination, signing_key=NEXT, co_signers=[OURS.key])
    destination.delete(keys.version_key(0))
    for key in (None, THEIRS):
        assert refused(partial(fork, source, destination, signing_key=key)) == "invalid_argument"
    assert refused(lambda: fork(source, destination, signing_key=OURS)) == "bad_signature"
    done = fork(source, destination, signing_key=OURS, co_signers=[NEXT.key])
    assert signers(destination) == {keys.STREAM: NEXT.key, keys.version_key(0): OURS.key}
    with Follower(destination, trust=[NEXT.key]) as follower:
        assert follower.poll() is not None
        assert follower.record == done.record


def test_what_is_built_from_a_stream_is_checked_first() -> None:
    """Nobody lends a forged version their own signature."""
    forged = changed(without_anchor(), keys.version_key(1), lambda record: record.pop("signature"))
    store = new_store(forged)
    assert refused(lambda: rollback(store, to=1, signing_key=OURS)) == "bad_signature"
    assert refused(lambda: Publisher(store, signing_key=OURS)) == "bad_signature"
    destination = new_store()
    assert refused(lambda: fork(store, destination, version=1, trust=[OURS.key], signing_key=NEXT)) == "bad_signature"
    assert not contents(destination)
    assert {key: data for key, data in contents(store).items() if key != keys.LEASE} == {
        key: data for key, data in forged.items() if key != keys.LEASE
    }


def test_a_forged_anchor_is_not_copied_into_a_fork() -> None:
    forged = changed(honest(), keys.anchor_key(ANCHOR), lambda record: record.pop("signature"))
    assert fork(new_store(forged), new_store(), version=ANCHOR, trust=[OURS.key]).how == "rebuilt"
    assert fork(new_store(forged), new_store(), version=ANCHOR).how == "copied"


def test_materializing_and_looking(tmp_path: Path) -> None:
    broken = new_store(changed(honest(), keys.version_key(NEWEST), lambda record: record.update(epoch=1)))
    assert refused(lambda: materialize(broken, tmp_path / "x", trust=[OURS.key])) == "bad_signature"
    assert not (tmp_path / "x").exists()
    materialize(new_store(honest()), tmp_path / "y", trust=[OURS.key])
    transfer = Transfer(broken)
    reader = StreamReader(transfer, as_trust([OURS.key]))
    entries = list(history(reader, limit=None, deadline=Deadline(None)))
    transfer.close()
    assert [entry.error.code if entry.error else None for entry in entries] == ["bad_signature", None, None, None]


def test_verification() -> None:
    store = new_store(honest())
    own = verify_stream(store, deep=True)
    assert own.sound
    assert any("not checked" in note for note in own.notes)
    assert not any("keys" in note for note in verify_stream(store, trust=[OURS.key]).notes)
    forged = new_store(resigned(honest(), keys.anchor_key(ANCHOR), THEIRS, lambda record: None))
    for trust in (None, [OURS.key]):
        found = verify_stream(forged, trust=trust).findings
        assert [(finding.code, finding.key) for finding in found] == [("bad_signature", keys.anchor_key(ANCHOR))]
    unsigned = new_store(changed(honest(), keys.version_key(NEWEST), lambda record: record.pop("signature")))
    for trust in (None, [OURS.key]):
        found = verify_stream(unsigned, trust=trust, deep=True).findings
        assert [(finding.code, finding.key) for finding in found] == [("bad_signature", keys.version_key(NEWEST))]
    found = verify_stream(store, trust=[generate().key]).findings
    assert [(finding.code, finding.key) for finding in found] == [("bad_signature", keys.STREAM)]
    moved = new_store(resigned(honest(), keys.STREAM, OURS, lambda record: record.update(signing_keys=[NEXT.key])))
    for trust in (None, [OURS.key], [NEXT.key]):  # signed by a key that it does not list
        assert [finding.code for finding in verify_stream(moved, trust=trust).findings] == ["bad_signature"]
    plain = new_store()
    write(plain, key=None)
    assert not [note for note in verify_stream(plain).notes if "key" in note]
    assert [finding.code for finding in verify_stream(plain, trust=[OURS.key]).findings] == ["bad_signature"]
    assert np.all([verify_stream(place).sound for place in (plain, store)])


@pytest.mark.parametrize("trust", [None, [OURS.key]], ids=["believing", "trusting"])
def test_a_maintainer_with_keys_moves_the_boundary_to_no_forged_snapshot(trust: list[str] | None) -> None:
    """What lies before it would go, and nothing that was signed would be left to begin with."""
    objects = changed(honest(), keys.anchor_key(ANCHOR), lambda record: record.pop("signature"))
    store = new_store(objects)
    options = CollectOptions(policy=RetentionPolicy(keep_last=1))
    maintainer: Maintainer[None] = Maintainer(store, options, trust=trust)
    with maintainer:
        done = maintainer.once().collected
    assert done is not None
    assert done.boundary == (ANCHOR if trust is None else 0)
