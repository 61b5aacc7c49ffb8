"""Mutants without the start of an interpreter for each: children of one process that has imported everything."""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from typing import Any

import msgspec
import pytest

from deltawire_conformance.adapter import Adapter, Description
from deltawire_conformance.calls import ServedCall, Server
from deltawire_conformance.resources import CASES
from mutants import Mutant, all_mutants
from mutants.__main__ import load_adapter

SMALL = CASES / "records" / "valid" / "publish-three"
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload([__name__])


def _warm_up() -> None:
    """Import everything and load every kernel, once for all children."""
    all_mutants()
    with tempfile.TemporaryDirectory() as folder:
        for call in (
            ["publish", f"{folder}/stream", str(SMALL / "input"), "{}"],
            ["materialize", f"{folder}/stream", f"{folder}/target", "latest", "{}"],
        ):
            assert load_adapter().run(call, lambda _: None) == 0


if sys.argv[0] == "-c" and "xdist" not in sys.modules:  # the process that is forked
    _warm_up()


def _serve(name: str, environment: Mapping[str, str], calls: Connection) -> None:
    os.environ.clear()
    os.environ.update(environment)
    adapter: Any = load_adapter()
    all_mutants()[name].patch()
    adapter.wait_for_end = calls.recv_bytes

    def say(line: dict[str, Any]) -> None:
        calls.send_bytes(json.dumps(line).encode())

    while True:
        try:
            arguments = json.loads(calls.recv_bytes())
        except EOFError:
            return
        if arguments is not None:
            say({"status": adapter.run(arguments, lambda line: say({"line": line}))})


@cache
def _ensure_warm(paths: str) -> None:
    """Start the process that is forked. It looks for what it imports first in its environment alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", paths)
        forkserver.ensure_running()


class ForkedServer(Server):
    """A process that answers calls over a pipe of ``multiprocessing``."""

    def __init__(self, name: str, environment: Mapping[str, str]) -> None:
        _ensure_warm(environment["PYTHONPATH"])
        self._call = None
        self._calls, theirs = _CONTEXT.Pipe()
        self._forked = _CONTEXT.Process(target=_serve, args=(name, environment, theirs), daemon=True)
        self._forked.start()
        theirs.close()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    @property
    def alive(self) -> bool:
        return self._forked.is_alive()

    def begin(self, call: ServedCall) -> None:
        self._call = call
        self.send(list(call.arguments))

    def send(self, value: Any) -> None:
        with suppress(OSError):
            self._calls.send_bytes(json.dumps(value).encode())

    def errors(self) -> list[bytes]:
        return []

    def stop(self) -> None:
        self._forked.kill()
        self._forked.join()
        self._reader.join()
        self._calls.close()

    def _read(self) -> None:
        with suppress(EOFError, OSError):
            while True:
                line = self._calls.recv_bytes()
                if self._call is not None:
                    self._call.take(line)
        if self._call is not None:
            self._call.lost()


class ForkedAdapter(Adapter):
    """A mutant as an adapter.

    Args:
        mutant: which.
        environment: more variables.
        seconds: what a call may take.
    """

    def __init__(self, mutant: Mutant, *, environment: Mapping[str, str | None], seconds: float) -> None:
        self._name = mutant.name
        super().__init__("", environment=environment, seconds=seconds)

    def _started(self) -> Server:
        return ForkedServer(self._name, self._environment)

    def _describe(self) -> Description:
        return msgspec.convert(load_adapter().DESCRIPTION, Description)
