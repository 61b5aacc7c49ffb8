"""Hypothesis settings for this folder, and a store for each test."""

from __future__ import annotations

import pytest

from deltawire.producer import commit
from deltawire.store.memory import MemoryStore
from tests.faults.conftest import new_memory
from tests.strategies import load_profile

load_profile()


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retry at once: a test's store is as good as it will get."""
    monkeypatch.setattr(commit, "_PAUSES", (0.0, 0.0, 0.0, 0.0))


@pytest.fixture
def memory() -> MemoryStore:
    return new_memory()
