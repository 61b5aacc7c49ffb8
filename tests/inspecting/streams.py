"""Streams with everything in them that a stream can have, and ways to damage them."""

from __future__ import annotations

import itertools
import json
import uuid
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np

from deltawire import AnchorPolicy, Publisher
from deltawire.deadline import Deadline
from deltawire.format import keys, records
from deltawire.format.records import PinRecord
from deltawire.parts.writer import PartOptions
from deltawire.producer.envelope import envelope
from deltawire.store.base import Store
from deltawire.store.memory import MemoryStore
from tests.retaining import retain
from tests.spans import add_span

Objects = Mapping[str, bytes]
Arrays = dict[str, np.ndarray[Any, Any]]
_NUMBERS = itertools.count()
FOREVER = Deadline(None)

NEWEST = 12
ANCHOR, REBASE = 5, 9
SPANS = ((0, 4), (5, 8))


def new_store(objects: Objects | None = None) -> MemoryStore:
    store = MemoryStore(f"inspecting-{next(_NUMBERS)}")
    for key, data in (objects or {}).items():
        store.put(key, data, mode="create")
    return store


def contents(store: Store) -> dict[str, bytes]:
    return {info.key: store.get(info.key, max_bytes=info.bytes).data for info in store.list("")}


def states(count: int, *, seed: int = 3) -> list[Arrays]:
    """A weight of which a little changes with each version, and a bias that never does."""
    random = np.random.default_rng(seed)
    line: list[Arrays] = [
        {"w": random.integers(0, 1 << 16, 400, dtype=np.uint16), "bias": np.arange(5, dtype=np.float32)}
    ]
    while len(line) < count:
        weights = line[-1]["w"].copy()
        weights[random.choice(400, 20, replace=False)] += np.uint16(1)
        line.append(line[-1] | {"w": weights})
    return line


def publish_all(store: Store, line: list[Arrays], *, rebase: int | None = REBASE, absolute: bool = False) -> None:
    """Version by version, with a config that changes now and then, and another tensor table from ``rebase`` on."""
    policy = AnchorPolicy(every=ANCHOR, outweigh=None)
    parts = PartOptions(batch_bytes=64)
    with Publisher(store, anchors=policy, absolute=absolute, parts=parts, shard_bytes=500) as publisher:
        for number, state in enumerate(line):
            more = {} if rebase is None or number < rebase else {"extra": np.arange(7, dtype=np.uint8)}
            files = {"config.json": b'{"stage": %d}' % (number // 3), "merges.txt": b"a b"}
            publisher.publish(state | more, files=files, metadata={"step": number})
            publisher.wait_for_anchor()
            assert publisher.anchor_error is None


def stream_id(store: Store) -> str:
    found: str = json.loads(store.get(keys.STREAM, max_bytes=1 << 20).data)["stream_id"]
    return found


def add_pin(store: Store, first: int) -> str:
    members = envelope(stream_id(store), "pin", epoch=0, writer_features=())
    record = PinRecord(
        **members, holder="engine-1", acquired_at=members["created_at"], ttl_ms=60_000, released=False, first=first
    )
    key = keys.pin_key(str(uuid.uuid4()))
    store.put(key, records.encode(record), mode="create")
    return key


def named_in(record: Any) -> set[str]:
    """Every key in a record, by whatever member."""
    if isinstance(record, dict):
        own = {record["key"]} if isinstance(record.get("key"), str) else set()
        return own.union(*(named_in(member) for member in record.values()))
    return set().union(*(named_in(item) for item in record)) if isinstance(record, list) else set()


def record_of(store: Store, key: str) -> Any:
    return json.loads(store.get(key, max_bytes=1 << 24).data)


def collect(store: Store, boundary: int, *kept: int) -> None:
    """Move the boundary, then remove what is not retained, with all that only it needs."""
    retain(store, boundary, *kept)
    gone, stay = set(), set()
    for key in contents(store):
        number, span = keys.parse_numbered(key), keys.parse_span(key)
        versions = [number] if number is not None else list(span or ())
        if versions and any(number < boundary and number not in kept for number in versions):
            gone |= {key, *named_in(record_of(store, key))}
        elif versions:
            stay |= {key, *named_in(record_of(store, key))}
    for key in gone - stay:
        store.delete(key)


@cache
def whole() -> Objects:
    """Thirteen versions with two spans, an anchor, a rebase, a pin, files that change, a lease and a head."""
    store = new_store()
    publish_all(store, states(NEWEST + 1))
    for base, target in SPANS:
        add_span(store, base, target)
    add_pin(store, 7)
    return MappingProxyType(contents(store))


@cache
def final_states() -> list[Arrays]:
    """What the versions of ``whole`` hold."""
    line = states(NEWEST + 1)
    return [state if n < REBASE else state | {"extra": np.arange(7, dtype=np.uint8)} for n, state in enumerate(line)]


def final_bits(number: int) -> dict[str, bytes]:
    """The bytes of each tensor of a version of ``whole``."""
    return {name: array.tobytes() for name, array in final_states()[number].items()}


def part_of(store: Store, number: int) -> str:
    found: str = record_of(store, keys.version_key(number))["delta"]["parts"][0]["key"]
    return found


def shard_of(store: Store, record_key: str) -> str:
    found: str = record_of(store, record_key)["snapshot"]["shards"][0]["key"]
    return found


def flip(store: Store, key: str, place: int, bits: int = 0x10) -> None:
    data = bytearray(store.get(key, max_bytes=1 << 30).data)
    data[place] ^= bits
    store.put(key, data, mode="overwrite")


def update(store: Store, key: str, **members: Any) -> None:
    """Give a record other members."""
    store.put(key, json.dumps(record_of(store, key) | members).encode(), mode="overwrite")
