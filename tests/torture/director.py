"""Kills and stops processes, in an order that the seed decides; what must have happened is part of the plot."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from deltawire.deadline import Deadline
from deltawire.errors import StreamNotFoundError, VersionNotFoundError
from deltawire.format.records import LeaseRecord
from deltawire.reading.leases import read_lease
from deltawire.reading.stream import StreamReader
from deltawire.reading.transfer import Transfer
from deltawire.store import open_store
from tests.torture.actor import Actor
from tests.torture.scene import CAST, FOLLOWERS, KEEP_LAST, MAINTAINER, STALL, WRITERS, Scene

T = TypeVar("T")
PATIENCE = 240.0
"""Seconds to wait for what must come; only a machine that stands still takes so long."""
VERSIONS = 30
"""How long the line must be at least."""
_FOREVER = Deadline(None)


class Director:
    """Directs one performance."""

    def __init__(self, scene: Scene) -> None:
        self.did: Counter[str] = Counter()
        """How often each thing was done."""
        self._scene = scene
        self._rng = random.Random(scene.seed)
        self._transfer = Transfer(open_store(scene.url), workers=2)
        self._reader = StreamReader(self._transfer)
        self._actors: dict[str, Actor] = {}

    def perform(self, seconds: float) -> None:
        """All acts at least once, and again until so many seconds have passed; then everybody finishes in peace."""
        begun = time.monotonic()
        try:
            for who in CAST:
                self._actors[who] = Actor(self._scene, who)
            self._advance(2)
            self._deck()
            while time.monotonic() - begun < seconds:
                self._deck()
            self._await("the line to be long enough", lambda: self._newest() >= VERSIONS)
            self._await("something to be collected", lambda: self._noted("collected", "versions"))
            self._await("spans", lambda: self._noted("built", "spans"))
            self._finish()
        finally:
            for actor in self._actors.values():
                actor.close()
            self._transfer.close()

    def _deck(self) -> None:
        acts: list[Callable[[], None]] = [
            self._usurp,
            self._usurp,
            self._kill_holder,
            self._leave_behind,
            self._fall_behind,
            self._fall_behind,
            lambda: self._kill(WRITERS),
            lambda: self._kill(FOLLOWERS[:2]),
            lambda: self._kill(FOLLOWERS[2:]),
            lambda: self._kill([MAINTAINER]),
            lambda: self._stall(WRITERS),
            lambda: self._stall(FOLLOWERS),
            lambda: self._stall([MAINTAINER]),
            lambda: self._stall(self._rng.sample(CAST, 3), together=True),
        ]
        self._rng.shuffle(acts)
        for act in acts:
            act()
            self._advance(self._rng.randint(1, 2))

    def _kill(self, among: Sequence[str]) -> None:
        """SIGKILL, and the next life begins."""
        actor = self._actors[self._rng.choice(among)]
        time.sleep(self._rng.uniform(0, 0.3))
        actor.kill()
        self.did["killed"] += 1
        time.sleep(self._rng.uniform(0, 0.3))
        actor.begin()

    def _kill_holder(self) -> None:
        """Kill whoever holds the lease; the others find out by themselves."""
        lease = self._await("a holder", self._held)
        self._kill([lease.holder])

    def _stall(self, among: Sequence[str], *, together: bool = False) -> None:
        """SIGSTOP for longer than a lease lasts."""
        names = among if together else [self._rng.choice(among)]
        time.sleep(self._rng.uniform(0, 0.3))
        with self._stopped(*names):
            time.sleep(self._rng.uniform(*STALL))
        self.did["stalled"] += len(names)

    def _usurp(self) -> None:
        """Stop the holder of the lease until another one has taken it."""
        while True:
            lease = self._await("a holder", self._held)
            with self._stopped(lease.holder):
                before = self._held()
                if before is None or before.holder != lease.holder:  # it was just giving it up
                    continue
                self._await("a usurper", lambda seen=before: self._usurped(seen))  # type: ignore[misc]
            self.did["stalled"] += 1
            self.did["usurped"] += 1
            return

    def _fall_behind(self) -> None:
        """Stop a follower until a few versions have come, over which a span may lead."""
        with self._stopped(self._rng.choice(FOLLOWERS)):
            self._advance(KEEP_LAST - 2)
        self.did["stalled"] += 1

    def _leave_behind(self) -> None:
        """Stop a follower until whatever it may hold, and what comes next, has been collected."""
        who = self._rng.choice(FOLLOWERS)
        self._await("a follower", lambda: any(entry["event"] == "held" for entry in self._scene.entries(who)))
        with self._stopped(who):
            newest = self._newest()
            self._await("the boundary to pass a follower", lambda: self._boundary() > newest + 1)
        self.did["stalled"] += 1
        self.did["left behind"] += 1

    @contextmanager
    def _stopped(self, *names: str) -> Iterator[None]:
        for who in names:
            self._actors[who].stop()
        try:
            yield
        finally:
            for who in names:
                self._actors[who].go_on()

    def _finish(self) -> None:
        self._scene.order("no-writers")
        self._join(*WRITERS)
        self._scene.order("no-writers-left")
        self._join(*FOLLOWERS)
        self._scene.order("last-pass")
        self._join(MAINTAINER)

    def _join(self, *names: str) -> None:
        for who in names:
            self._actors[who].wait(PATIENCE)

    def _advance(self, versions: int) -> None:
        goal = self._newest() + versions
        self._await(f"version {goal}", lambda: self._newest() >= goal)

    def _await(self, what: str, ready: Callable[[], T | None]) -> T:
        give_up = time.monotonic() + PATIENCE
        while not (found := ready()):
            assert time.monotonic() < give_up, f"waited for {what} in vain"
            for actor in self._actors.values():
                actor.check()
            time.sleep(0.05)
        return found

    def _newest(self) -> int:
        try:
            return self._reader.latest(_FOREVER)
        except (StreamNotFoundError, VersionNotFoundError):
            return -1

    def _boundary(self) -> int:
        return self._reader.retention(_FOREVER).boundary

    def _held(self) -> LeaseRecord | None:
        lease = read_lease(self._reader, _FOREVER)
        return None if lease is None or lease.released else lease

    def _usurped(self, before: LeaseRecord) -> bool:
        lease = read_lease(self._reader, _FOREVER)
        return lease is not None and lease.epoch > before.epoch and lease.holder != before.holder

    def _noted(self, event: str, fact: str) -> bool:
        return any(entry.get(fact) for entry in self._scene.entries(MAINTAINER) if entry["event"] == event)
