"""What the demo's own tests share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _children_find_the_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that a test starts can run the stand-ins, wherever pytest was started."""
    root = str(Path(__file__).parents[2])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")])))
