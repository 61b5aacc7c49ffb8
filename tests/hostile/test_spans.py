"""Spans that lie, are damaged or lead elsewhere: a reader does without them, and says so."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from deltawire import Follower, Publisher, Update
from deltawire.errors import LimitExceededError
from deltawire.format import keys
from deltawire.format.strict_json import sha256
from deltawire.limits import MIB, Limits
from deltawire.producer.anchors import NEVER
from deltawire.store.base import Store
from deltawire.store.memory import MemoryStore
from tests.spans import add_span

NEWEST = 9
SHA = "sha256:" + "0" * 64
UUID = "00000000-0000-4000-8000-000000000000"


def state(number: int) -> dict[str, Any]:
    rng = np.random.default_rng(number)
    bits = np.arange(3000, dtype=np.uint32)
    for _ in range(number):
        bits[rng.integers(0, 3000, 40)] += np.uint32(1)
    return {"w": bits, "norm": np.arange(8, dtype=np.float32) + number, "still": np.ones(5, np.int8)}


def write(store: Store, *, rebase: int | None = None) -> None:
    with Publisher(store, anchors=NEVER) as publisher:
        for number in range(NEWEST + 1):
            later = rebase is not None and number >= rebase
            publisher.publish(state(number) | ({"late": np.zeros(2, np.int8)} if later else {}))


@pytest.fixture
def memory() -> MemoryStore:
    store = MemoryStore(f"spans/{uuid.uuid4().hex}")
    write(store)
    return store


def follow(store: Store, *, held: int | None = 0, tensors: list[str] | None = None) -> Update:
    """From ``held`` to the newest version, which is then held bit for bit."""
    with Follower(store, tensors=tensors) as follower:
        if held is not None:
            follower.poll(to=held)
        update = follower.poll()
        assert update is not None
        assert update.version == NEWEST
        for name, array in follower.arrays.items():
            assert array.tobytes() == state(NEWEST)[name].tobytes()
        follower.verify()
    return update


def rewrite(store: Store, key: str, change: Callable[[dict[str, Any]], object]) -> None:
    record = json.loads(store.get(key, max_bytes=MIB).data)
    change(record)
    store.put(key, json.dumps(record).encode(), mode="overwrite")


def test_a_span_is_taken(memory: MemoryStore) -> None:
    add_span(memory, 0, 8)
    update = follow(memory)
    assert (update.steps, update.replanned, update.snapshot) == (("span", "delta"), (), None)
    assert update.changed_elements < 3100
    assert follow(memory, held=None).steps == ("snapshot", "span", "delta")
    assert follow(memory, tensors=["norm"]).steps == ("span", "delta")


def test_no_span_over_a_version_that_is_wanted(memory: MemoryStore) -> None:
    add_span(memory, 0, 8)
    with Follower(memory) as follower:
        follower.poll(to=0)
        updates = follower.follow(until=NEWEST, every_version=True, timeout=10)
        assert [update.version for update in updates] == list(range(1, NEWEST + 1))


LIES: list[tuple[str, Callable[[dict[str, Any]], object], str]] = [
    ("base digest", lambda r: r.update(base_digest=SHA), "broken_chain"),
    ("version digest", lambda r: r.update(version_digest=SHA), "broken_chain"),
    ("other table", lambda r: r["tensors"].update(digest=SHA), "broken_chain"),
    ("state digest", lambda r: r.update(state_digest="0" * 16), "broken_chain"),
    ("sum after", lambda r: r["delta"].update(digest_after="0" * 16), "broken_chain"),
    ("both sums", lambda r: both_sums(r["delta"]), "state_mismatch"),
    ("count", lambda r: r["delta"].update(changed_elements=1), "state_mismatch"),
    ("rows twice", lambda r: r["delta"].update(parts=r["delta"]["parts"] * 2), "malformed_row"),
    ("no rows", lambda r: r["delta"]["parts"][0].update(batches=[]), "state_mismatch"),
    ("larger than what it replaces", lambda r: r.update(replaces_bytes=10), "malformed_record"),
    ("base in its key", lambda r: r.update(base=1), "broken_chain"),
    ("target in its key", lambda r: r.update(version=9), "broken_chain"),
    ("backwards", lambda r: r.update(base=8, version=0), "malformed_record"),
    ("base too large", lambda r: r.update(base=2**53), "malformed_record"),
    ("another stream", lambda r: r.update(stream_id=UUID), "wrong_stream"),
    ("part elsewhere", lambda r: r["delta"]["parts"][0].update(key="data/nothing.arrow"), "missing_object"),
    ("part is a record", lambda r: r["delta"]["parts"][0].update(key=keys.STREAM), "size_mismatch"),
    ("batch digest", lambda r: r["delta"]["parts"][0]["batches"][0].update(digest=SHA), "digest_mismatch"),
    ("from the future", lambda r: r.update(reader_features=["x"], writer_features=["x"]), "unsupported_feature"),
    ("another kind", lambda r: r.update(kind="anchor"), "malformed_record"),
]


def both_sums(delta: dict[str, Any]) -> None:
    """Wrong sums whose difference is right."""
    for name in ("digest_before", "digest_after"):
        delta[name] = f"{(int(delta[name], 16) + 1) % (1 << 64):016x}"


@pytest.mark.parametrize(("lie", "code"), [lie[1:] for lie in LIES], ids=[lie[0] for lie in LIES])
def test_a_span_that_lies_is_replaced_by_deltas(
    memory: MemoryStore, lie: Callable[[dict[str, Any]], object], code: str
) -> None:
    add_span(memory, 0, 8)
    rewrite(memory, keys.span_key(0, 8), lie)
    update = follow(memory)
    assert update.steps == ("delta",) * NEWEST
    [note] = update.replanned
    assert note.startswith(f"the span from version 0 to 8 could not be used ({code}: ")
    assert note.endswith(": took the delta of version 1")


@pytest.mark.parametrize("damage", ["part cut", "part flipped", "part gone", "record cut"])
def test_a_damaged_span_is_replaced_by_another(memory: MemoryStore, damage: str) -> None:
    add_span(memory, 0, 4)
    span = add_span(memory, 0, 8)
    what, how = damage.split()
    key = keys.span_key(0, 8) if what == "record" else span.delta.parts[0].key
    data = memory.get(key, max_bytes=MIB).data
    memory.delete(key)
    if how == "cut":
        memory.put(key, data[:100], mode="create")
    elif how == "flipped":
        at = span.delta.parts[0].batches[0].offset + 20
        memory.put(key, data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :], mode="create")
    update = follow(memory)
    assert update.steps == ("span", *["delta"] * 5)
    assert len(update.replanned) == 1
    assert update.replanned[0].endswith("took the span from version 0 to 4")


def test_a_span_of_a_lower_epoch_is_no_way_round_a_broken_line(memory: MemoryStore) -> None:
    """SPN-4: whatever the span says, its target's record must not be of an epoch below the base's."""
    add_span(memory, 1, 8)
    rewrite(memory, keys.version_key(1), lambda record: record.update(epoch=5))
    digest = sha256(memory.get(keys.version_key(1), max_bytes=MIB).data)
    rewrite(memory, keys.version_key(2), lambda record: record["parent"].update(digest=digest))
    rewrite(memory, keys.span_key(1, 8), lambda record: record.update(base_digest=digest))
    with Follower(memory) as follower:
        follower.poll(to=1)
        with pytest.raises(Exception, match="epoch"):
            follower.poll()
        assert follower.version == 1


def test_a_span_over_a_rebase_is_of_no_use() -> None:
    store = MemoryStore(f"spans/{uuid.uuid4().hex}")
    write(store, rebase=5)
    add_span(store, 0, 4)
    record = json.loads(store.get(keys.span_key(0, 4), max_bytes=MIB).data)
    later = store.get(keys.version_key(8), max_bytes=MIB).data
    lie = {"version": 8, "version_digest": sha256(later), "state_digest": json.loads(later)["state_digest"]}
    store.put(keys.span_key(0, 8), json.dumps(record | lie).encode(), mode="create")
    with Follower(store) as follower:
        follower.poll(to=0)
        update = follower.poll()
        assert update is not None
        assert update.steps == ("snapshot", *["delta"] * 4)
        assert update.snapshot == 5


NAMES = [
    "0-8.json",
    f"{8:020d}-{0:020d}.json.json",
    f"{8:020d}-{8:020d}.json",
    f"{0:020d}-{8:020d}.json",
    f"{2**53:020d}-{0:020d}.json",
    f"{10**19:020d}-{10**18:020d}.json",
    f"{8:020d}_{0:020d}.json",
    f"{8:020d}-{0:020d}",
    f"x/{8:020d}-{0:020d}.json",
]


def test_names_that_are_no_spans_are_ignored(memory: MemoryStore) -> None:
    for name in NAMES:
        memory.put(keys.SPANS + name, b"{", mode="create")
    update = follow(memory)
    assert (update.steps, update.replanned) == (("delta",) * NEWEST, ())


def test_spans_of_versions_that_are_not_there_are_left_alone(memory: MemoryStore) -> None:
    for base, target in [(0, 100), (5, 2**53 - 1), (2**52, 2**53 - 1)]:
        memory.put(keys.span_key(base, target), b"{", mode="create")
    assert follow(memory).replanned == ()


def test_more_spans_than_a_reader_takes(memory: MemoryStore) -> None:
    for base in range(8):
        for target in range(base + 1, 9):
            memory.put(keys.span_key(base, target), b"{", mode="create")
    with Follower(memory, limits=Limits(path_records=20)) as follower:
        follower.poll(to=0)
        update = follower.poll()
        assert update is not None
        assert update.steps == ("delta",) * NEWEST
        assert [note.split(" (", 1)[0] for note in update.replanned] == ["the spans could not be used"]


def test_too_many_versions_to_walk_but_not_by_spans(memory: MemoryStore) -> None:
    add_span(memory, 0, 8)
    with Follower(memory, limits=Limits(path_records=3)) as follower:
        follower.poll(to=0)
        assert follower.poll() is not None
    memory.delete(keys.span_key(0, 8))
    with Follower(memory, limits=Limits(path_records=3)) as follower:
        follower.poll(to=0)
        with pytest.raises(LimitExceededError):
            follower.poll()
