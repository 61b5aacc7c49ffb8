"""What a rule of the protocol is for: schedules that end well, and do not once the rule is left out.

The machine of ``test_protocol_machine`` looks for such schedules; these are those that it, or its author, has found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from deltawire.consumer.pin import ReaderPin
from deltawire.errors import BrokenChainError
from deltawire.maintaining import collecting
from deltawire.maintaining.boundary import Boundary
from deltawire.maintaining.collecting import Collector
from deltawire.maintaining.orphans import Orphans, find_orphans
from deltawire.producer import publisher
from deltawire.reading.retention import Retention
from deltawire.reading.stream import StreamReader
from deltawire.reading.ways import WayFinder
from deltawire.store.base import Bytes, PutMode
from deltawire.store.memory import MemoryStore
from tests.coordination import schedules
from tests.coordination.schedules import World
from tests.coordination.simulation import installed
from tests.coordination.wire import Wire

Schedule = Callable[[World], None]
Break = Callable[[pytest.MonkeyPatch], None]


@pytest.fixture
def world() -> Iterator[World]:
    with installed("deltawire"):
        made = World()
        try:
            yield made
        finally:
            made.close()


def no_look_after_a_commit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(publisher, "check_retained", lambda *args, **options: None)


def no_look_before_the_first_step(patch: pytest.MonkeyPatch) -> None:
    real = WayFinder._look

    def look(self: WayFinder) -> bool:
        before = self._retention
        real(self)
        self._retention = before
        return False

    patch.setattr(WayFinder, "_look", look)
    patch.setattr(WayFinder, "_keep", lambda self, *args: self._retention)


def no_look_behind_the_newest(patch: pytest.MonkeyPatch) -> None:
    real = StreamReader.latest

    def latest(self: StreamReader, deadline: Any, *, known: int | None = None, kept: bool = False) -> int:
        return real(self, deadline) if known is None else self._forward(known, deadline)

    patch.setattr(StreamReader, "latest", latest)


def create_overwrites(patch: pytest.MonkeyPatch) -> None:
    real = MemoryStore.put

    def put(self: MemoryStore, key: str, data: Bytes, *, mode: PutMode) -> str:
        return real(self, key, data, mode="overwrite" if key.startswith("versions/") else mode)

    patch.setattr(MemoryStore, "put", put)


def pins_are_listed_once(patch: pytest.MonkeyPatch) -> None:
    choose, look = Collector._choose, Collector._look
    first: dict[Collector, Any] = {}

    def choosing(self: Collector, *args: Any) -> Any:
        first.pop(self, None)
        return choose(self, *args)

    def looking(self: Collector, deadline: Any) -> Any:
        if self not in first:
            first[self] = look(self, deadline)
        return first[self]

    patch.setattr(Collector, "_choose", choosing)
    patch.setattr(Collector, "_look", looking)


def pins_are_not_confirmed(patch: pytest.MonkeyPatch) -> None:
    def confirm(self: ReaderPin, read: Any, *, holding: int | None = None) -> Retention:
        self._confirmed = self.id
        assert isinstance(self._store, Wire)
        self._store.retention = None  # what the reader believes
        return Retention()

    patch.setattr(ReaderPin, "confirm", confirm)


def pins_do_not_lapse(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ReaderPin, "stale", property(lambda self: self._written is None))


def the_boundary_moves_last(patch: pytest.MonkeyPatch) -> None:
    move, collect = Boundary.move, Collector._collect
    moves: list[Callable[[], bool]] = []

    def moving(self: Boundary, *args: Any) -> bool:
        moves.append(lambda: move(self, *args))
        return True

    def collected(self: Collector, *args: Any) -> Any:
        done = collect(self, *args)
        while moves:
            moves.pop()()
        return done

    patch.setattr(Boundary, "move", moving)
    patch.setattr(Collector, "_collect", collected)


def orphans_of_versions_that_stay_go(patch: pytest.MonkeyPatch) -> None:
    real = find_orphans

    def found(*args: Any, **options: Any) -> Iterator[Orphans]:
        return (replace(each, folder=(-1, each.folder[1])) for each in real(*args, **options))

    patch.setattr(collecting, "find_orphans", found)


RULES: dict[str, tuple[Schedule, Break, str]] = {
    "CMT-2": (schedules.two_creates, create_overwrites, "version 1 is written where 2 is next"),
    "CMT-11": (schedules.late_writer, no_look_after_a_commit, "told that version 1 is its own, and it is not"),
    "RET-3 way": (schedules.late_version_on_the_way, no_look_before_the_first_step, "was not made from the version 1"),
    "RET-3 target": (schedules.late_version_wanted, no_look_before_the_first_step, "something else than version 1"),
    "LAT-5": (schedules.kept_version_held, no_look_behind_the_newest, "at version 0 after a poll that began at 3"),
    "COL-3": (schedules.collecting, the_boundary_moves_last, "of the retained version 0 is removed"),
    "COL-4": (schedules.pinned_before_the_boundary_moves, pins_are_listed_once, "which reader 0 has pinned"),
    "PIN-4": (schedules.pinned_after_the_boundary_moved, pins_are_not_confirmed, "which reader 0 has pinned"),
    "PIN-6": (schedules.pin_that_lapsed, pins_do_not_lapse, "which reader 0 has pinned"),
    "COL-7 commit": (schedules.slow_commit, orphans_of_versions_that_stay_go, "version 3 names .* not there"),
    "COL-7 anchor": (
        schedules.slow_look_at_orphans,
        orphans_of_versions_that_stay_go,
        "anchors/.* name what is not",
    ),
}


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_is_needed(world: World, monkeypatch: pytest.MonkeyPatch, rule: str) -> None:
    schedule, leave_out, what_happens = RULES[rule]
    schedule(world)
    world.close()
    leave_out(monkeypatch)
    without = World()
    try:
        with pytest.raises((AssertionError, BrokenChainError), match=what_happens):
            schedule(without)
    finally:
        without.close()


@pytest.mark.parametrize(
    "schedule", [schedules.boundary_on_a_new_anchor, schedules.kept_version_next, schedules.collecting_breaks_off]
)
def test_it_ends_well(world: World, schedule: Schedule) -> None:
    schedule(world)
