"""Writers and readers on one stream, in any order of steps, with all that can go wrong between them and their store.

Each runs the real thing in a process of its own (``simulation``), and pauses before and after every call of the store
(``wire``); this machine decides who goes on, whose calls fail, who stalls and who dies. What must hold is in ``truth``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from deltawire.consumer.pin import DEFAULT_TTL as PIN_TTL
from deltawire.store import memory
from deltawire.store.memory import MemoryStore
from tests.coordination.actors import TTL, Actor, Judge, Reader, Writer
from tests.coordination.maintainers import Builds, Collector
from tests.coordination.simulation import Simulation, installed
from tests.coordination.truth import Truth
from tests.coordination.wire import FAULTS

EXAMPLES = os.environ.get("DELTAWIRE_MACHINE_EXAMPLES")
"""How many runs to try, new ones each time; unset for the same few in every run of the tests."""
BUCKET = "protocol-machine"
A = TypeVar("A", bound=Actor)
RATES = st.sampled_from([1.0, 1.0, 0.97, 1.03])
WHO = st.integers(0, 13)
STEPS = st.sampled_from([1, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55])


@pytest.fixture(autouse=True)
def simulated() -> Iterator[None]:
    with installed("deltawire"):
        yield


class ProtocolMachine(RuleBasedStateMachine):
    """Two writers, two readers, two who collect, one who makes anchors and spans."""

    @initialize(
        rates=st.just([1.0] * 7) | st.lists(RATES, min_size=7, max_size=7),
        line=st.lists(st.sampled_from([0, 0, 0, 0, 2, 3, 4, 6]), max_size=20),
    )
    def begin(self, rates: list[float], line: list[int]) -> None:
        memory._BUCKETS.pop(BUCKET, None)
        self.simulation = Simulation()
        self.store = MemoryStore(BUCKET)
        self.truth = Truth(self.simulation, self.store)
        world, clocks = (self.simulation, self.store, self.truth), iter(rates)
        self.actors: list[Actor] = [
            Writer(*world, rate=next(clocks)),
            Writer(*world, rate=next(clocks)),
            Reader(*world, rate=next(clocks)),
            Reader(*world, rate=next(clocks), pins=False),
            Collector(*world, rate=next(clocks)),
            Collector(*world, rate=next(clocks), keep_every=4),
            Builds(*world, rate=next(clocks)),
        ]
        self.all_is_well(line)

    def teardown(self) -> None:
        if hasattr(self, "simulation"):
            try:
                if self.simulation.failure is None:
                    self.end()
            finally:
                self.simulation.close()
                memory._BUCKETS.pop(BUCKET, None)

    def actor(self, index: int) -> Actor:
        """One of those who are not stuck."""
        free = [actor for actor in self.actors if not actor.stuck] or self.actors
        return free[index % len(free)]

    @rule(index=WHO, which=st.sampled_from([0, 0, 0, 1, 2]), steps=STEPS)
    def go_on(self, index: int, which: int, steps: int) -> None:
        for _ in range(steps):
            self.actor(index).step(which)

    @rule(indices=st.lists(WHO, min_size=1, max_size=10))
    def all_is_well(self, indices: list[int]) -> None:
        for index in indices:
            self.actor(index).finish()

    @rule(index=WHO, times=st.sampled_from([1, 2, 4, 6]))
    def finish(self, index: int, times: int) -> None:
        for _ in range(times):
            self.actor(index).finish()

    @rule(index=WHO, where=st.integers(0, 5), stalled=st.booleans())
    def get_stuck(self, index: int, where: int, stalled: bool) -> None:
        """Somebody comes to a certain place, and no further while others go on."""
        actor = self.actor(index)
        actor.stuck = True
        actor.process.stalled = stalled
        for _ in range(150):
            if actor.is_at(actor.places[where % len(actor.places)]):
                break
            actor.step()

    @precondition(lambda self: any(actor.stuck for actor in self.actors))
    @rule(index=WHO, steps=STEPS)
    def get_free(self, index: int, steps: int) -> None:
        stuck = [actor for actor in self.actors if actor.stuck]
        actor = stuck[index % len(stuck)]
        actor.stuck = False
        for _ in range(steps):
            actor.step()

    @rule(index=WHO, stalled=st.booleans())
    def stall(self, index: int, stalled: bool) -> None:
        self.actor(index).process.stalled = stalled

    @rule(index=WHO, what=st.sampled_from(["crash", "crash", "forget", "take over"]))
    def happen(self, index: int, what: str) -> None:
        self.actor(index).happen(what)

    @rule(index=WHO, faults=st.lists(st.sampled_from(FAULTS), min_size=1, max_size=6))
    def plan_faults(self, index: int, faults: list[str]) -> None:
        self.actor(index).wire.faults = faults

    @precondition(lambda self: any(actor.wire.late for actor in self.actors))
    @rule(index=WHO)
    def a_late_write_arrives(self, index: int) -> None:
        waiting = [actor.wire for actor in self.actors if actor.wire.late]
        waiting[index % len(waiting)].arrive()

    @rule(seconds=st.sampled_from([0.5, 2.0, TTL, 3 * TTL]))
    def pass_time(self, seconds: float) -> None:
        self.simulation.advance(seconds)

    def end(self) -> None:
        """When nothing goes wrong any more, everybody gets to where they want."""
        for actor in self.actors:
            actor.stuck = actor.process.stalled = False
            actor.wire.faults = []
            while actor.wire.late:
                actor.wire.arrive()
        self.simulation.check()
        for actor in (*self.all(Writer), *self.all(Builds)):
            actor.crash()
        for actor in self.all(Writer):
            self.simulation.advance(2 * TTL)
            before = len(self.truth.line)
            for _ in range(3):
                actor.finish()
            assert len(self.truth.line) > before, f"{actor.name} is alone and cannot write"
            actor.crash()
        for reader in self.all(Reader):
            for _ in range(2):
                reader.finish()
                reader.finish()
                assert reader.version == len(self.truth.line) - 1, f"{reader.name} cannot get to the newest version"
                reader.forget()
        self.simulation.advance(2 * TTL)
        for actor in self.all(Collector):
            for _ in range(3):
                actor.finish()
                self.simulation.advance(2 * PIN_TTL)  # whoever has died, a builder too, is known to be gone
            self.truth.check_tidy()
        for actor in self.all(Builds):
            actor.finish()
        Judge(self.simulation, self.store, self.truth).finish()

    def all(self, kind: type[A]) -> list[A]:
        return [actor for actor in self.actors if isinstance(actor, kind)]


TestProtocolMachine = ProtocolMachine.TestCase
TestProtocolMachine.settings = settings(
    max_examples=int(EXAMPLES or 60),
    stateful_step_count=40,
    deadline=None,
    derandomize=not EXAMPLES,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
