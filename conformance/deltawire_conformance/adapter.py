"""Calling an adapter: what it says of itself, and which process takes a call (ADAPTER.md)."""

from __future__ import annotations

import os
import shlex
import threading
from collections.abc import Mapping
from typing import Literal

import msgspec
from msgspec import Struct

from deltawire_conformance.answers import Answer
from deltawire_conformance.calls import Call, OnLine, ProcessCall, ServedCall, Server

CONTRACT = 1
"""The version of ADAPTER.md that this suite speaks."""
SECONDS = 60.0
"""What a call may take if nothing else was said."""


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


class Adapter:
    """An adapter's command. Safe to use from several threads.

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
        self._lock = threading.Lock()
        self._servers: list[Server] = []
        self._idle: list[Server] = []
        self.description = self._describe()

    def close(self) -> None:
        """Stop its servers."""
        for server in self._servers:
            server.stop()

    def call(self, *arguments: str) -> Answer:
        """Make one call and wait for its end."""
        return self.start(*arguments).finish(self._seconds)

    def start(self, *arguments: str, on_line: OnLine | None = None) -> Call:
        """Begin a call that goes on while the suite does something else."""
        if not self.description.serve:
            return ProcessCall(self.command, arguments, self._environment, on_line)
        return ServedCall(self._server(), arguments, self._give_back, on_line)

    def _server(self) -> Server:
        with self._lock:
            while self._idle:
                server = self._idle.pop()
                if server.alive:
                    return server
            server = self._started()
            self._servers.append(server)
            return server

    def _started(self) -> Server:
        return Server(self.command, self._environment)

    def _give_back(self, server: Server) -> None:
        with self._lock:
            self._idle.append(server)

    def _describe(self) -> Description:
        answer = ProcessCall(self.command, ("describe",), self._environment).finish(self._seconds)
        if answer.trouble or answer.status != 0:
            raise AdapterError(f"describe: {answer.trouble or answer.output}\n{answer.stderr}")
        try:
            description = msgspec.convert(answer.result, Description)
        except msgspec.ValidationError as error:
            raise AdapterError(f"describe: {error}") from None
        if description.contract != CONTRACT:
            raise AdapterError(f"the adapter speaks contract {description.contract}; this suite speaks {CONTRACT}")
        return description
