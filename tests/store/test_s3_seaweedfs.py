from __future__ import annotations

import pytest

from deltawire.errors import StoreDeniedError
from deltawire.store import S3Store
from tests.store.s3_contract import S3Contract
from tests.store.servers import S3Server


@pytest.mark.integration
class TestS3OnSeaweedFS(S3Contract):
    racers = 4  # contenders poll for a lock, so a race takes seconds
    rounds = 3
    counters = 3
    counts = 5

    @pytest.fixture(scope="class")
    @classmethod
    def server(cls, seaweedfs_server: S3Server) -> S3Server:
        return seaweedfs_server


@pytest.mark.integration
def test_wrong_credentials_are_denied(seaweedfs_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    store = S3Store(seaweedfs_server.url("x"))
    with pytest.raises(StoreDeniedError):
        store.get("x", max_bytes=1)
    with pytest.raises(StoreDeniedError):
        store.put("x", b"1", mode="create")
    with pytest.raises(StoreDeniedError):
        list(store.list(""))


@pytest.mark.integration
def test_missing_credentials_are_denied(seaweedfs_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    store = S3Store(seaweedfs_server.url("x"))
    with pytest.raises(StoreDeniedError):
        store.get("x", max_bytes=1)
