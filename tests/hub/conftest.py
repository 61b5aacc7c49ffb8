"""Real clients of the Hub in this process: an environment of their own, and nothing that outlives a module."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from huggingface_hub.utils._xet import abort_xet_session
from huggingface_hub.utils.tqdm import disable_progress_bars

from deltawire.store import hub_client, hub_xet
from deltawire.store.hub import HubStore
from tests.hub.emulator import HubEmulator
from tests.hub.places import EmulatedPlace
from tests.hub.real import BUCKET, not_run
from tests.hub.verbs import Pauses


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


@pytest.fixture(scope="module")
def running() -> Iterator[HubEmulator]:
    with HubEmulator() as hub:
        hub.create("alice/weights")
        yield hub


@pytest.fixture
def calm(running: HubEmulator) -> Iterator[HubEmulator]:
    """One emulator for all tests of a module, in which nothing goes wrong at first."""
    running.calm()
    running.log.clear()
    yield running
    running.calm()


@pytest.fixture
def place(hub: HubEmulator) -> EmulatedPlace:
    return EmulatedPlace(hub)


@pytest.fixture
def store(place: EmulatedPlace) -> HubStore:
    return HubStore(place.url)


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> Pauses:
    """Nothing waits before it asks again."""
    found = Pauses()
    monkeypatch.setattr(hub_client, "time", SimpleNamespace(sleep=found.sleep, monotonic=time.monotonic))
    monkeypatch.setitem(hub_xet._SETTINGS, "client.retry_base_delay", timedelta(milliseconds=1))
    return found
