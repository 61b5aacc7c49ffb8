"""What a target is asked for and what it finds on its disk is checked before it is believed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deltawire import Follower, Publisher
from deltawire.errors import LimitExceededError, TargetMismatchError, VersionNotFoundError
from deltawire.store.memory import MemoryStore
from deltawire.targets.directory import DirectoryTarget
from deltawire.targets.journal import Journal, write_journal


@pytest.mark.parametrize("version", [-1, 2**53, 2**70])
def test_versions_that_cannot_be_are_not_found(version: int) -> None:
    store = MemoryStore(f"limits-{version}")
    with Publisher(store) as publisher:
        publisher.publish({"t": np.zeros(4, np.uint16)})
    with Follower(store) as follower, pytest.raises(VersionNotFoundError):
        follower.poll(to=version)


@pytest.mark.parametrize(
    ("where", "new"),
    [
        (np.array([4], np.uint32), np.ones(1, np.uint16)),
        (np.array([1 << 40], np.uint64), np.ones(1, np.uint16)),
        (np.array([-9], np.int64), np.ones(1, np.uint16)),
        (np.array([0, 1], np.uint32), np.ones(1, np.uint16)),
        (np.array([0], np.uint32), np.ones(1, np.uint32)),
        (slice(2, 5), np.ones(3, np.uint16)),
        (slice(0, 3), np.ones(1, np.uint16)),
        (slice(-2, 0), np.ones(2, np.uint16)),
    ],
)
def test_a_damaged_journal_writes_nothing(
    where: Any, new: np.ndarray[tuple[int], np.dtype[np.unsignedinteger]], tmp_path: Path
) -> None:
    store = MemoryStore(f"limits-{tmp_path.name}")
    with Publisher(store) as publisher:
        publisher.publish({"t": np.zeros(4, np.uint16)})
    with Follower(store, tmp_path) as follower:
        follower.poll()
    shard = tmp_path / "model-00001-of-00001.safetensors"
    before = shard.read_bytes()
    write_journal(Journal(changes=[("t", where, new)], held={}), tmp_path / ".deltawire" / "journal.safetensors")
    with pytest.raises(TargetMismatchError, match="does not fit 't'"):
        DirectoryTarget(tmp_path)
    assert shard.read_bytes() == before


def test_a_journal_of_too_many_changes_is_an_error_of_ours(tmp_path: Path) -> None:
    where, new = np.zeros(1, np.uint32), np.zeros(1, np.uint16)
    changes = [("x" * 500, where, new)] * 220_000
    with pytest.raises(LimitExceededError):
        write_journal(Journal(changes=changes, held={}), tmp_path / "journal")
    assert not list(tmp_path.iterdir())
