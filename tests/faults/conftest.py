from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from deltawire.format import keys
from deltawire.producer import commit
from deltawire.store.memory import MemoryStore
from tests.faults.doomed import Nursery, nothing, nursery
from tests.faults.line import Trainer, check_line, script
from tests.strategies import load_profile

load_profile()


@pytest.fixture(scope="session", autouse=True)
def compiled() -> None:
    """Compile the kernels before a test looks at its watch."""
    memory = new_memory()
    Trainer(memory, script()).run()
    check_line(memory, script())


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retry at once: a test's store is as good as it will get."""
    monkeypatch.setattr(commit, "_PAUSES", (0.0, 0.0, 0.0, 0.0))


@pytest.fixture
def no_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait for the disk: nothing here loses power."""
    monkeypatch.setattr("os.fsync", nothing)


def new_memory() -> MemoryStore:
    return MemoryStore(f"faults-{uuid.uuid4().hex}")


@pytest.fixture
def memory() -> MemoryStore:
    return new_memory()


@pytest.fixture(scope="session")
def doomed() -> Iterator[Nursery]:
    with nursery() as running:
        yield running


@pytest.fixture
def written(memory: MemoryStore) -> MemoryStore:
    """The whole scripted line, written without a fault."""
    Trainer(memory, script()).run()
    return memory


def forget(store: MemoryStore, *numbers: int, parts_only: bool = False) -> None:
    """Delete versions, or only their delta parts, as a collection of old versions would."""
    for number in numbers:
        for info in [*store.list(keys.DATA)]:
            if info.key.startswith(keys.data_prefix(number, "").rstrip("/")) and info.key.endswith(".arrow"):
                store.delete(info.key)
        if not parts_only:
            store.delete(keys.version_key(number))
