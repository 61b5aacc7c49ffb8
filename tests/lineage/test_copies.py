"""``Store.copy_from``: who copies for whom, that a copy is an object of its own, and a fork on real servers."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deltawire import Follower, Publisher, check_origin, fork
from deltawire.errors import InvalidKeyError, ObjectNotFoundError, StoreUnavailableError
from deltawire.inspecting.verification import verify_stream
from deltawire.producer.anchors import NEVER
from deltawire.store import FsspecStore, LocalStore, MemoryStore, S3Store, Store
from deltawire.store.s3_client import S3Client, S3Failure
from deltawire.store.s3_upload import S3Upload
from tests.lineage.lines import contents, new_store
from tests.store.servers import S3Server

Pair = tuple[Store, Store]


def memory_pair(_: Path) -> Pair:
    return new_store(), new_store()


def local_pair(folder: Path) -> Pair:
    return LocalStore(folder / "a"), LocalStore(folder / "b" / "c")


@pytest.mark.parametrize("pair", [memory_pair, local_pair])
class TestCopies:
    def test_a_copy_is_whole_and_stands_alone(self, pair: Callable[[Path], Pair], tmp_path: Path) -> None:
        source, store = pair(tmp_path)
        source.put_stream("x/y", [b"abc", b"def"])
        assert store.copy_from(source, "x/y", "p/q/r")
        source.put("x/y", b"other", mode="overwrite")
        assert store.get("p/q/r", max_bytes=10).data == b"abcdef"
        source.delete("x/y")
        assert [(info.key, info.bytes) for info in store.list("")] == [("p/q/r", 6)]
        assert store.copy_from(store, "p/q/r", "again")
        store.delete("p/q/r")
        assert store.get("again", max_bytes=10).data == b"abcdef"

    def test_a_copy_replaces_what_was_there(self, pair: Callable[[Path], Pair], tmp_path: Path) -> None:
        source, store = pair(tmp_path)
        source.put("x", b"new", mode="create")
        store.put("x", b"older", mode="create")
        for _ in range(2):  # the second time it is a copy already
            assert store.copy_from(source, "x", "x")
            assert contents(store) == {"x": b"new"}
        assert store.copy_from(source, "x", "y")
        assert contents(store) == {"x": b"new", "y": b"new"}

    def test_what_cannot_be_copied(self, pair: Callable[[Path], Pair], tmp_path: Path) -> None:
        source, store = pair(tmp_path)
        source.put("x", b"new", mode="create")
        with pytest.raises(ObjectNotFoundError):
            store.copy_from(source, "y", "x")
        for keys in (("../x", "x"), ("x", "../x")):
            with pytest.raises(InvalidKeyError):
                store.copy_from(source, *keys)
        assert contents(store) == {}

    def test_from_another_kind_of_store(self, pair: Callable[[Path], Pair], tmp_path: Path) -> None:
        source, store = pair(tmp_path)
        source.put("x", b"new", mode="create")
        other = (
            MemoryStore(f"other-{uuid.uuid4().hex}") if isinstance(store, LocalStore) else LocalStore(tmp_path / "o")
        )
        assert not other.copy_from(source, "x", "x")
        assert not FsspecStore((tmp_path / "f").as_uri()).copy_from(source, "x", "x")
        assert contents(other) == {}


def test_files_are_linked(tmp_path: Path) -> None:
    source, store = local_pair(tmp_path)
    source.put("x", b"abc", mode="create")
    assert store.copy_from(source, "x", "y")
    assert (tmp_path / "a" / "x").stat().st_ino == (tmp_path / "b" / "c" / "y").stat().st_ino
    assert not list((tmp_path / "b" / "c").glob(".tmp*"))


def test_a_link_is_refused_behind_symbolic_links(tmp_path: Path) -> None:
    source, store = local_pair(tmp_path)
    (tmp_path / "secret").write_bytes(b"secret")
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x").symlink_to(tmp_path / "secret")
    with pytest.raises(InvalidKeyError):
        store.copy_from(source, "x", "x")


def test_no_links_mean_that_bytes_are_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, store = local_pair(tmp_path)
    line(source)
    links: list[Path] = []
    link = Path.hardlink_to

    def refuse(self: Path, target: Path) -> None:
        if self.name.startswith(".tmp"):  # creates give their temporary file a name; this is the other way round
            links.append(self)
            raise PermissionError(1, "Operation not permitted")
        link(self, target)

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    assert fork(source, store, version=0).how == "streamed"
    assert links
    assert not verify_stream(store, deep=True).findings


def line(store: Store) -> list[np.ndarray[Any, np.dtype[np.uint16]]]:
    states = [np.arange(1 << 20, dtype=np.uint16) + np.uint16(step) for step in range(2)]
    with Publisher(store, anchors=NEVER) as publisher:
        for state in states:
            publisher.publish({"a": state}, files={"config.json": b"{}"})
    return states


@pytest.mark.integration
class TestForksOnServers:
    @pytest.fixture(params=["moto_server", "seaweedfs_server"])
    def server(self, request: pytest.FixtureRequest) -> S3Server:
        server: S3Server = request.getfixturevalue(request.param)
        return server

    @pytest.fixture
    def pair(self, server: S3Server) -> Iterator[tuple[S3Store, S3Store]]:
        place = uuid.uuid4().hex
        stores = S3Store(server.url(f"{place}/source")), S3Store(server.url(f"{place}/fork"))
        yield stores
        for store in stores:
            store.close()

    def test_a_fork(self, pair: tuple[S3Store, S3Store], monkeypatch: pytest.MonkeyPatch) -> None:
        source, store = pair
        states = line(source)
        sent: list[str] = []
        monkeypatch.setattr(S3Store, "put_stream", lambda self, key, chunks: sent.append(key))
        done = fork(source, store, version=0)
        assert done.how == "copied"
        assert not sent
        origin = check_origin(store, source)
        assert "?" not in origin.url
        assert "127.0.0.1" not in origin.url
        with Follower(store) as follower:
            follower.poll()
            assert np.array_equal(follower.arrays["a"], states[0])
        assert not verify_stream(store, deep=True).findings

    @pytest.mark.parametrize("size", [0, 1, 5 << 20, (5 << 20) + 1, (15 << 20) + 17])
    def test_large_objects_are_copied_in_parts(self, pair: tuple[S3Store, S3Store], size: int) -> None:
        source, store = pair
        data = os.urandom(size)
        source.put_stream("big", [data])
        bucket, name = source._location.bucket, source._name("big")
        with S3Upload(store._client, store._name("copy")) as upload:
            upload.copy(bucket, name, size, copy_bytes=5 << 20)
        assert store.get("copy", max_bytes=size).data == data
        assert store.copy_from(source, "big", "other")
        source.delete("big")
        assert store.get("other", max_bytes=size).data == data

    def test_what_is_not_there(self, pair: tuple[S3Store, S3Store]) -> None:
        with pytest.raises(ObjectNotFoundError):
            pair[1].copy_from(pair[0], "nothing", "x")

    def test_another_user_or_server_is_no_place_to_copy_from(
        self, server: S3Server, pair: tuple[S3Store, S3Store]
    ) -> None:
        source, _ = pair
        source.put("x", b"1", mode="create")
        for url in (server.url("fork") + "&anon=true", "s3://streams/fork?endpoint_url=http://127.0.0.1:1"):
            assert not S3Store(url).copy_from(source, "x", "x")

    @pytest.mark.parametrize(("status", "copied"), [(403, False), (501, False), (400, False), (503, None)])
    def test_a_server_that_does_not_copy(
        self, pair: tuple[S3Store, S3Store], monkeypatch: pytest.MonkeyPatch, status: int, copied: bool | None
    ) -> None:
        source, store = pair
        states = line(source)
        call = S3Client.call

        def refuse(self: S3Client, method: str, **arguments: Any) -> dict[str, Any]:
            if "copy" not in method:
                return call(self, method, **arguments)
            error = OSError("no copies here")
            error.response = {"ResponseMetadata": {"HTTPStatusCode": status}, "Error": {"Code": "Refused"}}  # type: ignore[attr-defined]
            raise S3Failure(error)

        monkeypatch.setattr(S3Client, "call", refuse)
        monkeypatch.setattr("deltawire.store.s3_client.FIRST_PAUSE_SECONDS", 0.0)
        if copied is None:
            with pytest.raises(StoreUnavailableError):
                fork(source, store, version=0)
            return
        assert fork(source, store, version=0).how == "streamed"
        with Follower(store) as follower:
            follower.poll()
            assert np.array_equal(follower.arrays["a"], states[0])
