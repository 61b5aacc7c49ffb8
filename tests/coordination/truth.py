"""What is true of a stream, told from the writes that took place, and what must never happen to it.

Nothing here is read with the code under test: records are JSON, states are arrays by the seed that made them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from deltawire.store.memory import MemoryStore
from tests.coordination.simulation import Simulation

State = dict[str, npt.NDArray[Any]]
DTYPES = {"w": "BF16"}
REBASE_EVERY = 6
"""Of so many states one has another table."""

_VERSION = re.compile(r"versions/(\d{20})\.json")


class ViolationError(AssertionError):
    """Something happened that never must."""


@cache
def state(seed: int) -> State:
    """A small state; any two differ in a few places. Not to be changed."""
    rng = np.random.default_rng(seed)
    w = np.arange(24, dtype=np.uint16)
    w[rng.integers(0, 24, 3)] = rng.integers(0, 1 << 16, 3)
    made: State = {"w": w, "b": np.full(3, -0.0, np.float32), "e": np.empty(0, np.float32)}
    made["b"][seed % 3] = np.float32(seed)
    if seed % REBASE_EVERY == REBASE_EVERY - 1:
        made["x"] = np.full(5, seed, np.int8)
    return made


def same(found: Any, expected: State) -> bool:
    """Whether arrays are a state, bit for bit."""
    return set(found) == set(expected) and all(
        np.ascontiguousarray(found[name]).tobytes() == expected[name].tobytes() for name in expected
    )


def digest(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def named(record: Any) -> Iterator[str]:
    """Keys of everything that a record points at."""
    if isinstance(record, dict):
        if "key" in record and "digest" in record:
            yield record["key"]
        for value in record.values():
            yield from named(value)
    elif isinstance(record, list):
        for value in record:
            yield from named(value)


def read_retention(data: bytes | None) -> Callable[[int], bool]:
    """Which versions are retained, as a record says."""
    record: dict[str, Any] = {"boundary": 0} if data is None else json.loads(data)
    boundary, kept = record["boundary"], frozenset(record.get("kept", ()))
    return lambda number: number >= boundary or number in kept


@dataclass(frozen=True)
class Version:
    """A version that was committed."""

    number: int
    data: bytes = field(repr=False)
    record: dict[str, Any] = field(repr=False)
    seed: int
    keys: frozenset[str] = field(repr=False)
    """All that its record names."""
    by: str
    """Who created it."""


class Truth:
    """Sees every write, and fails at the first that breaks the protocol."""

    def __init__(self, simulation: Simulation, store: MemoryStore) -> None:
        self.line: list[Version] = []
        self.garbage: set[str] = set()
        """Commit ids of versions that stalled writers created where the line had gone on and was collected."""
        self.boundary = 0
        self.kept: frozenset[int] = frozenset()
        self.seeds = 0
        self.withdrawn: set[int] = set()
        """Seeds of states whose writer was told that they are not committed."""
        self.pinned: dict[str, Callable[[int], bool]] = {}
        """Of each reader, whether it may rely on a version."""
        self._simulation = simulation
        self._store = store
        self._lease_epoch = -1

    # What writers and readers tell

    def new_seed(self) -> int:
        self.seeds += 1
        return self.seeds

    def committed(self, number: int, commit_id: str) -> None:
        """A writer was told that its version is committed."""
        if number >= len(self.line) or self.line[number].record["commit_id"] != commit_id:
            self.fail(f"a writer was told that version {number} is its own, and it is not")

    def not_committed(self, seed: int) -> None:
        """A writer was told that nothing was committed, or that its version is another's."""
        if any(version.seed == seed for version in self.line):
            self.fail(f"a writer was told that state {seed} is not committed, and it is")
        self.withdrawn.add(seed)

    def shown(self, who: str, number: int, arrays: Any) -> None:
        """A reader shows a state as that of a version."""
        if number >= len(self.line):
            self.fail(f"{who} shows version {number}, which nobody committed")
        if not same(arrays, state(self.line[number].seed)):
            self.fail(f"{who} shows something else than version {number}")

    def retained(self, number: int) -> bool:
        return number < len(self.line) and (number >= self.boundary or number in self.kept)

    # What the store sees

    def wrote(self, key: str, data: bytes) -> None:
        if key == "leases/writer.json":
            epoch = json.loads(data)["epoch"]
            if epoch < self._lease_epoch:
                self.fail("the epoch of the lease fell")
            self._lease_epoch = epoch
        elif key == "retention.json":
            self._moved(json.loads(data))
        elif match := _VERSION.fullmatch(key):
            self._created(int(match[1]), data)

    def deleting(self, key: str) -> None:
        """Nothing of a version that is retained, or that a reader relies on, is ever removed."""
        if not self._exists(key):
            return
        for version in self.line:
            if key in version.keys or key == version_key(version.number):
                if self.retained(version.number):
                    self.fail(f"{key} of the retained version {version.number} is removed")
                for who, relied in self.pinned.items():
                    if relied(version.number):
                        self.fail(f"{key} of version {version.number} is removed, which {who} has pinned")
        for number in self._beginnings():
            if not self._has_snapshot(number, without=key):
                self.fail(f"without {key} nothing leads to the retained version {number}")

    def fail(self, what: str) -> NoReturn:
        violation = ViolationError(what)
        self._simulation.failure = self._simulation.failure or violation  # whatever the code under test makes of it
        raise violation

    def _created(self, number: int, data: bytes) -> None:
        record = json.loads(data)
        if number < len(self.line) and not self.retained(number) and self._simulation.failure is None:
            self.garbage.add(record["commit_id"])
            return
        if number != len(self.line):
            self.fail(f"version {number} is written where {len(self.line)} is next")
        keys = frozenset(named(record))
        if missing := sorted(key for key in keys if not self._exists(key)):
            self.fail(f"version {number} names {missing[0]}, which is not there")
        parent = record.get("parent")
        before = self.line[-1] if self.line else None
        if (parent and parent["digest"]) != (before and digest(before.data)):
            self.fail(f"version {number} was made from another parent")
        if before is not None and record["epoch"] < before.record["epoch"]:
            self.fail(f"the epoch of version {number} is below its parent's")
        seed = record["metadata"]["seed"]
        if seed in self.withdrawn:
            self.fail(f"state {seed} is committed after its writer was told that it is not")
        self.line.append(Version(number, data, record, seed, keys, record["metadata"]["by"]))

    def _moved(self, record: dict[str, Any]) -> None:
        boundary, kept = record["boundary"], frozenset(record.get("kept", ()))
        if boundary < self.boundary or boundary >= len(self.line):
            self.fail(f"the boundary moves from {self.boundary} to {boundary}, of {len(self.line)} versions")
        if again := sorted(number for number in kept if not self.retained(number)):
            self.fail(f"version {again[0]} is kept, but was not retained any more")
        self.boundary, self.kept = boundary, kept
        for number in self._beginnings():
            if not self._has_snapshot(number):
                self.fail(f"the boundary moves, and version {number} has no snapshot")

    def _beginnings(self) -> list[int]:
        """Versions whose snapshot the way to a retained version may have to begin with. RET-2"""
        return [*sorted(self.kept), self.boundary] if self.line else []

    def _has_snapshot(self, number: int, without: str = "") -> bool:
        version = self.line[number]
        if "snapshot" in version.record:
            return all(key != without and self._exists(key) for key in named(version.record["snapshot"]))
        key = f"anchors/{number:020}.json"
        if key == without or not self._exists(key):
            return False
        anchor = json.loads(self._read(key))
        return anchor["version_digest"] == digest(version.data) and all(
            key != without and self._exists(key) for key in named(anchor)
        )

    def _exists(self, key: str) -> bool:
        return key in self._objects

    def _read(self, key: str) -> bytes:
        return self._store.get(key, max_bytes=1 << 20).data

    @property
    def _objects(self) -> dict[str, Any]:
        return self._store._bucket.objects

    # When all is over

    def check_complete(self) -> None:
        """Anchors and spans of retained versions name nothing that is not there, unless their maker has died."""
        records = [key for key in self._objects if key.startswith(("anchors/", "spans/")) and self._stays(key)]
        broken = [key for key in records if not all(map(self._exists, named(json.loads(self._read(key)))))]
        assert not broken, f"{broken} name what is not there"

    def check_tidy(self) -> None:
        """A stream that was maintained long enough holds nothing that nobody needs."""
        alive: set[str] = set()
        for key in self._objects:
            if not key.startswith("leases/readers/") and self._stays(key):
                alive.add(key)  # also what no record names, in the folder of a version that stays. COL-7
                if key.startswith(("versions/", "anchors/", "spans/")):
                    alive.update(named(json.loads(self._read(key))))
        left = sorted(self._objects.keys() - alive)
        assert not left, f"nobody needs {left}"

    def _stays(self, key: str) -> bool:
        """Whether all versions that a record's key names are retained."""
        return all(self.retained(int(number)) for number in re.findall(r"\d{20}", key))


def version_key(number: int) -> str:
    return f"versions/{number:020}.json"
