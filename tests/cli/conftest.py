"""A runner for the command line, and a stream to look at."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from deltawire import AnchorPolicy, Publisher
from deltawire.cli.app import app
from tests.checkpoints import write_steps

STEPS = 4


@dataclass(frozen=True)
class Ran:
    """What a command did."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON document on stdout."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        """One JSON object a line."""
        return [json.loads(line) for line in self.out.splitlines()]


Run = Callable[..., Ran]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command in this process; anything but an exit is a failure."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TZ", "UTC")

    def call(*arguments: object) -> Ran:
        result = CliRunner().invoke(app, [str(argument) for argument in arguments], prog_name="deltawire")
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Ran(result.exit_code, result.stdout, result.stderr)

    return call


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Checkpoint directories of a few training steps; not to be changed."""
    return write_steps(tmp_path_factory.mktemp("checkpoints"), STEPS)


@pytest.fixture(scope="session")
def published(checkpoints: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stream of them, with an anchor of version 2; not to be changed."""
    stream = tmp_path_factory.mktemp("published") / "stream"
    with Publisher(stream, anchors=AnchorPolicy(every=2, outweigh=None)) as publisher:
        for number, path in enumerate(checkpoints):
            publisher.publish(path, metadata={"step": number})
            publisher.wait_for_anchor()
    return stream


@pytest.fixture
def stream(published: Path, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    return Path(shutil.copytree(published, tmp_path / "stream"))
