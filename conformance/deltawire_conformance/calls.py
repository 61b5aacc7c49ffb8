"""Calls of an adapter under way: each a process of its own, or one after the other in a process that serves."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from deltawire_conformance.answers import Answer, Line, judged

OnLine = Callable[[Line], None]
"""Told of each line of a call, as it comes, in another thread."""


class Call(ABC):
    """A call that goes on while the suite does something else."""

    def __init__(self, arguments: tuple[str, ...], on_line: OnLine | None) -> None:
        self.arguments = arguments
        self._started = time.monotonic()
        self._on_line = on_line
        self._output: list[Line] = []
        self._trouble: str | None = None

    @property
    @abstractmethod
    def ended(self) -> bool:
        """Whether it is over."""

    @abstractmethod
    def end_input(self) -> None:
        """End its standard input."""

    @abstractmethod
    def finish(self, seconds: float) -> Answer:
        """Wait for its end."""

    def _take(self, found: Any, shown: bytes) -> None:
        """Note a line of output."""
        if not isinstance(found, dict):
            self._trouble = self._trouble or f"standard output has a line that is not a JSON object: {shown[:80]!r}"
            return
        self._output.append(found)
        if self._on_line is not None:
            self._on_line(found)

    def _judged(self, status: int | None, errors: Sequence[bytes], trouble: str | None) -> Answer:
        stderr = b"".join(errors).decode(errors="replace")
        seconds = time.monotonic() - self._started
        return judged(self.arguments, status, self._output, stderr, seconds, trouble or self._trouble)


class ProcessCall(Call):
    """A call in a process of its own."""

    def __init__(
        self,
        command: Sequence[str],
        arguments: tuple[str, ...],
        environment: Mapping[str, str],
        on_line: OnLine | None = None,
    ) -> None:
        super().__init__(arguments, on_line)
        self._errors: list[bytes] = []
        self._process = start([*command, *arguments], environment)
        self._readers = [threading.Thread(target=self._read), threading.Thread(target=self._read_errors)]
        for reader in self._readers:
            reader.start()

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def end_input(self) -> None:
        close(self._process.stdin)

    def finish(self, seconds: float) -> Answer:
        self.end_input()
        trouble = None
        try:
            status: int | None = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            kill(self._process)
            self._process.wait()
            status, trouble = None, f"it did not end within {seconds:g} s"
        for reader in self._readers:
            reader.join()
        close(self._process.stdout, self._process.stderr)
        return self._judged(status, self._errors, trouble)

    def _read(self) -> None:
        for line in self._process.stdout or ():
            self._take(parsed(line), line)

    def _read_errors(self) -> None:
        self._errors.extend(self._process.stderr or ())


class Server:
    """A process that answers one call after the other (``serve``)."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._process = start([*command, "serve"], environment)
        self._call: ServedCall | None = None
        self._errors: list[bytes] = []
        self._readers = [threading.Thread(target=self._read), threading.Thread(target=self._read_errors)]
        for reader in self._readers:
            reader.start()

    @property
    def alive(self) -> bool:
        """Whether it can take another call."""
        return self._process.poll() is None

    def begin(self, call: ServedCall) -> None:
        """Send a call; the one before has ended."""
        del self._errors[:]
        self._call = call
        self.send(list(call.arguments))

    def send(self, value: Any) -> None:
        """Write a line to it."""
        if self._process.stdin is not None:
            with suppress(OSError):  # it has ended, which its other side shows
                self._process.stdin.write(json.dumps(value).encode() + b"\n")
                self._process.stdin.flush()

    def errors(self) -> list[bytes]:
        """What it wrote to standard error since the call began."""
        return list(self._errors)

    def stop(self) -> None:
        """Stop the process."""
        kill(self._process)
        self._process.wait()
        for reader in self._readers:
            if reader is not threading.current_thread():
                reader.join()
        close(self._process.stdin, self._process.stdout, self._process.stderr)

    def _read(self) -> None:
        for line in self._process.stdout or ():
            if self._call is not None:
                self._call.take(line)
        if self._call is not None:
            self._call.lost()

    def _read_errors(self) -> None:
        for line in self._process.stderr or ():
            self._errors.append(line)


class ServedCall(Call):
    """A call that a server answers.

    Args:
        server: idle.
        arguments: of the call.
        give_back: told of the server when it is idle again.
        on_line: told of each line.
    """

    def __init__(
        self,
        server: Server,
        arguments: tuple[str, ...],
        give_back: Callable[[Server], None],
        on_line: OnLine | None = None,
    ) -> None:
        super().__init__(arguments, on_line)
        self._server = server
        self._give_back = give_back
        self._over = threading.Event()
        self._status: int | None = None
        self._input_ended = False
        server.begin(self)

    @property
    def ended(self) -> bool:
        return self._over.is_set()

    def end_input(self) -> None:
        if not self._input_ended and not self.ended:
            self._input_ended = True
            self._server.send(None)

    def finish(self, seconds: float) -> Answer:
        self.end_input()
        trouble = None if self._over.wait(seconds) else f"it did not answer within {seconds:g} s"
        answer = self._judged(self._status, self._server.errors(), trouble)
        if answer.status is None:
            self._server.stop()
        else:
            self._give_back(self._server)
        return answer

    def take(self, line: bytes) -> None:
        """Take what the server says: a line of the call's output, or its exit status."""
        match parsed(line):
            case {"status": int(status)}:
                self._status = status
                self._over.set()
            case {"line": found}:
                self._take(found, line)
            case _:
                self._trouble = f"the server said neither a line nor a status: {line[:80]!r}"
                self._over.set()

    def lost(self) -> None:
        """The server has ended."""
        if not self.ended:
            self._trouble = "the server ended in the middle of the call"
            self._over.set()


def start(command: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start a process in a group of its own."""
    return subprocess.Popen(  # noqa: S603 - running the adapter is what this is for
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        start_new_session=True,
    )


def kill(process: subprocess.Popen[bytes]) -> None:
    """Stop a process, and everything that it has started."""
    if process.poll() is None:
        os.killpg(process.pid, 9)


def close(*pipes: Any) -> None:
    """Close pipes; what was sent last may not have been read."""
    for pipe in pipes:
        if pipe is not None:
            with suppress(BrokenPipeError):
                pipe.close()


def parsed(line: bytes) -> Any:
    """A line as JSON; None if it is not."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None
