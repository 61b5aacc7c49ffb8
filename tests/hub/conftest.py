"""Real clients of the Hub in this process: an environment of their own, and nothing that outlives a module."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub.utils._xet import abort_xet_session
from huggingface_hub.utils.tqdm import disable_progress_bars

from tests.hub.emulator import HubEmulator
from tests.hub.real import BUCKET, not_run


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Ask either the real Hub or emulators: they need other environments."""
    real = bool(os.environ.get(BUCKET))
    reason = f"{BUCKET} is set, so only the real Hub is asked" if real else not_run(BUCKET)
    for item in items:
        if Path(__file__).parent in item.path.parents and bool(item.get_closest_marker("real_hub")) != real:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="package", autouse=True)
def client_environment() -> Iterator[None]:
    """Folders and settings of the clients that run in this process.

    The clients' library has read some of its variables when it was imported: where the Hub is, a test says itself.
    """
    if os.environ.get(BUCKET):
        yield
        return
    with HubEmulator() as hub, pytest.MonkeyPatch.context() as patch:
        for name, value in hub.environment().items():
            if name not in {"HF_ENDPOINT", "HF_TOKEN"}:
                patch.setenv(name, value)
        disable_progress_bars()
        abort_xet_session()  # type: ignore[no-untyped-call] # one that was begun elsewhere has another environment
        yield
        abort_xet_session()  # type: ignore[no-untyped-call]


@pytest.fixture
def hub() -> Iterator[HubEmulator]:
    with HubEmulator() as running:
        running.create("alice/weights")
        yield running


@pytest.fixture
def alice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who may write to the emulator's first bucket."""
    monkeypatch.setenv("HF_TOKEN", "hf_alice")
