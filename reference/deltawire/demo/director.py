"""The course of the demo: who is started when, who is killed, and what must have happened at the end."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from msgspec import Struct

from deltawire.demo.checkpoint import Checkpoint
from deltawire.demo.display import Display
from deltawire.demo.evidence import FOLLOWER, LATE_JOINER, Evidence
from deltawire.demo.messages import (
    Anchored,
    AnyMessage,
    Committed,
    Embedded,
    FollowerSettings,
    Loaded,
    LoaderSettings,
    TrainerSettings,
    Verified,
)
from deltawire.demo.processes import Child, Ended, News, ProcessDiedError, Said
from deltawire.errors import DeadlineExceededError

TRAINER, LOADER = "trainer", "loader"
_MODULES = {
    TRAINER: "deltawire.demo.trainer",
    FOLLOWER: "deltawire.demo.follower",
    LATE_JOINER: "deltawire.demo.follower",
    LOADER: "deltawire.demo.loader",
}
_JOURNAL = Path(".deltawire") / "journal.arrow"
"""There while an update of a followed directory is half done."""
_WATCH_SECONDS, _IDLE_SECONDS = 0.001, 0.2
Start = Callable[[str, str, Struct, "queue.Queue[News]"], Child]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What happens in a run, and at which version."""

    checkpoint: Checkpoint
    store: str
    directory: Path
    """Where the first follower keeps its copy."""
    steps: int
    lr: float
    anchor_every: int
    threads: int
    """Of the trainer."""
    timeout: float
    """Seconds for everything."""
    interval: float = 0.05
    """Most seconds between a follower's looks at the stream."""

    @property
    def kill_at(self) -> int:
        """The follower is killed while it writes this version."""
        return max(1, self.steps // 3)

    @property
    def restart_at(self) -> int:
        """It is started again when this one is published."""
        return min(self.kill_at + 2, self.steps)

    @property
    def join_at(self) -> int:
        """The late joiner is started when this one is published."""
        return self.steps * 3 // 4


class Director:
    """Runs a plan to its end or to the first failure.

    Args:
        plan: what to do.
        display: who is told.
        start: starts a process.
    """

    def __init__(self, plan: Plan, display: Display, start: Start = Child) -> None:
        self._plan, self._display, self._start = plan, display, start
        self._give_up = time.monotonic() + plan.timeout
        self._news: queue.Queue[News] = queue.Queue()
        self._children: dict[str, Child] = {}
        self._started: set[str] = set()
        self._finished: set[str] = set()
        self._killed = self._restarted = False
        self._anchor: int | None = None
        self.evidence = Evidence(plan.steps)

    def run(self) -> Evidence:
        """Run to the end.

        Raises:
            DeadlineExceededError: time ran out.
            DeltawireError: a process failed or died.
        """
        try:
            self._launch(TRAINER)
            self._launch(FOLLOWER)
            while self._finished != set(_MODULES):
                self._hear()
                self._act()
        finally:
            for child in self._children.values():
                child.close()
        return self.evidence

    def _launch(self, who: str) -> None:
        self._children[who] = self._start(who, _MODULES[who], self._settings(who), self._news)
        self._started.add(who)

    def _settings(self, who: str) -> Struct:
        plan, seconds = self._plan, self._seconds_left()
        if who == TRAINER:
            return TrainerSettings(
                store=plan.store,
                model=str(plan.checkpoint.path),
                steps=plan.steps,
                lr=plan.lr,
                anchor_every=plan.anchor_every,
                threads=plan.threads,
                timeout=seconds,
            )
        if who == LOADER:
            return LoaderSettings(directory=str(plan.directory))
        return FollowerSettings(
            store=plan.store,
            directory=str(plan.directory) if who == FOLLOWER else None,
            from_first=who == FOLLOWER,
            last=plan.steps,
            interval=plan.interval,
            timeout=seconds,
        )

    def _seconds_left(self) -> float:
        left = self._give_up - time.monotonic()
        if left <= 0:
            busy = ", ".join(sorted(self._children))
            raise DeadlineExceededError(f"after {self._plan.timeout:g} s the demo still waits for: {busy}")
        return left

    def _hear(self) -> None:
        wait = _WATCH_SECONDS if self._kill_is_near else _IDLE_SECONDS
        try:
            news = self._news.get(timeout=min(wait, self._seconds_left()))
        except queue.Empty:
            return
        if isinstance(news, Said):
            self._note(news.child.who, news.message)
        else:
            self._end(news)

    def _end(self, news: Ended) -> None:
        who = news.child.who
        if self._children.get(who) is not news.child:
            return  # the one that was killed on purpose
        if news.status != 0:
            raise news.child.failure(news.status)
        if who == TRAINER and self._published < self._plan.steps:
            raise ProcessDiedError(f"the trainer ended after version {self._published}")
        self._children.pop(who).close()
        self._finished.add(who)

    def _act(self) -> None:
        """Do what is due now."""
        plan = self._plan
        if self._kill_is_near and (self._half_done or plan.kill_at in self.evidence.verified[FOLLOWER]):
            self._kill()
        if self._killed and not self._restarted and self._published >= plan.restart_at:
            self._display.note(FOLLOWER, "started again on the same directory")
            self._restarted = True
            self._launch(FOLLOWER)
        if LATE_JOINER not in self._started and self._published >= plan.join_at and self._anchor is not None:
            self._display.note(LATE_JOINER, "starts now, with nothing")
            self._launch(LATE_JOINER)
        if LOADER not in self._started and FOLLOWER in self._finished:
            self._display.note(LOADER, "loads the followed directory with transformers")
            self._launch(LOADER)

    @property
    def _published(self) -> int:
        return max(self.evidence.committed, default=-1)

    @property
    def _kill_is_near(self) -> bool:
        return not self._killed and self._plan.kill_at - 1 in self.evidence.verified[FOLLOWER]

    @property
    def _half_done(self) -> bool:
        return (self._plan.directory / _JOURNAL).exists()

    def _kill(self) -> None:
        child = self._children.pop(FOLLOWER)
        child.kill()
        child.close()
        self._killed = True
        self.evidence.killed_half_done = self._half_done  # if not, it was faster than we could look
        when = "in the middle of writing" if self._half_done else "just after writing"
        self._display.note(FOLLOWER, f"killed with SIGKILL {when} version {self._plan.kill_at}")

    def _note(self, who: str, message: AnyMessage) -> None:
        """Keep what was said, and show it."""
        evidence = self.evidence
        match message:
            case Loaded():
                evidence.loaded = message
                self._display.loaded(message)
            case Committed():
                evidence.committed[message.version] = message
                self._display.committed(message)
            case Anchored():
                self._anchor = message.version
                self._display.note(who, f"wrote an anchor of version {message.version} in the background")
            case Verified():
                evidence.add_verified(who, message)
                self._display.verified(who, message)
            case Embedded() if who == LOADER:
                evidence.followed = message
            case Embedded():
                evidence.trained = message
