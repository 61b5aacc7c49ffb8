"""A process that publishes is killed at every step of its writing; what is left is a stream like any other."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path

import pytest

from deltawire.format import keys
from deltawire.store.local import LocalStore
from deltawire.store.posix_files import TEMPORARY_PREFIX
from tests.faults.conftest import new_memory
from tests.faults.doomed import Nursery, acknowledged
from tests.faults.line import Reading, Trainer, check_line, script

pytestmark = pytest.mark.usefixtures("no_fsync")
VERSIONS = script()
STRIDE = 4


@cache
def state_digests() -> list[str]:
    """What the versions must be, from a line that nothing happened to."""
    memory = new_memory()
    Trainer(memory, VERSIONS).run()
    with Reading(memory) as reading:
        return [version.record.state_digest for version in reading.versions]


@pytest.mark.parametrize("first", range(1, STRIDE + 1))
def test_killed_at_each_step(doomed: Nursery, tmp_path: Path, first: int) -> None:
    kills, left_behind = 0, 0
    for kill_at in range(first, 10_000, STRIDE):
        folder = tmp_path / str(kill_at)
        folder.mkdir()
        killed = doomed.run("publish", folder, kill_at=kill_at)
        store = LocalStore(folder / "store")
        left_behind += any(folder.rglob(f"{TEMPORARY_PREFIX}*"))
        with Reading(store) as reading:
            reading.check()
            assert acknowledged(folder) < len(reading.versions)
        Trainer(store, VERSIONS).run()
        if kill_at % 3 == 0:
            assert check_line(store, VERSIONS) == len(VERSIONS)
        with Reading(store) as reading:
            reading.check()
            assert [version.record.state_digest for version in reading.versions] == state_digests()
        shutil.rmtree(folder)
        if not killed:
            break
        kills += 1
    assert kills > 20
    assert left_behind


def test_killed_again_and_again(doomed: Nursery, tmp_path: Path) -> None:
    """Each attempt lives a little longer, all on one stream."""
    store = LocalStore(tmp_path / "store")
    kill_at = 5
    before = 0
    while doomed.run("publish", tmp_path, kill_at=kill_at):
        kill_at += 3
        with Reading(store) as reading:
            reading.check()
            assert before <= len(reading.versions)
            assert acknowledged(tmp_path) < len(reading.versions)
            before = len(reading.versions)
    assert check_line(store, VERSIONS) == len(VERSIONS)
    assert any(tmp_path.rglob(f"{TEMPORARY_PREFIX}*"))
    assert all(not info.key.rpartition("/")[2].startswith(".") for info in store.list(""))
    assert len([*store.list(keys.VERSIONS)]) == len(VERSIONS)
