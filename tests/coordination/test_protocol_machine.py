"""Writers and readers on one stream, in any order of steps, with all that can go wrong between them and their store.

Each runs the real thing in a process of its own (``simulation``), and pauses before and after every call of the store
(``wire``); this machine decides who goes on, whose calls fail, who stalls and who dies. What must hold is in ``truth``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from deltawire.store import memory
from deltawire.store.memory import MemoryStore
from tests.coordination.actors import TTL, Actor, Reader, Writer
from tests.coordination.simulation import Simulation, installed
from tests.coordination.truth import Truth
from tests.coordination.wire import FAULTS

BUCKET = "protocol-machine"
RATES = st.sampled_from([1.0, 1.0, 0.97, 1.03])
STEPS = st.sampled_from([1, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55])


@pytest.fixture(autouse=True)
def simulated() -> Iterator[None]:
    with installed("deltawire"):
        yield


class ProtocolMachine(RuleBasedStateMachine):
    """Two writers, two readers."""

    @initialize(rates=st.lists(RATES, min_size=4, max_size=4))
    def begin(self, rates: list[float]) -> None:
        memory._BUCKETS.pop(BUCKET, None)
        self.simulation = Simulation()
        self.store = MemoryStore(BUCKET)
        self.truth = Truth(self.simulation, self.store)
        kinds = [Writer, Writer, Reader, Reader]
        self.actors: list[Actor] = [
            kind(self.simulation, self.store, self.truth, rate=rate) for kind, rate in zip(kinds, rates, strict=True)
        ]

    def teardown(self) -> None:
        if hasattr(self, "simulation"):
            try:
                if self.simulation.failure is None:
                    self.end()
            finally:
                self.simulation.close()
                memory._BUCKETS.pop(BUCKET, None)

    def actor(self, index: int) -> Actor:
        return self.actors[index % len(self.actors)]

    @rule(index=st.integers(0, 7), which=st.sampled_from([0, 0, 0, 1, 2]), steps=STEPS)
    def go_on(self, index: int, which: int, steps: int) -> None:
        for _ in range(steps):
            self.actor(index).step(which)

    @rule(indices=st.lists(st.integers(0, 7), min_size=1, max_size=6))
    def all_is_well(self, indices: list[int]) -> None:
        for index in indices:
            self.actor(index).finish()

    @rule(index=st.integers(0, 7), times=st.sampled_from([1, 1, 2, 4]))
    def finish(self, index: int, times: int) -> None:
        for _ in range(times):
            self.actor(index).finish()

    @rule(index=st.integers(0, 7), stalled=st.booleans())
    def stall(self, index: int, stalled: bool) -> None:
        self.actor(index).process.stalled = stalled

    @rule(index=st.integers(0, 7), what=st.sampled_from(["crash", "crash", "forget", "take over"]))
    def happen(self, index: int, what: str) -> None:
        self.actor(index).happen(what)

    @rule(index=st.integers(0, 7), faults=st.lists(st.sampled_from(FAULTS), min_size=1, max_size=6))
    def plan_faults(self, index: int, faults: list[str]) -> None:
        self.actor(index).wire.faults = faults

    @precondition(lambda self: any(actor.wire.late for actor in self.actors))
    @rule(index=st.integers(0, 7))
    def a_late_write_arrives(self, index: int) -> None:
        waiting = [actor.wire for actor in self.actors if actor.wire.late]
        waiting[index % len(waiting)].arrive()

    @rule(seconds=st.sampled_from([0.5, 2.0, TTL, 3 * TTL]))
    def pass_time(self, seconds: float) -> None:
        self.simulation.advance(seconds)

    def end(self) -> None:
        """When nothing goes wrong any more, everybody gets to where he wants."""
        for actor in self.actors:
            actor.process.stalled = False
            actor.wire.faults = []
            while actor.wire.late:
                actor.wire.arrive()
        self.simulation.check()
        for actor in self.actors:
            if isinstance(actor, Writer):
                actor.crash()
        self.simulation.advance(2 * TTL)
        for actor in self.actors:
            if isinstance(actor, Writer):
                before = len(self.truth.line)
                for _ in range(3):
                    actor.finish()
                assert len(self.truth.line) > before, "a writer that is alone cannot write"
                actor.crash()
                self.simulation.advance(2 * TTL)
        for actor in self.actors:
            if isinstance(actor, Reader):
                actor.finish()
                actor.finish()
                assert actor.version == len(self.truth.line) - 1
                actor.forget()
                actor.finish()
                actor.finish()
                assert actor.version == len(self.truth.line) - 1


TestProtocolMachine = ProtocolMachine.TestCase
TestProtocolMachine.settings = settings(
    max_examples=int(os.environ.get("DELTAWIRE_MACHINE_EXAMPLES", "150")),
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
