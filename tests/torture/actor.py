"""One process of the cast, as its director sees it, and what runs in it."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from multiprocessing import get_context

from tests.torture import keeper, reader, writer
from tests.torture.scene import MAINTAINER, WRITERS, Journal, Scene

_CONTEXT = get_context("forkserver")
_CONTEXT.set_forkserver_preload(["tests.torture.warm", "tests.torture.actor"])


class Actor:
    """A process that is killed and begun again."""

    def __init__(self, scene: Scene, who: str) -> None:
        self.who = who
        self.lives = 0
        self._scene = scene
        self.begin()

    def begin(self) -> None:
        self._process = _CONTEXT.Process(target=play, args=(self._scene, self.who, self.lives), name=self.who)
        self._process.start()
        self.lives += 1

    def kill(self) -> None:
        """End it at once, and wait until it is gone."""
        self.check()
        self._process.kill()
        self._process.join()
        assert self._process.exitcode == -signal.SIGKILL or self._process.exitcode == 0

    def stop(self) -> None:
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self._signal(signal.SIGCONT)

    def check(self) -> None:
        """Whether it plays on; an actor that gave up has failed the test."""
        if not self._process.is_alive():
            raise AssertionError(f"{self.who} ended with {self._process.exitcode}")

    def wait(self, seconds: float) -> None:
        """Wait for its own end."""
        self._process.join(seconds)
        if self._process.exitcode != 0:
            raise AssertionError(f"{self.who} did not end well within {seconds:g} s: {self._process.exitcode}")

    def close(self) -> None:
        """End it if it is still there."""
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def _signal(self, number: signal.Signals) -> None:
        assert self._process.pid is not None
        self.check()
        os.kill(self._process.pid, number)


def play(scene: Scene, who: str, life: int) -> None:
    """Be a writer, a follower or the maintainer. Runs in the process itself."""
    output = os.open(scene.output(who), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(output, 1)
    os.dup2(output, 2)
    journal = Journal(scene.journal(who))
    journal.note("began", life=life, pid=os.getpid())
    part = writer.write if who in WRITERS else keeper.maintain if who == MAINTAINER else reader.follow
    try:
        part(scene, who, life, journal)
    except BaseException as error:
        journal.note("failed", error=repr(error), at=traceback.format_exc())
        sys.stderr.write(traceback.format_exc())
        raise
    journal.note("ended")
