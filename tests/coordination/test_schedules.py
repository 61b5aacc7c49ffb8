"""What each rule of the protocol is for: schedules that end well, and do not once the rule is left out.

The machine of ``test_protocol_machine`` looks for such schedules; these are the ones in which it, or its author, found
what a rule prevents.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from deltawire.store import memory
from deltawire.store.memory import MemoryStore
from tests.coordination.actors import Reader, Writer
from tests.coordination.maintainers import Collector
from tests.coordination.simulation import Simulation, installed
from tests.coordination.truth import REBASE_EVERY, Truth

BUCKET = "schedules"


class World:
    """Where a schedule takes place."""

    def __init__(self) -> None:
        self.simulation = Simulation()
        self.store = MemoryStore(BUCKET)
        self.truth = Truth(self.simulation, self.store)
        self.truth.seeds = REBASE_EVERY - 1  # the next ones have one table
        self.parts = self.simulation, self.store, self.truth

    def close(self) -> None:
        self.simulation.close()


@pytest.fixture
def world() -> Iterator[World]:
    memory._BUCKETS.pop(BUCKET, None)
    with installed("deltawire"):
        made = World()
        yield made
        made.close()
    memory._BUCKETS.pop(BUCKET, None)


def late_writer(world: World) -> None:
    """A writer stalls before it creates version 2, and goes on when the line has gone on and 2 was collected."""
    late, writer, collector = Writer(*world.parts), Writer(*world.parts), Collector(*world.parts)
    reader = Reader(*world.parts, pins=False)
    for _ in range(3):
        late.finish()
    reader.finish()
    reader.finish()
    late.until("before create versions/")
    late.process.stalled = True
    writer.take_over = True
    for _ in range(5):
        writer.finish()
    collector.finish()
    collector.finish()
    assert world.truth.boundary > 2
    late.until("after create versions/")
    assert world.truth.garbage
    late.finish()
    reader.finish()


def test_late_writer(world: World) -> None:
    late_writer(world)


def late_neighbour(world: World) -> None:
    """What a late writer creates lies between what a reader holds and the boundary right behind it."""
    late, writer, collector = Writer(*world.parts), Writer(*world.parts), Collector(*world.parts)
    reader = Reader(*world.parts, pins=False)
    late.finish()
    late.finish()
    reader.finish()
    reader.finish()
    assert reader.version == 0
    late.until("before create versions/")
    late.process.stalled = True
    writer.take_over = True
    for _ in range(4):
        writer.finish()
    collector.finish()
    collector.finish()
    assert world.truth.boundary == 2
    late.until("after create versions/")
    assert world.truth.garbage
    reader.finish()
    assert reader.version == 3


def test_late_neighbour(world: World) -> None:
    late_neighbour(world)
