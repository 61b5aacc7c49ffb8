"""A signed stream as objects by key, and what an attacker who can write to its store makes of it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np

from deltawire import AnchorPolicy, Follower, Publisher
from deltawire.ed25519 import SigningKey, generate
from deltawire.format import keys
from deltawire.format.strict_json import sha256
from deltawire.store.memory import MemoryStore

Objects = dict[str, bytes]
Record = dict[str, Any]

NEWEST, ANCHOR = 3, 2
OURS, NEXT, THEIRS = generate(), generate(), generate()
"""The key of the stream, the one that it lists for later, and an attacker's."""
_NUMBERS = itertools.count()


def new_store(objects: Mapping[str, bytes] | None = None) -> MemoryStore:
    store = MemoryStore(f"signing-{next(_NUMBERS)}")
    for key, data in (objects or {}).items():
        store.put(key, data, mode="overwrite")
    return store


def contents(store: MemoryStore) -> Objects:
    return {info.key: store.get(info.key, max_bytes=info.bytes).data for info in store.list("")}


def state(version: int) -> dict[str, np.ndarray[Any, Any]]:
    """Two tensors in one shard, of which a digest can be forged."""
    a, b = np.arange(50, dtype=np.uint64), np.arange(7, dtype=np.uint64)
    return {"a": a + version, "b": b * 3 + min(version, ANCHOR)}


def write(store: MemoryStore, *, anchor: bool = True, key: SigningKey | None = OURS) -> None:
    """Versions 0 to ``NEWEST``, and perhaps an anchor of ``ANCHOR``."""
    policy = AnchorPolicy(every=ANCHOR if anchor else None, outweigh=None)
    signing = {} if key is None else {"signing_key": key, "co_signers": [NEXT.key]}
    with Publisher(store, anchors=policy, **signing) as publisher:  # type: ignore[arg-type]
        for version in range(NEWEST + 1):
            publisher.publish(state(version), metadata={"step": version}, files={"config.json": b"{}"})
            publisher.wait_for_anchor()
        assert publisher.anchor_error is None


@cache
def honest() -> Mapping[str, bytes]:
    store = new_store()
    write(store)
    return contents(store)


@cache
def without_anchor() -> Mapping[str, bytes]:
    store = new_store()
    write(store, anchor=False)
    return contents(store)


@cache
def another() -> Mapping[str, bytes]:
    """Another stream of the same key."""
    store = new_store()
    write(store)
    return contents(store)


def changed(objects: Mapping[str, bytes], key: str, change: Callable[[Record], object]) -> Objects:
    """With one record rewritten, and whatever signature it then has."""
    record = json.loads(objects[key])
    change(record)
    return {**objects, key: json.dumps(record, separators=(",", ":")).encode()}


def resigned(objects: Mapping[str, bytes], key: str, by: SigningKey, change: Callable[[Record], object]) -> Objects:
    """With one record rewritten and signed, by nothing but the text of SPEC.md section 8.14."""

    def sign(record: Record) -> None:
        change(record)
        record["signature"] = {"key": by.key, "value": "0" * 128}
        data = json.dumps(record, separators=(",", ":")).encode()
        record["signature"]["value"] = by.private.sign(b"deltawire-signature-1\n" + data).hex()

    return changed(objects, key, sign)


def nothing(record: Record) -> None:
    """Leave a record as it is."""


def taken_over(objects: Mapping[str, bytes], keys_listed: list[str]) -> Objects:
    """The whole stream signed by the attacker, who lists these keys; of the same id, so that nothing else tells."""
    made = resigned(objects, keys.STREAM, THEIRS, lambda record: record.update(signing_keys=keys_listed))
    parent = ""
    for version in range(NEWEST + 1):

        def link(record: Record, parent: str = parent) -> None:
            if parent:
                record["parent"]["digest"] = parent

        made = resigned(made, keys.version_key(version), THEIRS, link)
        parent = sha256(made[keys.version_key(version)])
    made.pop(keys.anchor_key(ANCHOR), None)
    return made


def is_state(follower: Follower, version: int) -> bool:
    return all(
        np.array_equal(np.asarray(follower.arrays[name]).view(np.uint64), array)
        for name, array in state(version).items()
    )
