"""Temporary folders in memory, the order of tests, servers that live as long as the session, and their credentials."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from deltawire.store import S3Store
from tests.store import servers

MEMORY = Path("/dev/shm")
MEMORY_BYTES = 2 << 30
"""What must be free there; the tests use a fifth of it."""
_DISK = "DELTAWIRE_TESTS_DISK"


def pytest_configure() -> None:
    """Put temporary folders into memory, for child processes too.

    What stores and targets write they flush to the disk, file by file, and waiting for that was half of all the time.
    What is tested is that they do, not how long a disk takes. Who names a folder (TMPDIR) gets it.
    """
    os.environ.pop("HF_HUB_OFFLINE", None)  # read by clients of the Hub when imported, which are to reach an emulator
    if _DISK in os.environ:  # a worker of a session that has chosen
        return
    os.environ[_DISK] = tempfile.gettempdir()
    if "TMPDIR" not in os.environ and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free >= MEMORY_BYTES:
        os.environ["TMPDIR"] = str(MEMORY)
        tempfile.tempdir = None  # look again


@pytest.fixture
def on_disk() -> Iterator[Path]:
    """A temporary folder on a real disk, for what is about files themselves."""
    with tempfile.TemporaryDirectory(prefix="deltawire-tests-", dir=os.environ[_DISK]) as folder:
        yield Path(folder)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Begin with what takes longest, another worker each, so that no worker is left with it when the others are done.

    Each worker gets a share of the tests in their order, and takes from the others' when it is through (worksteal).
    """
    first = [item for item in items if item.get_closest_marker("lengthy")]
    others = iter([item for item in items if not item.get_closest_marker("lengthy")])
    workers = int(getattr(config, "workerinput", {}).get("workercount", 1))
    ordered: list[pytest.Item] = []
    for worker in range(workers):
        long = first[worker::workers]
        size = (len(items) - len(ordered)) // (workers - worker)
        ordered += [*long, *islice(others, max(0, size - len(long)))]
    assert len(ordered) == len(items)
    items[:] = ordered


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
