"""Servers that live as long as the test session, and the credentials for them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from deltawire.store import S3Store
from tests.store import servers


@pytest.fixture(scope="session")
def s3_credentials() -> Iterator[None]:
    """Give the S3 client the tests' credentials and nothing of this machine's own settings."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", servers.ACCESS_KEY)
        patch.setenv("AWS_SECRET_ACCESS_KEY", servers.SECRET_KEY)
        patch.setenv("AWS_CONFIG_FILE", "/dev/null")
        patch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        for name in (
            "AWS_SESSION_TOKEN",
            "AWS_PROFILE",
            "AWS_REGION",
            "AWS_DEFAULT_REGION",
            "AWS_ENDPOINT_URL",
            "AWS_ENDPOINT_URL_S3",
        ):
            patch.delenv(name, raising=False)
        yield


@pytest.fixture(scope="session")
def moto_server(s3_credentials: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.S3Server]:
    with servers.moto(tmp_path_factory.mktemp("moto")) as server:
        yield server


@pytest.fixture(scope="session")
def seaweedfs_server(s3_credentials: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.S3Server]:
    with servers.seaweedfs(tmp_path_factory.mktemp("seaweedfs")) as server:
        # It answers before its bucket is there; a put is what makes one.
        S3Store(server.url("ready")).put("ready", b"1", mode="overwrite")
        yield server


@pytest.fixture(scope="session")
def rclone_server(s3_credentials: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.S3Server]:
    with servers.rclone(tmp_path_factory.mktemp("rclone")) as server:
        yield server
