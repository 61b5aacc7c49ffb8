"""Calling an adapter: processes, arguments, answers (ADAPTER.md)."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec
from msgspec import Struct

CONTRACT = 1
"""The version of ADAPTER.md that this suite speaks."""
SECONDS = 60.0
"""What a call may take if nothing else was said."""
_ALONE = {"describe", "follow", "lease"}
"""Calls that are a process of their own always."""


class Description(Struct, frozen=True, kw_only=True):
    """What an adapter says of its implementation."""

    contract: int
    name: str
    version: str
    spec_versions: tuple[str, ...]
    roles: tuple[Literal["consumer", "producer", "maintainer"], ...]
    stores: tuple[str, ...] = ("disk",)
    features: tuple[str, ...] = ()
    serve: bool = False


class AdapterError(Exception):
    """The adapter does not keep to the contract."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What came back from a call."""

    arguments: tuple[str, ...]
    status: int | None
    """Exit status; None if it took too long."""
    output: tuple[dict[str, Any], ...] = ()
    stderr: str = ""
    seconds: float = 0.0
    trouble: str | None = None
    """Why this is no answer at all: a crash, a timeout, output that is not JSON."""

    @property
    def refusal(self) -> str | None:
        """Code of a refusal; None if it was done."""
        return self.output[-1]["error"] if self.status == 1 and self.trouble is None else None

    @property
    def result(self) -> dict[str, Any]:
        """The last line of a call that was done."""
        return self.output[-1] if self.output else {}


class Adapter:
    """An adapter's command. Safe to use from several threads; each has a server of its own.

    Args:
        command: a command line.
        environment: more variables for it; None takes one away.
        seconds: what a call may take.
    """

    def __init__(
        self, command: str, *, environment: Mapping[str, str | None] | None = None, seconds: float = SECONDS
    ) -> None:
        self.command = shlex.split(command)
        variables = {**os.environ, **(environment or {})}
        self._environment = {name: value for name, value in variables.items() if value is not None}
        self._seconds = seconds
        self._local = threading.local()
        self._servers: list[_Server] = []
        self.description = self._describe()

    def close(self) -> None:
        """Stop its servers."""
        for server in self._servers:
            server.stop()

    def call(self, *arguments: str, alone: bool = False) -> Answer:
        """Make one call and wait for its end."""
        if self.description.serve and not alone and arguments[0] not in _ALONE:
            return self._server().call(arguments, self._seconds)
        running = self.start(*arguments)
        return running.finish(self._seconds)

    def start(self, *arguments: str, on_line: Callable[[dict[str, Any]], None] | None = None) -> Running:
        """Begin a call that goes on while the suite does something else."""
        return Running(self.command, arguments, self._environment, on_line)

    def _server(self) -> _Server:
        server: _Server | None = getattr(self._local, "server", None)
        if server is None or not server.alive:
            server = _Server(self.command, self._environment)
            self._servers.append(server)
            self._local.server = server
        return server

    def _describe(self) -> Description:
        answer = Running(self.command, ("describe",), self._environment, None).finish(self._seconds)
        if answer.trouble or answer.status != 0:
            raise AdapterError(f"describe: {answer.trouble or answer.output}\n{answer.stderr}")
        try:
            description = msgspec.convert(answer.result, Description)
        except msgspec.ValidationError as error:
            raise AdapterError(f"describe: {error}") from None
        if description.contract != CONTRACT:
            raise AdapterError(f"the adapter speaks contract {description.contract}; this suite speaks {CONTRACT}")
        return description


class Running:
    """A call under way, in a process of its own."""

    def __init__(
        self,
        command: Sequence[str],
        arguments: tuple[str, ...],
        environment: Mapping[str, str],
        on_line: Callable[[dict[str, Any]], None] | None,
    ) -> None:
        self.arguments = arguments
        self._started = time.monotonic()
        self._on_line = on_line
        self._lines: list[bytes] = []
        self._errors: list[bytes] = []
        self._process = subprocess.Popen(  # noqa: S603 - running the adapter is what this is for
            [*command, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
        self._readers = [threading.Thread(target=self._read), threading.Thread(target=self._read_errors)]
        for reader in self._readers:
            reader.start()

    @property
    def output(self) -> list[dict[str, Any]]:
        """The lines so far."""
        return [json.loads(line) for line in list(self._lines)]

    @property
    def ended(self) -> bool:
        """Whether the process has ended."""
        return self._process.poll() is not None

    def end_input(self) -> None:
        """Close its standard input."""
        assert self._process.stdin is not None  # noqa: S101 - it was asked for
        with suppress(BrokenPipeError):
            self._process.stdin.close()

    def kill(self) -> None:
        """Stop it, and everything that it has started."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, 9)

    def finish(self, seconds: float) -> Answer:
        """Wait for its end."""
        if self._process.stdin is not None and not self._process.stdin.closed and self.arguments[0] != "lease":
            self.end_input()
        trouble = None
        try:
            status: int | None = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            self._process.wait()
            status, trouble = None, f"it did not end within {seconds:g} s"
        for reader in self._readers:
            reader.join()
        _close(self._process)
        return _answer(
            self.arguments,
            status,
            self._lines,
            b"".join(self._errors),
            time.monotonic() - self._started,
            trouble,
        )

    def _read(self) -> None:
        assert self._process.stdout is not None  # noqa: S101 - it was asked for
        for line in self._process.stdout:
            self._lines.append(line)
            if self._on_line is not None:
                try:
                    found = json.loads(line)
                except (ValueError, RecursionError):
                    continue
                self._on_line(found)

    def _read_errors(self) -> None:
        assert self._process.stderr is not None  # noqa: S101 - it was asked for
        self._errors.extend(self._process.stderr)


def _answer(
    arguments: tuple[str, ...], status: int | None, lines: Sequence[bytes], errors: bytes, seconds: float,
    trouble: str | None,
) -> Answer:  # fmt: skip
    output: list[dict[str, Any]] = []
    for line in lines:
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            found = None
        if isinstance(found, dict):
            output.append(found)
        else:
            trouble = trouble or f"standard output has a line that is not a JSON object: {line[:80]!r}"
    return judged(arguments, status, output, errors.decode(errors="replace"), seconds, trouble)


def judged(
    arguments: tuple[str, ...], status: int | None, output: Sequence[dict[str, Any]], stderr: str, seconds: float,
    trouble: str | None,
) -> Answer:  # fmt: skip
    """Hold an answer against the contract: a crash is not a refusal."""
    if trouble is None and status not in {0, 1}:
        trouble = f"it ended with status {status}, which is neither done nor refused"
    if trouble is None and status == 1 and not (output and isinstance(output[-1].get("error"), str)):
        trouble = 'it ended with status 1 and no {"error": "<code>"} in its last line'
    if trouble is None and status == 0 and not output:
        trouble = "it ended with status 0 and printed nothing"
    return Answer(
        arguments=arguments,
        status=status,
        output=tuple(output),
        stderr=stderr[-8000:],
        seconds=seconds,
        trouble=trouble,
    )


def _reply(found: Any) -> tuple[int, list[dict[str, Any]]]:
    """Status and lines of a server's answer. Raises ValueError."""
    match found:
        case {"status": int(status), "output": list(lines)} if all(isinstance(line, dict) for line in lines):
            return status, lines
        case _:
            raise ValueError(found)


def _close(process: subprocess.Popen[bytes]) -> None:
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with suppress(BrokenPipeError):  # what it was sent last it did not read
                pipe.close()


@dataclass
class _Server:
    """A process that answers one call after the other."""

    command: Sequence[str]
    environment: Mapping[str, str]
    alive: bool = True
    _errors: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - running the adapter is what this is for
            [*self.command, "serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.environment,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read_errors, daemon=True)
        self._reader.start()

    def call(self, arguments: tuple[str, ...], seconds: float) -> Answer:
        """Send one call and wait for its line."""
        started = time.monotonic()
        del self._errors[:]
        timer = threading.Timer(seconds, self._kill)
        timer.start()
        line = b""
        try:
            assert self._process.stdin is not None and self._process.stdout is not None  # noqa: S101, PT018
            self._process.stdin.write(json.dumps(arguments).encode() + b"\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except OSError:
            pass
        finally:
            timer.cancel()
        took = time.monotonic() - started
        status: int | None = None
        output: list[dict[str, Any]] = []
        trouble = None
        try:
            found = json.loads(line)
            status, output = _reply(found)
        except (ValueError, RecursionError):
            trouble = (
                f"it did not answer within {seconds:g} s" if took >= seconds else "the server ended or spoke no JSON"
            )
            self.stop()
        return judged(arguments, status, output, b"".join(self._errors).decode(errors="replace"), took, trouble)

    def stop(self) -> None:
        """Stop the process."""
        self.alive = False
        self._kill()
        self._process.wait()
        self._reader.join()
        _close(self._process)

    def _kill(self) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, 9)

    def _read_errors(self) -> None:
        assert self._process.stderr is not None  # noqa: S101 - it was asked for
        for line in self._process.stderr:
            self._errors.append(line)
