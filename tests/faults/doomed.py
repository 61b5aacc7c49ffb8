"""A program that publishes or follows and is killed at a chosen step.

Started once, it forks a fresh process for every job: one line of JSON on its input, one line of JSON with the exit
status for an answer. Forking saves the seconds that imports take; each job is a process of its own all the same.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from deltawire.consumer.follower import Follower
from deltawire.store.local import LocalStore
from deltawire.store.memory import MemoryStore
from deltawire.targets.arrays import NumpyBits
from tests.faults.line import Trainer, open_publisher, publish, script

SYSTEM_CALLS = {
    "publish": ("fsync", "link", "replace"),
    "follow": ("fsync", "replace", "unlink", "mkdir", "rmdir", "posix_fallocate"),
}
"""What to count: whatever may leave the disk in another state."""
ROOT = Path(__file__).parents[2]


def nothing(descriptor: int) -> None:
    """In place of ``fsync``, which would take most of the tests' time."""


class Steps:
    """Counts what touches the disk, and ends the process at one of them."""

    def __init__(self, kill_at: int, *, torn: bool) -> None:
        self._kill_at = kill_at
        self._torn = torn
        self.count = 0

    def install(self, work: str) -> None:
        """Put every step under control; there is no way back."""
        os.fsync = nothing  # type: ignore[assignment]  # a killed process loses nothing that was written, unlike a machine
        for name in SYSTEM_CALLS[work]:
            setattr(os, name, self._before(getattr(os, name)))
        np.memmap.flush = self._before(np.memmap.flush)  # type: ignore[method-assign]
        scatter = NumpyBits.scatter

        def torn_scatter(bits: NumpyBits, where: Any, new: Any) -> None:
            if self._is_last() and self._torn:
                half = len(new) // 2
                part = slice(where.start, where.start + half) if isinstance(where, slice) else where[:half]
                scatter(bits, part, new[:half])
            self.step()
            scatter(bits, where, new)

        NumpyBits.scatter = torn_scatter  # type: ignore[method-assign, assignment]

    def step(self) -> None:
        """One more; the last one never returns."""
        self.count += 1
        if self.count == self._kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def _is_last(self) -> bool:
        return self.count + 1 == self._kill_at

    def _before(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **named: Any) -> Any:
            self.step()
            return function(*arguments, **named)

        return counted


def run(job: dict[str, Any]) -> None:
    """Do a job; each version that is done is acknowledged in a file first."""
    steps = Steps(job["kill_at"], torn=job["torn"])
    acknowledged = os.open(job["acknowledged"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    store = LocalStore(job["store"])
    steps.install(job["work"])
    if job["work"] == "publish":
        with open_publisher(store) as publisher:
            number = -1 if publisher.version is None else publisher.version
            for version in script()[number + 1 :]:
                os.write(acknowledged, b"%d\n" % publish(publisher, version).version)
    else:
        with Follower(store, job["target"]) as follower:
            for update in follower.follow(until=job["until"], every_version=job["every_version"]):
                os.write(acknowledged, b"%d\n" % update.version)


def main() -> None:
    """Fork for each job on the standard input."""
    warm = MemoryStore("warm")
    Trainer(warm, script()).run()
    with Follower(warm) as follower:
        follower.poll()
        follower.verify()
    print("ready", flush=True)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            try:
                run(json.loads(line))
            except BaseException:  # noqa: BLE001 - it must not come back as a second parent
                sys.excepthook(*sys.exc_info())
                os._exit(1)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


class Nursery:
    """The program, started."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        assert self._line() == "ready"

    def run(
        self,
        work: str,
        folder: Path,
        *,
        kill_at: int,
        torn: bool = False,
        until: int = 0,
        every_version: bool = True,
    ) -> bool:
        """Do a job on ``folder``'s ``store`` and ``target``; whether it was killed on the way."""
        job = {
            "work": work,
            "store": str(folder / "store"),
            "target": str(folder / "target"),
            "acknowledged": str(folder / "acknowledged"),
            "kill_at": kill_at,
            "torn": torn,
            "until": until,
            "every_version": every_version,
        }
        assert self._process.stdin is not None
        print(json.dumps(job), file=self._process.stdin, flush=True)
        status = int(self._line())
        assert status in {0, -signal.SIGKILL}, "the job failed of itself; see the captured errors"
        return status != 0

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


def acknowledged(folder: Path) -> int:
    """The last version that the killed process was told to be done; -1 if none."""
    path = folder / "acknowledged"
    return int(path.read_text().split()[-1]) if path.exists() and path.stat().st_size else -1


@contextmanager
def nursery() -> Iterator[Nursery]:
    """Start the program."""
    command = [sys.executable, "-m", "tests.faults.doomed"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        try:
            yield Nursery(process)
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(30)


def copied(source: Path, folder: Path) -> Path:
    """A copy of a folder to start from."""
    shutil.copytree(source, folder)
    return folder


if __name__ == "__main__":
    main()
