"""Schedules in which a rule of the protocol is what keeps everything well."""

from __future__ import annotations

from deltawire.store import memory
from deltawire.store.memory import MemoryStore
from tests.coordination.actors import TTL, Reader, Writer
from tests.coordination.maintainers import Builds, Collector
from tests.coordination.simulation import Simulation
from tests.coordination.truth import REBASE_EVERY, Truth

BUCKET = "schedules"


class World:
    """Where a schedule takes place."""

    def __init__(self) -> None:
        memory._BUCKETS.pop(BUCKET, None)
        self.simulation = Simulation()
        self.store = MemoryStore(BUCKET)
        self.truth = Truth(self.simulation, self.store)
        self.truth.seeds = REBASE_EVERY - 1  # the next states have one table
        self.parts = self.simulation, self.store, self.truth

    def writer(self) -> Writer:
        return Writer(*self.parts)

    def reader(self, *, pins: bool = False) -> Reader:
        return Reader(*self.parts, pins=pins)

    def collector(self, *, keep_every: int | None = None) -> Collector:
        return Collector(*self.parts, keep_every=keep_every)

    def builder(self) -> Builds:
        return Builds(*self.parts)

    def line(self, newest: int) -> Writer:
        """A writer that has published up to a version; every second one has a snapshot."""
        writer = self.writer()
        for _ in range(newest + 2):
            writer.finish()
        assert self.truth.line[-1].number == newest
        return writer

    def close(self) -> None:
        self.simulation.close()
        memory._BUCKETS.pop(BUCKET, None)


def _late(world: World, newest: int, *, at: str = "before create versions/") -> tuple[Writer, Reader, Collector]:
    """A writer stalls before it creates version 1; another goes on, and version 1 is collected."""
    late, writer, reader, collector = world.line(0), world.writer(), world.reader(), world.collector()
    reader.finish()
    reader.finish()
    assert reader.version == 0
    late.until(at)
    late.process.stalled = True
    writer.take_over = True
    for _ in range(newest + 1):
        writer.finish()
    collector.finish()
    collector.finish()
    assert world.truth.boundary == newest - 1
    return late, reader, collector


def late_writer(world: World) -> None:
    """The late writer creates version 1 where there was one that is collected."""
    late, reader, collector = _late(world, 3)
    late.until("after create versions/")
    assert world.truth.garbage
    late.finish()
    collector.finish()
    world.truth.check_tidy()
    reader.finish()
    assert reader.version == len(world.truth.line) - 1


def late_version_on_the_way(world: World) -> None:
    """What the late writer has created lies between what a reader holds and what is retained."""
    late, reader, _ = _late(world, 3)
    late.until("after create versions/")
    reader.finish()
    assert reader.version == 3


def late_version_wanted(world: World) -> None:
    """A reader wants the version that the late writer has created."""
    late, reader, _ = _late(world, 3, at="before put_stream data/")  # else what it has stored is collected as orphaned
    late.until("after create versions/")
    reader.goal = 1
    reader.finish()
    assert reader.version == 0


def two_creates(world: World) -> None:
    """Two writers create one version."""
    late, writer = world.line(0), world.writer()
    late.until("before create versions/")
    writer.take_over = True
    writer.finish()
    writer.finish()
    assert len(world.truth.line) == 2
    late.finish()


def _left_behind(world: World) -> tuple[Writer, Reader]:
    """A reader holds version 0, and its pin has died with its process."""
    writer, reader, collector = world.line(0), world.reader(pins=True), world.collector()
    reader.finish()
    reader.finish()
    reader.process.kill()
    collector.finish()
    collector.finish()
    world.simulation.advance(2 * TTL)
    collector.finish()
    collector.process.kill()
    assert not [*world.store.list("leases/readers/")]
    for _ in range(3):
        writer.finish()
    reader.crash()
    return writer, reader


def pinned_before_the_boundary_moves(world: World) -> None:
    """A reader pins, and looks what is retained, after a maintainer has looked at pins and before it moves on."""
    _, reader = _left_behind(world)
    collector = world.collector()
    collector.until("before create retention.json")
    reader.until("before get_range ")
    assert reader.relies_on(1)
    collector.finish()
    assert world.truth.boundary == 2
    reader.finish()
    assert reader.version == 3


def pinned_after_the_boundary_moved(world: World) -> None:
    """A reader pins when a maintainer has looked at pins for the last time."""
    _, reader = _left_behind(world)
    collector = world.collector()
    reader.until("before overwrite leases/readers/")
    collector.until("before delete data/")
    reader.until("before get_range ")
    assert world.truth.boundary == 2
    collector.finish()
    reader.finish()
    assert reader.version == 3


def pin_that_lapsed(world: World) -> None:
    """A reader sleeps for longer than its pin lasts."""
    _, reader = _left_behind(world)
    collector = world.collector()
    reader.until("before get_range ")
    assert reader.relies_on(1)
    reader.process.stalled = True
    collector.finish()
    collector.finish()
    world.simulation.advance(2 * TTL)
    collector.finish()
    reader.finish()
    assert reader.version == 3


def kept_version_held(world: World) -> None:
    """A reader holds a version that is kept below the boundary; the next one is gone."""
    writer, reader, collector = world.line(0), world.reader(), world.collector(keep_every=4)
    reader.finish()
    reader.finish()
    for _ in range(3):
        writer.finish()
    collector.finish()
    collector.finish()
    assert (world.truth.boundary, world.truth.kept) == (2, frozenset([0]))
    reader.finish()
    assert reader.version == 3


def collecting(world: World) -> None:
    """A maintainer moves the boundary and collects."""
    world.line(3)
    collector = world.collector()
    collector.finish()
    collector.finish()
    assert world.truth.boundary == 2
    world.truth.check_tidy()


def collecting_breaks_off(world: World) -> None:
    """A maintainer dies in the middle of removing."""
    world.line(3)
    collector = world.collector()
    collector.until("before delete data/")
    collector.crash()
    collector.finish()
    collector.finish()
    world.truth.check_tidy()


def slow_commit(world: World) -> None:
    """What belongs to a commit that is under way lies there for some passes of a maintainer."""
    writer, collector = world.line(2), world.collector()
    writer.until("before create versions/")
    collector.finish()
    collector.finish()
    writer.finish()
    assert len(world.truth.line) == 4


def kept_version_next(world: World) -> None:
    """The version after the one that a reader holds is kept below the boundary; those after that are gone."""
    writer, reader, collector = world.line(3), world.reader(), world.collector(keep_every=4)
    reader.finish()
    reader.finish()
    assert reader.version == 3
    for _ in range(6):
        writer.finish()
    collector.finish()
    collector.finish()
    assert world.truth.boundary > 6
    assert world.truth.kept == {0, 4}
    reader.finish()
    assert reader.version == 9


def boundary_on_a_new_anchor(world: World) -> None:
    """While a reader plans its way from version 0, an anchor is made, and the boundary moved to it."""
    writer, reader, collector = world.line(1), world.reader(), world.collector()
    reader.finish()
    for _ in range(2):
        before = writer.done
        while writer.done == before:
            writer.step()  # and not the thread that writes anchors
    reader.until("after list spans/")
    reader.until("before get retention.json")
    writer.finish()
    collector.finish()
    collector.finish()
    assert world.truth.boundary == 2
    reader.finish()
    assert reader.version == 3


def slow_look_at_orphans(world: World) -> None:
    """A maintainer stalls between the listing of data and the end of its look at orphans, and an anchor is made."""
    writer, builder, slow, fast = world.line(1), world.builder(), world.collector(), world.collector()
    builder.until("before create anchors/")
    slow.until("after list data/")
    slow.until("after list spans/")
    builder.finish()
    writer.finish()
    fast.finish()
    fast.finish()
    slow.finish()
    world.truth.check_complete()
