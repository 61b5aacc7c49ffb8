from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

from deltawire.errors import InvalidArgumentError, StoreUnfitError
from deltawire.store import FsspecStore, ReplaceIf, Store, open_store
from tests.store.contract import StoreContract
from tests.store.test_local import FolderOutside


class TestOnFolders(StoreContract):
    """fsspec's own local file system, reached by a scheme that has no binding of its own."""

    @pytest.fixture
    def root(self, tmp_path: Path) -> Path:
        return tmp_path / "root"

    @pytest.fixture
    def store(self, root: Path) -> Store:
        return open_store(f"local://{root}")

    @pytest.fixture
    def other(self, root: Path) -> Store:
        return open_store(f"local://{root}")

    @pytest.fixture
    def outside(self, root: Path) -> FolderOutside:
        return FolderOutside(root)


class MemoryFileSystemOutside:
    """fsspec's memory file system, used directly."""

    def __init__(self) -> None:
        self._fs = fsspec.filesystem("memory")

    def read(self, key: str) -> bytes:
        return bytes(self._fs.cat_file(f"/root/{key}"))

    def write(self, key: str, data: bytes) -> None:
        self._fs.pipe_file(f"/root/{key}", data)

    def keys(self) -> list[str]:
        return sorted(path.removeprefix("/root/") for path in self._fs.find("/root"))


class TestOnBufferedFiles(StoreContract):
    """fsspec's memory file system, whose scheme ``open_store`` gives to ``MemoryStore``."""

    hides_unfinished_streams = False  # it shows a file as soon as it is opened

    @pytest.fixture
    def store(self) -> Iterator[FsspecStore]:
        yield FsspecStore("memory://root")
        fsspec.filesystem("memory").store.clear()

    @pytest.fixture
    def other(self) -> FsspecStore:
        return FsspecStore("memory://root")

    @pytest.fixture
    def outside(self) -> MemoryFileSystemOutside:
        return MemoryFileSystemOutside()


def test_nothing_is_promised_to_several_writers(tmp_path: Path) -> None:
    store = open_store(f"local://{tmp_path}")
    assert isinstance(store, FsspecStore)
    assert not store.guarantees.conditional_create
    assert not store.guarantees.compare_and_swap
    token = store.put("x", b"1", mode="create")
    with pytest.raises(StoreUnfitError):
        store.put("x", b"2", mode=ReplaceIf(token))
    assert store.get("x", max_bytes=1).data == b"1"


def test_a_url_that_the_file_system_refuses() -> None:
    with pytest.raises(InvalidArgumentError):
        FsspecStore("nothing-knows-this://x")
