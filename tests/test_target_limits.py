"""What a target is asked for and what it finds on its disk is checked before it is believed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deltawire import Follower, Publisher
from deltawire.errors import TargetMismatchError, VersionNotFoundError
from deltawire.format.dtypes import Bits
from deltawire.store.memory import MemoryStore
from deltawire.targets.base import Indices
from deltawire.targets.directory import DirectoryTarget
from deltawire.targets.journal import Journal, read_journal, write_journal


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
    write_journal(Journal(changes=[("t", where, new)], held={}), tmp_path / ".deltawire" / "journal.arrow")
    with pytest.raises(TargetMismatchError, match="does not fit 't'"):
        DirectoryTarget(tmp_path)
    assert shard.read_bytes() == before


def test_a_journal_of_many_changes_comes_back(tmp_path: Path) -> None:
    """More rows than a header could name, ranges among them, over several batches."""
    rng = np.random.default_rng(0)
    changes: list[tuple[str, Indices | slice, Bits]] = [
        (f"t{k}", slice(k, k + 3) if k % 3 else np.array([k, k + 9, k + 2], np.uint32), bits)
        for k, bits in enumerate(rng.integers(0, 99, (20_000, 3), np.uint16))
    ]
    changes.append(("large", np.arange(3 << 20, dtype=np.uint64), np.zeros(3 << 20, np.uint8)))
    files = {"config.json": b"{}", "empty.txt": b""}
    journal = Journal(changes=changes, files=files, removed=["old.json"], held={"digest": "x"})
    write_journal(journal, tmp_path / "journal")
    found = read_journal(tmp_path / "journal")
    assert (found.files, list(found.removed), found.held) == (files, ["old.json"], {"digest": "x"})
    assert len(found.changes) == len(changes)
    for (name, where, new), (name_read, where_read, new_read) in zip(changes, found.changes, strict=True):
        assert name_read == name
        assert new_read.dtype == new.dtype
        assert np.array_equal(new_read, new)
        if isinstance(where, slice):
            assert where_read == where
        else:
            assert not isinstance(where_read, slice)
            assert np.array_equal(where_read, where)


def test_any_damage_to_a_journal_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    change = ("t", np.array([1, 5], np.uint32), np.array([7, 8], np.uint16))
    write_journal(Journal(changes=[change], files={"f": b"data"}, held={"digest": "x"}), path)
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        try:
            found = read_journal(path)
        except (ValueError, KeyError):
            continue
        [(name, where, new)] = found.changes  # it was padding
        assert name == "t"
        assert not isinstance(where, slice)
        assert np.array_equal(where, change[1])
        assert np.array_equal(new, change[2])
        assert (found.files, found.held) == ({"f": b"data"}, {"digest": "x"})
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match="journal"):
            read_journal(path)
