"""Mutants without the start of an interpreter for each: children of one process that has imported everything."""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import shlex
import sys
import time
from collections.abc import Mapping
from multiprocessing.connection import Connection
from types import ModuleType
from typing import Any

import msgspec

from deltawire_conformance.adapter import Adapter, Answer, Description, judged
from mutants import Mutant, all_mutants
from mutants.__main__ import ADAPTER

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload([__name__])


def load_adapter() -> ModuleType:
    """The reference's adapter as a module."""
    spec = importlib.util.spec_from_file_location("reference_adapter", ADAPTER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if multiprocessing.parent_process() is None and "pytest" not in sys.modules:  # the process that is forked
    load_adapter()
    all_mutants()


def _serve(name: str, environment: Mapping[str, str], calls: Connection) -> None:
    os.environ.clear()
    os.environ.update(environment)
    adapter = load_adapter()
    all_mutants()[name].patch()
    while True:
        try:
            arguments = calls.recv()
        except EOFError:
            return
        output: list[dict[str, Any]] = []
        calls.send((adapter.run(list(arguments), output.append), output))


class ForkedAdapter(Adapter):
    """A mutant as an adapter. Calls that need a process of their own start one.

    Args:
        mutant: which.
        environment: more variables.
        seconds: what a call may take.
    """

    def __init__(self, mutant: Mutant, *, environment: Mapping[str, str | None], seconds: float) -> None:
        self.command = [sys.executable, "-m", "mutants", mutant.name]
        variables = {**os.environ, **environment}
        self._environment = {name: value for name, value in variables.items() if value is not None}
        self._seconds = seconds
        self._name = mutant.name
        self._process: multiprocessing.context.ForkServerProcess | None = None
        self._calls: Connection | None = None
        self.description = msgspec.convert(load_adapter().DESCRIPTION, Description)

    def close(self) -> None:
        if self._process is not None and self._calls is not None:
            self._calls.close()
            self._process.join(5)
            self._process.kill()
            self._process.join()
            self._process.close()
        self._process = self._calls = None

    def call(self, *arguments: str, alone: bool = False) -> Answer:
        if alone or arguments[0] in {"follow", "lease"}:
            return self.start(*arguments).finish(self._seconds)
        if self._process is None:
            self._calls, theirs = _CONTEXT.Pipe()
            self._process = _CONTEXT.Process(target=_serve, args=(self._name, self._environment, theirs), daemon=True)
            self._process.start()
            theirs.close()
        assert self._calls is not None
        started = time.monotonic()
        status, output, trouble = None, [], None
        try:
            self._calls.send(arguments)
            if self._calls.poll(self._seconds):
                status, output = self._calls.recv()
            else:
                trouble = "it took too long"
        except (EOFError, OSError):
            trouble = f"the process of {shlex.join(self.command)} ended"
        if trouble is not None:
            self.close()
        return judged(arguments, status, output, "", time.monotonic() - started, trouble)
