"""A scripted line of versions, and what must hold of a stream whatever went wrong while it was written."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from deltawire.consumer.follower import Follower
from deltawire.deadline import Deadline
from deltawire.errors import ConflictError, DeltawireError, FencedError, OutcomeUnknownError
from deltawire.format import keys
from deltawire.format.strict_json import sha256
from deltawire.limits import MIB
from deltawire.parts.writer import PartOptions
from deltawire.producer.anchors import AnchorPolicy
from deltawire.producer.published import Published
from deltawire.producer.publisher import Publisher
from deltawire.reading.stream import StreamReader
from deltawire.reading.transfer import Transfer
from deltawire.store.base import Store
from tests.faults.faulty_store import Call

State = Mapping[str, npt.NDArray[Any]]
DTYPES = {"embed": "BF16", "head": "BF16", "late": "BF16"}
PARTS = PartOptions(batch_bytes=400, part_bytes=300)
"""Small enough for several batches and parts."""
SHARD_BYTES = 700
ANCHORS = AnchorPolicy(every=3, outweigh=None)


@dataclass(frozen=True)
class Version:
    """What one call of ``publish`` is given."""

    state: State
    files: dict[str, bytes]


def first_state(seed: int = 0) -> dict[str, npt.NDArray[Any]]:
    rng = np.random.default_rng(seed)
    embed = rng.integers(0, 1 << 16, (12, 40), dtype=np.uint16)
    return {
        "embed": embed,
        "head": embed,  # tied
        "norm": rng.normal(size=33).astype(np.float32),
        "scale": np.array(rng.normal()),
        "codes": rng.integers(0, 256, 300, dtype=np.uint8),
        "nothing": np.empty((0, 4), np.float32),
    }


def stepped(state: State, seed: int, *, fraction: float = 0.1) -> dict[str, npt.NDArray[Any]]:
    """The state after an optimizer step, as new arrays; ties stay tied."""
    rng = np.random.default_rng(seed)
    new: dict[str, npt.NDArray[Any]] = {}
    for name, array in state.items():
        if name == "head":
            new[name] = new["embed"]
            continue
        bits = array.copy().reshape(-1).view(f"<u{array.itemsize}")
        hit = rng.random(bits.size) < fraction
        bits[hit] += rng.integers(1, 5, int(hit.sum())).astype(bits.dtype)
        new[name] = bits.view(array.dtype).reshape(array.shape)
    return new


def script() -> list[Version]:
    """Version 0, deltas with and without changes and files, an anchor on the way, a rebase, another delta."""
    first = first_state()
    second = stepped(first, 1)
    dense = stepped(second, 2, fraction=0.9)
    fourth = stepped(dense, 3)
    grown = {**stepped(fourth, 4), "late": np.arange(50, dtype=np.uint16)}
    last = stepped(grown, 5)
    config, template = {"config.json": b"{}"}, {"config.json": b'{"a": 1}', "chat_template.jinja": b"x"}
    return [
        Version(first, config),
        Version(second, config),
        Version(second, template),
        Version(dense, template),
        Version(fourth, config),
        Version(grown, config),
        Version(last, template),
    ]


def open_publisher(store: Store, *, timeout: float = 60, anchors: AnchorPolicy = ANCHORS) -> Publisher:
    """A publisher that takes the stream over without waiting: whoever held it is gone, or is to be overtaken."""
    # One worker, so that a call's number means the same in every run.
    return Publisher(
        store,
        anchors=anchors,
        parts=PARTS,
        shard_bytes=SHARD_BYTES,
        workers=1,
        timeout=timeout,
        take_over=True,
    )


def publish(publisher: Publisher, version: Version, *, timeout: float = 60) -> Published:
    published = publisher.publish(version.state, files=version.files, dtypes=DTYPES, timeout=timeout)
    publisher.wait_for_anchor()
    return published


FINAL = (ConflictError, FencedError, OutcomeUnknownError)


class Trainer:
    """Publishes a script however often it fails, as a careful caller would."""

    def __init__(self, store: Store, versions: Sequence[Version], *, patience: int = 20) -> None:
        self.store = store
        self.versions = versions
        self.errors: list[DeltawireError] = []
        self._patience = patience
        self.publisher: Publisher | None = None

    def run(self) -> None:
        try:
            while (number := self._next()) < len(self.versions):
                self._try(number)
        finally:
            if self.publisher is not None:
                self.publisher.close()

    def _next(self) -> int:
        while self.publisher is None:
            try:
                self.publisher = open_publisher(self.store)
            except DeltawireError as error:
                self._failed(error)
        version = self.publisher.version
        return 0 if version is None else version + 1

    def _try(self, number: int) -> None:
        assert self.publisher is not None
        try:
            published = publish(self.publisher, self.versions[number])
        except FINAL as error:
            self._failed(error)
            assert_refuses(self.publisher, self.versions[number], type(error))
            self.publisher.close()
            self.publisher = None
        except DeltawireError as error:
            self._failed(error)
            assert self.publisher.version == (number - 1 if number else None)
        else:
            assert published.version == number == self.publisher.version

    def _failed(self, error: DeltawireError) -> None:
        self.errors.append(error)
        assert len(self.errors) < self._patience, f"never succeeds: {error}"


def assert_refuses(publisher: Publisher, version: Version, kind: type[DeltawireError]) -> None:
    try:
        publish(publisher, version)
    except kind:
        return
    raise AssertionError("a publisher that is done for good published again")


def bits_of(array: npt.NDArray[Any]) -> bytes:
    return np.ascontiguousarray(array).tobytes()


def assert_same(have: State, want: State) -> None:
    assert set(have) == set(want)
    for name, array in want.items():
        assert bits_of(have[name]) == bits_of(array), name


def check_line(store: Store, versions: Sequence[Version], *, at_least: int = 0) -> int:
    """The line is linear, names nothing that is missing, and gives a fresh follower every version bit-exact.

    Returns:
        How many versions there are: the first of ``versions``, at least ``at_least``.
    """
    with Reading(store) as reading:
        count = len(reading.versions)
        assert at_least <= count <= len(versions)
        reading.check()
    for number in range(count):
        with Follower(store, workers=2) as follower:
            follower.poll(to=number)
            assert_same(follower.arrays, versions[number].state)
            follower.verify()
            assert follower.record is not None
            stored = {file.name: store.get(file.key, max_bytes=MIB).data for file in follower.record.files}
            assert stored == versions[number].files
    if count:
        with Follower(store, workers=2) as follower:
            update = follower.poll()
            assert update is not None
            assert update.version == count - 1
    return count


class Reading:
    """All records of a stream, read for their own sake."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._transfer = Transfer(store, workers=2)
        reader = StreamReader(self._transfer)
        never = Deadline(None)
        listed = [info.key for info in store.list("")]
        self.versions = []
        self.anchors = []
        if keys.STREAM in listed:
            self.versions = [reader.version(number, never) for number in reader.numbers(keys.VERSIONS, never)]
            self.anchors = [reader.anchor(number, never) for number in reader.numbers(keys.ANCHORS, never)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._transfer.close()

    def check(self) -> None:
        assert [version.record.version for version in self.versions] == list(range(len(self.versions)))
        for before, after in zip(self.versions, self.versions[1:], strict=False):
            assert after.record.parent is not None
            assert after.record.parent.digest == before.digest
        for anchor in self.anchors:
            version = self.versions[anchor.version]
            assert (anchor.version_digest, anchor.state_digest) == (version.digest, version.record.state_digest)
        for info in [*self._store.list(keys.VERSIONS), *self._store.list(keys.ANCHORS)]:
            for descriptor in descriptors(self._store.get(info.key, max_bytes=MIB).data):
                stored = self._store.get(descriptor["key"], max_bytes=MIB).data
                assert (len(stored), sha256(stored)) == (descriptor["bytes"], descriptor["digest"])


def descriptors(record: bytes) -> Iterator[dict[str, Any]]:
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

    return walk(json.loads(record))


def check_order(store: Store, effects: Sequence[Call]) -> None:
    """What a record names was in the store before the record. CMT-1"""
    first: dict[str, int] = {}
    for place, call in enumerate(effects):
        first.setdefault(call.key, place)
    for key, place in first.items():
        if key.startswith((keys.VERSIONS, keys.ANCHORS)):
            for descriptor in descriptors(store.get(key, max_bytes=MIB).data):
                assert first[descriptor["key"]] < place, f"{key} was written before {descriptor['key']}"
