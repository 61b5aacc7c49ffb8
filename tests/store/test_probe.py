from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from deltawire.errors import InvalidArgumentError, StoreUnavailableError
from deltawire.store import Bytes, MemoryStore, ObjectInfo, ProbeReport, PutMode, open_store
from deltawire.store.base import StoredObject
from deltawire.store.probe import probe
from tests.store.servers import S3Server


def failures(report: ProbeReport) -> set[str]:
    return {result.name for result in report.results if not result.passed}


CONDITIONS = {"exclusive create", "create race", "swap conditions", "swap counter"}


@pytest.fixture
def memory() -> MemoryStore:
    return MemoryStore(uuid.uuid4().hex)


def test_memory_is_fit(memory: MemoryStore) -> None:
    memory.put("mine", b"1", mode="create")
    report = probe(memory)
    assert failures(report) == set()
    assert report.fit == "many-writers"
    assert report.url == memory.url
    assert [info.key for info in memory.list("")] == ["mine"]


def test_a_folder_is_fit(tmp_path: Path) -> None:
    report = probe(open_store(tmp_path / "store"))
    assert failures(report) == set()
    assert report.fit == "many-writers"
    assert list((tmp_path / "store").iterdir()) == []


def test_other_file_systems_are_for_one_writer(tmp_path: Path) -> None:
    report = probe(open_store(f"local://{tmp_path}"))
    assert failures(report) >= CONDITIONS
    assert report.fit == "single-writer"


def test_s3_on_moto_is_fit(moto_server: S3Server) -> None:
    report = probe(open_store(moto_server.url("probed")))
    assert failures(report) == set()
    assert report.fit == "many-writers"


@pytest.mark.integration
def test_s3_on_seaweedfs_is_fit(seaweedfs_server: S3Server) -> None:
    report = probe(open_store(seaweedfs_server.url("probed")), writers=4, rounds=2, swaps=3)
    assert failures(report) == set()
    assert report.fit == "many-writers"


@pytest.mark.integration
def test_a_server_that_ignores_conditions_is_found_out(rclone_server: S3Server) -> None:
    report = probe(open_store(rclone_server.url("probed")))
    assert failures(report) >= CONDITIONS - {"swap counter"}  # which may be lucky
    assert report.fit == "single-writer"


def test_a_store_out_of_reach_is_not_judged(moto_server: S3Server) -> None:
    with pytest.raises(StoreUnavailableError):
        probe(open_store(moto_server.url("probed", bucket="no-such-bucket")))


@pytest.mark.parametrize("wrong", [{"writers": 1}, {"rounds": 0}, {"swaps": 0}, {"seconds": 0.0}])
def test_numbers_that_make_no_sense_are_refused(memory: MemoryStore, wrong: dict[str, int]) -> None:
    with pytest.raises(InvalidArgumentError):
        probe(memory, **wrong)


class Broken(MemoryStore):
    """A store with one promise broken, for each way that a probe must notice."""

    def __init__(self, how: str) -> None:
        super().__init__(uuid.uuid4().hex)
        self._how = how
        self._first_list: dict[str, list[ObjectInfo]] = {}
        self._first_read: dict[str, StoredObject] = {}

    def get(self, key: str, *, max_bytes: int) -> StoredObject:
        found = super().get(key, max_bytes=1 << 30 if self._how == "unbounded" else max_bytes)
        return self._first_read.setdefault(key, found) if self._how == "stale reads" else found

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        found = list(super().list(prefix))
        if self._how == "stale lists":
            found = self._first_list.setdefault(prefix, found)
        return iter(found[::-1] if self._how == "unordered lists" else found)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        if self._how == "short ranges":
            return super().get(key, max_bytes=1 << 30).data[start : start + length]
        return super().get_range(key, start, length)

    def put(self, key: str, data: Bytes, *, mode: PutMode) -> str:
        if self._how == "folded case":
            key = key.lower()
        if self._how == "ignores swap":
            time.sleep(0.005)  # lets the writers overlap
        ignored = "ignores create" if mode == "create" else "ignores swap"
        return super().put(key, data, mode="overwrite" if self._how == ignored else mode)

    def put_stream(self, key: str, chunks: Iterable[Bytes]) -> int:
        if self._how != "half streams":
            return super().put_stream(key, chunks)
        content = b""
        try:
            for chunk in chunks:
                content += bytes(chunk)
        finally:
            super().put(key, content, mode="overwrite")
        return len(content)

    def delete(self, key: str) -> None:
        if self._how != "keeps all":
            super().delete(key)


@pytest.mark.parametrize(
    ("how", "check", "fit"),
    [
        ("stale reads", "overwrite after read", "unfit"),
        ("unbounded", "read after write", "unfit"),
        ("stale lists", "list after write", "unfit"),
        ("unordered lists", "list after write", "unfit"),
        ("short ranges", "exact ranges", "unfit"),
        ("folded case", "keys", "unfit"),
        ("half streams", "failed streams are invisible", "unfit"),
        ("keeps all", "delete", "unfit"),
        ("ignores create", "exclusive create", "single-writer"),
        ("ignores create", "create race", "single-writer"),
        ("ignores swap", "swap conditions", "single-writer"),
        ("ignores swap", "swap counter", "single-writer"),
    ],
)
def test_every_broken_promise_is_noticed(how: str, check: str, fit: str) -> None:
    report = probe(Broken(how))
    assert check in failures(report)
    assert report.fit == fit
