from __future__ import annotations

import errno
import fcntl
import json
import multiprocessing
import os
import stat
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import pytest

from deltawire.errors import (
    InvalidKeyError,
    ObjectExistsError,
    ObjectNotFoundError,
    PreconditionFailedError,
    StoreDeniedError,
    StoreError,
    StoreUnavailableError,
    StoreUnfitError,
)
from deltawire.store import LocalStore, ReplaceIf
from deltawire.store.local import MAX_SEGMENT_BYTES
from deltawire.store.posix_files import folder_lock
from tests.store.contract import ConditionalContract, count_up
from tests.store.many import at_once


class FolderOutside:
    """The files themselves."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def read(self, key: str) -> bytes:
        return (self._root / key).read_bytes()

    def write(self, key: str, data: bytes) -> None:
        path = self._root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def keys(self) -> list[str]:
        files = (path for path in self._root.rglob("*") if path.is_file() and path.name != ".lock")
        return sorted(path.relative_to(self._root).as_posix() for path in files)


@pytest.fixture
def tmp_path(on_disk: Path) -> Path:
    return on_disk


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "not" / "made yet"


@pytest.fixture
def store(root: Path) -> LocalStore:
    return LocalStore(root)


class TestLocalStore(ConditionalContract):
    rounds = 30

    @pytest.fixture
    def other(self, root: Path) -> LocalStore:
        return LocalStore(root)

    @pytest.fixture
    def outside(self, root: Path) -> FolderOutside:
        return FolderOutside(root)


def test_opening_makes_nothing(store: LocalStore, root: Path) -> None:
    assert list(store.list("")) == []
    store.delete("x")
    assert not root.exists()


def test_no_temporary_file_survives(store: LocalStore, root: Path) -> None:
    token = store.put("a/x", b"1", mode="create")
    with pytest.raises(ObjectExistsError):
        store.put("a/x", b"2", mode="create")
    store.put("a/x", b"2", mode=ReplaceIf(token))
    store.put_stream("a/y", [b"3"])
    assert sorted(path.name for path in (root / "a").iterdir()) == [".lock", "x", "y"]


def test_a_file_left_by_a_killed_writer_is_no_object(store: LocalStore, root: Path) -> None:
    store.put("a/x", b"1", mode="create")
    (root / "a" / ".tmp-0123").write_bytes(b"half")
    assert [info.key for info in store.list("")] == ["a/x"]
    with pytest.raises(InvalidKeyError):
        store.get("a/.tmp-0123", max_bytes=10)


def test_a_stream_in_progress_has_no_name(store: LocalStore, root: Path) -> None:
    names: list[list[str]] = []

    def chunks() -> Iterator[bytes]:
        yield b"x"
        names.append([path.name for path in root.iterdir()])

    store.put_stream("x", chunks())
    assert len(names[0]) == 1
    assert names[0][0].startswith(".tmp-")


def test_deletes_remove_empty_folders(store: LocalStore, root: Path) -> None:
    token = store.put("a/b/c/x", b"1", mode="create")
    store.put("a/b/c/x", b"2", mode=ReplaceIf(token))
    store.put("a/y", b"1", mode="create")
    store.delete("a/b/c/x")
    assert sorted(path.name for path in (root / "a").iterdir()) == ["y"]
    store.delete("a/y")
    assert list(root.iterdir()) == []


def test_writers_survive_deletes_in_the_same_folder(store: LocalStore) -> None:
    def work(number: int) -> None:
        for turn in range(40):
            token = store.put(f"a/b/{number}", str(turn).encode(), mode="create")
            store.put(f"a/b/{number}", b"again", mode=ReplaceIf(token))
            store.delete(f"a/b/{number}")

    at_once(8, work)
    assert list(store.list("")) == []


def test_files_are_readable_as_the_umask_says(store: LocalStore, root: Path) -> None:
    before = os.umask(0o027)
    try:
        store.put("x", b"1", mode="create")
    finally:
        os.umask(before)
    assert stat.S_IMODE((root / "x").stat().st_mode) == 0o640


def test_symbolic_links_are_refused(store: LocalStore, root: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "x").write_bytes(b"secret")
    store.put("inside", b"1", mode="create")
    (root / "file").symlink_to(secret / "x")
    (root / "folder").symlink_to(secret)
    (root / "alias").symlink_to(root / "inside")
    for key in ("file", "folder/x", "alias"):
        with pytest.raises(InvalidKeyError):
            store.get(key, max_bytes=100)
        with pytest.raises(InvalidKeyError):
            store.put(key, b"2", mode="overwrite")
        with pytest.raises(InvalidKeyError):
            store.delete(key)
    assert [info.key for info in store.list("")] == ["inside"]
    assert list(store.list("folder/")) == []
    assert (secret / "x").read_bytes() == b"secret"


def test_the_root_itself_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    LocalStore(tmp_path / "link").put("x", b"1", mode="create")
    assert LocalStore(tmp_path / "real").get("x", max_bytes=1).data == b"1"


def test_a_key_must_not_continue_another(store: LocalStore) -> None:
    store.put("a/b", b"1", mode="create")
    for key in ("a", "a/b/c"):
        with pytest.raises(InvalidKeyError):
            store.put(key, b"2", mode="create")
        with pytest.raises(InvalidKeyError):
            store.put(key, b"2", mode="overwrite")
        with pytest.raises(InvalidKeyError):
            store.put_stream(key, [b"2"])
        store.delete(key)
    assert [info.key for info in store.list("")] == ["a/b"]


def test_what_is_no_file_is_no_object(store: LocalStore, root: Path) -> None:
    """STO-15, STO-9: a pipe that nobody writes to must not be waited for."""
    store.put("folder/x", b"1", mode="create")
    os.mkfifo(root / "pipe")
    for key in ("folder", "pipe", "folder/x/y"):
        for read in (
            lambda key=key: store.get(key, max_bytes=10),
            lambda key=key: store.get_range(key, 0, 1),
            lambda key=key: store.head(key),
        ):
            with pytest.raises(ObjectNotFoundError):
                read()
        with pytest.raises(InvalidKeyError):
            store.put(key, b"1", mode="create")
    assert [info.key for info in store.list("")] == ["folder/x"]


def test_another_implementation_can_exclude_us(store: LocalStore, root: Path) -> None:
    """STO-14: an exclusive flock on ``.lock`` in the folder, made by whoever comes first, keeps all others out."""
    token = store.put("folder/x", b"1", mode="create")
    with (root / "folder" / ".lock").open("xb") as lock, ThreadPoolExecutor(3) as pool:
        fcntl.flock(lock, fcntl.LOCK_EX)
        swap = pool.submit(store.put, "folder/x", b"2", mode=ReplaceIf(token))
        done, _ = wait([swap], timeout=0.2)
        assert not done
        assert store.get("folder/x", max_bytes=1).data == b"1"
        (root / "folder" / "x").write_bytes(b"3")
        fcntl.flock(lock, fcntl.LOCK_UN)
        with pytest.raises(PreconditionFailedError):
            swap.result()


def test_a_segment_must_fit_a_file_name(store: LocalStore) -> None:
    store.put("s" * MAX_SEGMENT_BYTES, b"1", mode="create")
    with pytest.raises(InvalidKeyError):
        store.put("s" * (MAX_SEGMENT_BYTES + 1), b"1", mode="create")


@pytest.mark.parametrize(
    ("number", "error"),
    [
        (errno.ENOSPC, StoreUnavailableError),
        (errno.EIO, StoreUnavailableError),
        (errno.EROFS, StoreDeniedError),
    ],
)
def test_a_write_that_does_not_reach_the_disk_is_invisible(
    store: LocalStore, root: Path, monkeypatch: pytest.MonkeyPatch, number: int, error: type[StoreError]
) -> None:
    store.put("x", b"old", mode="create")

    def fail(descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(error):
        store.put("x", b"new", mode="overwrite")
    with pytest.raises(error):
        store.put_stream("y", [b"new"])
    assert store.get("x", max_bytes=3).data == b"old"
    with pytest.raises(ObjectNotFoundError):
        store.get("y", max_bytes=3)
    assert [path.name for path in root.iterdir()] == ["x"]


def test_a_file_system_without_hard_links_is_unfit(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Path, target: Path) -> None:
        raise PermissionError(errno.EPERM, "no hard links here")

    monkeypatch.setattr(Path, "hardlink_to", fail)
    with pytest.raises(StoreUnfitError):
        store.put("x", b"1", mode="create")


def test_a_file_system_without_locks_is_unfit(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    token = store.put("x", b"1", mode="create")

    def fail(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "no locks here")

    monkeypatch.setattr(fcntl, "flock", fail)
    with pytest.raises(StoreUnfitError):
        store.put("x", b"2", mode=ReplaceIf(token))
    assert store.get("x", max_bytes=1).data == b"1"


def test_a_lock_that_was_removed_meanwhile_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever empties a folder removes its lock, perhaps between another's open and flock."""
    real, path = fcntl.flock, tmp_path / ".lock"

    def removed_once(descriptor: int, operation: int) -> None:
        monkeypatch.setattr(fcntl, "flock", real)
        path.unlink()
        real(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", removed_once)
    with folder_lock(tmp_path), path.open("rb") as lock, pytest.raises(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_link_whose_answer_was_lost_counts(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Path.hardlink_to

    def answer_lost(self: Path, target: Path) -> None:
        real(self, target)
        raise FileExistsError(errno.EEXIST, "repeated by the file system")

    monkeypatch.setattr(Path, "hardlink_to", answer_lost)
    store.put("x", b"1", mode="create")
    assert store.get("x", max_bytes=1).data == b"1"


def _create_in_process(root: str, number: int) -> list[int]:
    store, won = LocalStore(root), []
    for turn in range(100):
        try:
            store.put(f"race/{turn}", str(number).encode(), mode="create")
        except ObjectExistsError:
            continue
        won.append(turn)
    return won


def _count_in_process(root: str, number: int) -> None:
    count_up(LocalStore(root), "counter", 40)


def _in_processes(function: Any, root: Path) -> list[Any]:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(4, mp_context=context) as processes:
        return list(processes.map(function, [str(root)] * 4, range(4)))


def test_processes_race_to_create(store: LocalStore, root: Path) -> None:
    won = _in_processes(_create_in_process, root)
    assert sorted(turn for turns in won for turn in turns) == list(range(100))
    for number, turns in enumerate(won):
        assert all(store.get(f"race/{turn}", max_bytes=1).data == str(number).encode() for turn in turns)


def test_processes_lose_no_update(store: LocalStore, root: Path) -> None:
    store.put("counter", b'{"value": 0}', mode="create")
    _in_processes(_count_in_process, root)
    assert json.loads(store.get("counter", max_bytes=200).data)["value"] == 160
