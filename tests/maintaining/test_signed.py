"""Spans and anchors of a signed stream: signed, and made of nothing that is not."""

from __future__ import annotations

import json

import numpy as np
import pytest

from deltawire import Follower
from deltawire.errors import BadSignatureError, InvalidArgumentError
from deltawire.format import keys
from deltawire.format.strict_json import sha256
from deltawire.maintaining.builder import Builder
from deltawire.maintaining.building import Built
from deltawire.maintaining.ladder import Ladder
from deltawire.store.memory import MemoryStore
from tests.maintaining.streams import EVERY, PARTS
from tests.signing.streams import (
    ANCHOR,
    NEWEST,
    NEXT,
    OURS,
    THEIRS,
    Record,
    changed,
    honest,
    is_state,
    new_store,
    state,
    without_anchor,
)
from tests.signing.test_attacks import ANCHOR_KEY, forged_shard

LADDER = Ladder(smallest=2, largest=2)
SPAN_KEY = keys.span_key(0, 2)


def build(store: MemoryStore, ladder: Ladder = LADDER) -> Built:
    """With a group for each tensor, so that shards are of use in part."""
    with Builder(
        store, ladder=ladder, anchors=EVERY, shard_bytes=1, parts=PARTS, signing_key=NEXT, co_signers=[OURS.key]
    ) as builder:
        return builder.run(force=True)


def test_what_is_made_is_signed() -> None:
    store = new_store(without_anchor())
    built = build(store)
    assert (built.spans, built.anchors, built.problems) == (((0, 2),), (NEWEST,), ())
    for key in (SPAN_KEY, keys.anchor_key(NEWEST)):
        assert json.loads(store.get(key, max_bytes=1 << 20).data)["signature"]["key"] == NEXT.key
    for version in (0, *range(1, NEWEST)):
        store.delete(keys.version_key(version))
    with Follower(store, trust=[OURS.key]) as follower:
        update = follower.poll()
        assert update is not None
        assert update.steps == ("anchor",)
        assert is_state(follower, NEWEST)


def test_nothing_is_made_without_a_key() -> None:
    store = new_store(without_anchor())
    with Builder(store) as builder, pytest.raises(InvalidArgumentError):
        builder.run(force=True)
    with Builder(store, signing_key=THEIRS, co_signers=[OURS.key]) as builder, pytest.raises(InvalidArgumentError):
        builder.run(force=True)
    with Builder(store, signing_key=NEXT) as builder, pytest.raises(BadSignatureError):
        builder.run(force=True)
    assert not [*store.list(keys.SPANS)]


def test_a_span_that_nobody_signed_is_gone_round() -> None:
    store = new_store(without_anchor())
    build(store)
    record = json.loads(store.get(SPAN_KEY, max_bytes=1 << 20).data)
    del record["signature"]
    store.put(SPAN_KEY, json.dumps(record).encode(), mode="overwrite")
    store.delete(keys.anchor_key(NEWEST))
    built = build(store)
    assert [sentence for sentence in built.problems if "span 0-2" in sentence]
    assert built.anchors == (NEWEST,)


@pytest.mark.parametrize("signed", [False, True])
def test_nobody_signs_what_a_forged_shard_holds(signed: bool) -> None:
    """It has the digests that its version gives, and other bits; a group of tensors is read of it at a time."""
    [shard] = json.loads(honest()[ANCHOR_KEY])["snapshot"]["shards"]
    objects = {**honest(), shard["key"]: forged_shard(honest()[shard["key"]], ANCHOR)}

    def believe(record: Record) -> None:
        record["snapshot"]["shards"][0]["digest"] = sha256(objects[shard["key"]])

    store = new_store(objects if signed else changed(objects, ANCHOR_KEY, believe))
    built = build(store, Ladder(smallest=8, largest=8))
    assert [sentence for sentence in built.problems if f"snapshot of version {ANCHOR}" in sentence]
    assert built.anchors == (NEWEST,)
    store.delete(ANCHOR_KEY)
    with Follower(store, trust=[OURS.key]) as follower:
        follower.poll()
        assert np.array_equal(np.asarray(follower.arrays["b"]).view(np.uint64), state(NEWEST)["b"])
