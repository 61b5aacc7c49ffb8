"""What the demo's own tests share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hub.emulator import HubEmulator


@pytest.fixture(autouse=True)
def _children_find_the_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that a test starts can run the stand-ins, wherever pytest was started."""
    root = str(Path(__file__).parents[2])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")])))


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[HubEmulator]:
    """An emulated Hub, and an environment in which everything goes there."""
    with HubEmulator() as running:
        running.create("alice/weights")
        for name, value in running.environment().items():
            monkeypatch.setenv(name, value)
        yield running
