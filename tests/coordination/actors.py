"""Those who take part: each is a process that does one thing again and again, and can die and begin anew."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from deltawire.consumer.follower import Follower
from deltawire.consumer.pin import ReaderPin
from deltawire.consumer.pinning import Pinning
from deltawire.errors import (
    ConflictError,
    DeadlineExceededError,
    DeltawireError,
    FencedError,
    LeaseHeldError,
    MissingObjectError,
    OutcomeUnknownError,
    PathLostError,
    StoreError,
    StreamNotFoundError,
    VersionNotFoundError,
)
from deltawire.producer.anchors import AnchorPolicy
from deltawire.producer.publisher import Publisher
from deltawire.store.memory import MemoryStore
from deltawire.targets.arrays import ArraysTarget
from tests.coordination.simulation import Process, Simulation, clock_of, current
from tests.coordination.truth import DTYPES, Truth, read_retention, state
from tests.coordination.wire import Wire

TTL = 6.0
IDLE = "idle"


class Actor(ABC):
    """One process on one stream."""

    kind: str
    places: tuple[str, ...]
    """Where it matters most who goes on first."""

    def __init__(self, simulation: Simulation, store: MemoryStore, truth: Truth, *, rate: float = 1.0) -> None:
        self.truth = truth
        count = sum(process.name.startswith(self.kind) for process in simulation.processes)
        self.process = Process(simulation, f"{self.kind} {count}", rate=rate)
        self.wire = Wire(store, truth)
        self.stuck = False
        """Whether it does not go on for now."""
        self.done = 0
        """How many things it has done."""
        self.begin()

    @property
    def name(self) -> str:
        return self.process.name

    @abstractmethod
    def live(self) -> None:
        """What its main thread does, for ever."""

    def check(self) -> None:  # noqa: B027 - most keep nothing that could be wrong
        """What must hold of it whenever it pauses."""

    def begin(self) -> None:
        self.process.start(self.live, name="main")

    def crash(self) -> None:
        """It dies where it is; another process begins in its place."""
        self.process.kill()
        self.stuck = False
        self.wire.faults = []
        self.begin()

    def happen(self, what: str) -> None:
        """Something happens to it that is not of its own doing."""
        self.crash()

    def rest(self) -> None:
        """Come to the end of one thing."""
        self.done += 1
        current().pause(IDLE)

    def step(self, which: int = 0) -> None:
        self.process.step(which)
        self.check()

    def finish(self, limit: int = 3000) -> None:
        """Let it come to the end of what it does, in its other threads too."""
        before = self.done
        for _ in range(limit):
            if self.done == before:
                self.step()
            elif others := self.process.runnable[1:]:
                self.process.simulation.resume(others[0])
            else:
                self.check()
                return
        raise AssertionError(f"{self.name} does not come to an end: {[task.where for task in self.process.tasks]}")

    def is_at(self, where: str) -> bool:
        """Whether a thread of it pauses at a place whose name begins like this."""
        return any(task.where.startswith(where) for task in self.process.tasks)

    def until(self, where: str, limit: int = 3000) -> None:
        """Let it come to where a pause begins like this."""
        for _ in range(limit):
            if self.is_at(where):
                return
            self.step()
        raise AssertionError(f"{self.name} does not come to {where!r}: {[task.where for task in self.process.tasks]}")


class Writer(Actor):
    """A trainer that publishes one state after the other, and opens the stream again when it has to."""

    kind = "writer"
    places = ("before create versions/", "after create versions/", "before create anchors/")
    take_over = False
    """Whether it takes the stream from whoever holds it, the next time that it opens it."""

    def happen(self, what: str) -> None:
        if what == "take over":
            self.take_over = True
        self.crash()

    def live(self) -> None:
        while True:
            try:
                publisher = Publisher(
                    self.wire,
                    anchors=AnchorPolicy(every=2, outweigh=None),
                    shard_bytes=40,
                    workers=1,
                    take_over=self.take_over,
                    lease_ttl=TTL,
                    holder=self.name,
                )
            except (LeaseHeldError, FencedError, StoreError, DeadlineExceededError, PathLostError, MissingObjectError):
                self.rest()
                continue
            self.take_over = False
            self.rest()
            self._publish(publisher)
            publisher.close()

    def _publish(self, publisher: Publisher) -> None:
        while True:
            seed = self.truth.new_seed()
            metadata = {"seed": seed, "by": self.name}
            try:
                published = publisher.publish(state(seed), dtypes=DTYPES, metadata=metadata)
            except OutcomeUnknownError:
                return
            except FencedError:
                # Perhaps it was created and collected already; retained it never is. CMT-11
                if any(version.seed == seed and self.truth.retained(version.number) for version in self.truth.line):
                    self.truth.fail(f"{self.name} was fenced, and its version is committed")
                return
            except ConflictError:
                self.truth.not_committed(seed)
                return
            except (StoreError, DeadlineExceededError):
                self.truth.not_committed(seed)
            else:
                self.truth.committed(published.version, published.record.commit_id)
            self.rest()


class Reader(Actor):
    """An engine that goes to the newest version again and again."""

    kind = "reader"
    places = (
        "before overwrite leases/readers/",
        "after overwrite leases/readers/",
        "after get retention.json",
        "after get versions/",
        "before get_range ",
    )

    def __init__(self, *args: Any, pins: bool = True, **options: Any) -> None:
        self.pins = pins
        self.target = ArraysTarget()
        self.shown: int | None = None
        self.pinning: Pinning | None = None
        self.relied = "", read_retention(None)
        """The pin that was confirmed last, and what was retained then."""
        super().__init__(*args, **options)
        self.truth.pinned[self.name] = self.relies_on

    @property
    def version(self) -> int | None:
        held = self.target.held
        return None if held is None else held.committed.record.version

    def live(self) -> None:
        with Follower(self.wire, self.target, workers=1, pin=self.pins, pin_ttl=TTL, holder=self.name) as follower:
            self.pinning = follower._pinning
            while True:
                self.rest()
                newest = len(self.truth.line) - 1
                try:
                    follower.poll()
                except StoreError:
                    continue
                except (StreamNotFoundError, VersionNotFoundError, PathLostError, MissingObjectError) as error:
                    self._lost(error, newest)
                else:
                    if (self.version or 0) < newest:
                        self.truth.fail(f"{self.name} is at version {self.version} after a poll that began at {newest}")

    def _lost(self, error: DeltawireError, newest: int) -> None:
        if newest < 0 and isinstance(error, (StreamNotFoundError, VersionNotFoundError)):
            return
        if self.pin is None and newest >= 0:
            return  # what it wanted was collected under it; it will come to something newer
        self.truth.fail(f"{self.name} reached nothing: {error!r}")

    def happen(self, what: str) -> None:
        if what == "forget":
            self.forget()
        else:
            self.crash()

    def forget(self) -> None:
        """Die, and begin with nothing, as one that joins late."""
        self.target = ArraysTarget()
        self.shown = None
        self.crash()

    @property
    def pin(self) -> ReaderPin | None:
        """Its pin, while that may be relied on. PIN-4, PIN-6"""
        pin = None if self.pinning is None else self.pinning.pin
        with clock_of(self.process):
            return pin if pin is not None and pin.held and pin.confirmed and pin.covers else None

    def relies_on(self, number: int) -> bool:
        """Whether a version is kept for it. PIN-1"""
        if self.pin is None or self.pin._wanted is None:
            return False
        first, last = self.pin._wanted
        return first <= number <= (number if last is None else last) and self.relied[1](number)

    def crash(self) -> None:
        self.pinning = None
        super().crash()

    def check(self) -> None:
        if self.pin is not None and self.pin.id != self.relied[0]:
            self.relied = self.pin.id, read_retention(self.wire.retention)
        version = self.version
        if version is None:
            return
        if self.shown is not None and version < self.shown:
            self.truth.fail(f"{self.name} goes back from version {self.shown} to {version}")
        self.shown = version
        self.truth.shown(self.name, version, self.target.arrays)


class Judge(Actor):
    """Reads every version that is retained, from nothing."""

    kind = "judge"
    places = (IDLE,)

    def live(self) -> None:
        for version in self.truth.line:
            if self.truth.retained(version.number):
                with Follower(self.wire.inner, workers=1, pin=False) as follower:
                    follower.poll(to=version.number)
                    self.truth.shown(self.name, version.number, follower.arrays)
        self.rest()
