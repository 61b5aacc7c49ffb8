"""The demo's processes: started with JSON, heard line by line, never left behind."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from typing import IO, ClassVar

import msgspec
from msgspec import Struct

from deltawire.demo.messages import AnyMessage, Failed, decode_message
from deltawire.errors import CODES, DeltawireError

_TAIL_LINES, _TAIL_BYTES = 20, 8000
_ENVIRONMENT = {
    "OMP_WAIT_POLICY": "PASSIVE",  # threads that wait by spinning would starve the followers of a small machine
    "PYTHONUNBUFFERED": "1",
}


class ProcessDiedError(DeltawireError):
    """A process of the demo ended without having said why."""

    code: ClassVar[str] = "demo_process_died"
    hint = "the last lines it wrote, if any, are above"

    def __init__(self, message: str, *, tail: str = "") -> None:
        super().__init__(message)
        self.tail = tail
        """The end of what it wrote to standard error."""


@dataclass(frozen=True, slots=True)
class Said:
    """A process sent a message."""

    child: Child
    message: AnyMessage


@dataclass(frozen=True, slots=True)
class Ended:
    """A process is gone, and everything it said has been heard."""

    child: Child
    status: int


News = Said | Ended


class Child:
    """One process. Its messages, and at last its end, arrive in the queue.

    Args:
        who: name by which it is known.
        module: what ``python -m`` runs.
        settings: its only argument.
        news: queue to which everything goes.
    """

    def __init__(self, who: str, module: str, settings: Struct, news: queue.Queue[News]) -> None:
        self.who = who
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            [sys.executable, "-m", module, msgspec.json.encode(settings).decode()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            env=os.environ | _ENVIRONMENT,
        )
        self._failed: Failed | None = None
        assert self._process.stdout is not None  # noqa: S101 - a pipe was asked for
        self._reader = threading.Thread(target=self._listen, args=(self._process.stdout, news), daemon=True)
        self._reader.start()

    def kill(self) -> None:
        """End it as a crash or a power cut would: SIGKILL, without notice."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def failure(self, status: int) -> DeltawireError:
        """Why it ended, as an error of ours."""
        kind = CODES.get(self._failed.code) if self._failed is not None else None
        if kind is not None and self._failed is not None:
            return kind(f"{self.who}: {self._failed.message}", hint=self._failed.hint)
        how = f"signal {-status}" if status < 0 else f"status {status}"
        return ProcessDiedError(f"the {self.who} ended with {how}", tail=self._tail())

    def close(self) -> None:
        """End it if it is still there, and release what belongs to it."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout, self._stderr):
            if stream is not None:
                stream.close()

    def _listen(self, stdout: IO[bytes], news: queue.Queue[News]) -> None:
        for line in stdout:
            try:
                message = decode_message(line)
            except msgspec.DecodeError as error:
                message = Failed(code="", message=f"a line that is no message: {error}")
            if isinstance(message, Failed):
                self._failed = message
            else:
                news.put(Said(self, message))
        news.put(Ended(self, self._process.wait()))

    def _tail(self) -> str:
        size = self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, size - _TAIL_BYTES))
        lines = self._stderr.read().decode(errors="replace").strip().splitlines()
        return "\n".join(lines[-_TAIL_LINES:])
