"""Lines of versions to collect in, and what must hold of them afterwards."""

from __future__ import annotations

import functools
import itertools
import json
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from deltawire.consumer.follower import Follower
from deltawire.consumer.pin import PinTerms, ReaderPin
from deltawire.deadline import Deadline
from deltawire.format import keys, records
from deltawire.format.records import Delta, SpanRecord, StreamRecord, VersionRecord
from deltawire.format.strict_json import sha256
from deltawire.limits import DEFAULT_LIMITS, MIB
from deltawire.maintaining.collecting import CollectOptions, Collector
from deltawire.maintaining.report import Collected
from deltawire.maintaining.retaining import EVERYTHING, RetentionPolicy
from deltawire.producer.anchoring import Anchoring
from deltawire.producer.anchors import NEVER, AnchorPolicy
from deltawire.producer.base import BaseState
from deltawire.producer.comparing import HeldArray
from deltawire.producer.envelope import envelope
from deltawire.producer.opening import Line
from deltawire.producer.publisher import Publisher
from deltawire.reading.pins import StoredPin, read_pins
from deltawire.reading.retention import Retention, read_retention
from deltawire.reading.stream import StreamReader
from deltawire.reading.transfer import Transfer
from deltawire.store.base import Store
from deltawire.store.memory import MemoryStore

NEVER_ENDS = Deadline(None)
_NUMBERS = itertools.count()
State = dict[str, npt.NDArray[Any]]


def new_store() -> MemoryStore:
    return MemoryStore(f"collecting-{next(_NUMBERS)}")


def state(number: int, *, wide: bool = False) -> State:
    """What version ``number`` is; ``wide`` has another tensor table."""
    array = np.arange(40, dtype=np.uint16)
    array[number % 40] += number + 1
    found: State = {"a": array, "b": np.full(3, number, np.float32)}
    return found | {"c": np.zeros(5, np.uint8)} if wide else found


@dataclass(frozen=True)
class Plan:
    """How a line is made."""

    count: int = 8
    anchors: tuple[int, ...] = (3, 6)
    rebase: int | None = None
    """A version from which on the tensor table is another."""

    def state(self, number: int) -> State:
        return state(number, wide=self.rebase is not None and number >= self.rebase)


@functools.cache
def _template(plan: Plan) -> dict[str, bytes]:
    store = new_store()
    with Publisher(store, anchors=NEVER, workers=1) as publisher:
        for number in range(plan.count):
            publisher.publish(plan.state(number), files={"config.json": b"{}"})
    for number in plan.anchors:
        add_anchor(store, number)
    return contents(store)


def add_anchor(store: Store, number: int) -> None:
    """Anchor a version as its producer would have done."""
    with reading(store) as reader:
        committed = reader.version(number, NEVER_ENDS)
        table = reader.table(committed, NEVER_ENDS)
        with Follower(store, pin=False, workers=1) as follower:
            follower.poll(to=number)
            target = follower.target
            base = BaseState(
                table, [HeldArray(target.bits(tensor).gather(slice(None)).copy()) for tensor in table.tensors]
            )
            files = {file.name: store.get(file.key, max_bytes=MIB).data for file in committed.record.files}
            line = Line(reader.stream(NEVER_ENDS), parent=committed, base=base, files=files, anchor=-1)
            anchoring = Anchoring(
                store, line, policy=AnchorPolicy(every=1, outweigh=None), shard_bytes=100, limits=DEFAULT_LIMITS
            )
            anchoring.consider(committed)
            anchoring.wait(None)
            assert anchoring.error is None


def line(plan: Plan = Plan()) -> MemoryStore:
    """A stream of its own, with the versions of the plan."""
    store = new_store()
    for key, data in _template(plan).items():
        store.put(key, data, mode="overwrite")
    return store


def contents(store: Store) -> dict[str, bytes]:
    return {info.key: store.get(info.key, max_bytes=info.bytes).data for info in store.list("")}


@contextmanager
def reading(store: Store) -> Iterator[StreamReader]:
    transfer = Transfer(store, workers=1)
    try:
        yield StreamReader(transfer)
    finally:
        transfer.close()


def stream_of(store: Store) -> StreamRecord:
    with reading(store) as reader:
        return reader.stream(NEVER_ENDS)


def version_of(store: Store, number: int) -> VersionRecord:
    with reading(store) as reader:
        return reader.version(number, NEVER_ENDS).record


def retention_of(store: Store) -> Retention:
    with reading(store) as reader:
        return read_retention(reader.transfer, reader.stream(NEVER_ENDS), NEVER_ENDS)


def pins_of(store: Store) -> list[StoredPin]:
    with reading(store) as reader:
        return read_pins(reader, NEVER_ENDS)


def numbers(store: Store, prefix: str = keys.VERSIONS) -> list[int]:
    with reading(store) as reader:
        return reader.numbers(prefix, NEVER_ENDS)


class Clock:
    """Time that passes when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.during: Callable[[], object] = lambda: None
        """Called whenever time has passed."""

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.during()


@contextmanager
def collector(
    store: Store, policy: RetentionPolicy = EVERYTHING, *, clock: Clock | None = None, **options: Any
) -> Iterator[Collector]:
    clock = clock or Clock()
    with reading(store) as reader:
        yield Collector(reader, CollectOptions(policy=policy, **options), clock=clock, sleep=clock.sleep)


def collect(
    store: Store, policy: RetentionPolicy = EVERYTHING, *, clock: Clock | None = None, **options: Any
) -> Collected:
    """One pass of a maintainer that has seen nothing before."""
    with collector(store, policy, clock=clock, **options) as it:
        return it.run(NEVER_ENDS)


def keep_last(count: int) -> RetentionPolicy:
    return RetentionPolicy(keep_last=count)


def pin(
    store: Store, first: int, last: int | None = None, *, ttl: float = 60.0, clock: Callable[[], float] = lambda: 0.0
) -> ReaderPin:
    """A pin that is written and confirmed, and renewed by nobody but the test."""
    found = ReaderPin(store, stream_of(store), PinTerms(ttl=ttl, holder=f"reader of {first}"), clock=clock)
    found.want(first, last)
    found.keep()
    found.confirm(lambda: retention_of(store))
    return found


def released(store: Store, first: int) -> None:
    """A pin that its reader gave up, but could not delete."""
    rewrite(store, keys.pin_key(pin(store, first).id), released=True)


def add_span(store: Store, base: int, target: int) -> str:
    """A span as far as collecting looks into it: its record, and a part."""
    with reading(store) as reader:
        before, after = (reader.version(number, NEVER_ENDS) for number in (base, target))
    head = envelope(after.record.stream_id, "span", epoch=after.record.epoch, writer_features=())
    delta = after.record.delta
    assert delta is not None
    data = store.get(delta.parts[0].key, max_bytes=MIB).data
    key = keys.data_prefix(target, head["commit_id"]) + keys.part_name(0)
    store.put(key, data, mode="create")
    record = SpanRecord(
        **head,
        base=base,
        base_digest=before.digest,
        version=target,
        version_digest=after.digest,
        tensors=after.record.tensors,
        state_digest=after.record.state_digest,
        delta=replace_parts(delta, key),
        replaces_bytes=1 << 30,
    )
    store.put(keys.span_key(base, target), records.encode(record), mode="create")
    return key


def replace_parts(delta: Delta, key: str) -> Delta:
    """The same, with its only part under another key."""
    return msgspec.structs.replace(delta, parts=(msgspec.structs.replace(delta.parts[0], key=key),))


def add_orphan(store: Store, number: int, *, name: str = "part-00000.arrow") -> str:
    """A data object that no record names."""
    key = keys.data_prefix(number, str(uuid.uuid4())) + name
    store.put(key, b"x" * 10, mode="create")
    return key


def rewrite(store: Store, key: str, **members: Any) -> None:
    """Change members of a record where it is."""
    record = json.loads(store.get(key, max_bytes=MIB).data)
    store.put(key, json.dumps(record | members).encode(), mode="overwrite")


def check_reachable(store: Store, plan: Plan, wanted: Iterable[int]) -> None:
    """A newcomer gets each of these versions, bit for bit."""
    for number in wanted:
        with Follower(store, pin=False, workers=1) as follower:
            follower.poll(to=number)
            follower.verify()
            for name, array in plan.state(number).items():
                assert follower.arrays[name].tobytes() == array.tobytes()


def check_applies(store: Store, versions: Sequence[int]) -> None:
    """Everything that the records of these versions name is there, as they say."""
    for number in versions:
        for descriptor in descriptors(store, keys.version_key(number)):
            data = store.get(descriptor["key"], max_bytes=MIB).data
            assert (len(data), sha256(data)) == (descriptor["bytes"], descriptor["digest"])


def descriptors(store: Store, key: str) -> Iterator[dict[str, Any]]:
    """Everything in a record that points at bytes, found without the code under test."""

    def walk(value: object) -> Iterator[dict[str, Any]]:
        if isinstance(value, dict):
            if "key" in value and "digest" in value:
                yield value
            for member in value.values():
                yield from walk(member)
        elif isinstance(value, list):
            for member in value:
                yield from walk(member)

    yield from walk(json.loads(store.get(key, max_bytes=MIB).data))


def check_nothing_else(store: Store, stays: Callable[[int], bool]) -> None:
    """Only versions that stay are there, and of others no data object but what records name. COL-7"""
    assert all(stays(number) for number in [*numbers(store), *numbers(store, keys.ANCHORS)])
    kinds = (keys.VERSIONS, keys.ANCHORS, keys.SPANS)
    named = {
        descriptor["key"]
        for prefix in kinds
        for info in store.list(prefix)
        for descriptor in descriptors(store, info.key)
    }
    left = {info.key for info in store.list(keys.DATA)} - named
    assert all(folder is not None and stays(folder[0]) for folder in map(keys.parse_data, left))
