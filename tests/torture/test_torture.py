"""The short form of the torture test; ``python -m tests.torture --help`` has the long one."""

from __future__ import annotations

import shutil
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from tests.store.servers import S3Server

ROOT = Path(__file__).parents[2]


def torture(url: str, folder: Path, *, seed: int) -> None:
    command = [sys.executable, "-m", "tests.torture", url, "--seed", str(seed), "--folder", str(folder)]
    done = subprocess.run(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=1800, check=False
    )
    print(done.stdout)
    assert done.returncode == 0, "see the captured output"


@pytest.mark.lengthy
@pytest.mark.integration
def test_on_local_disk(on_disk: Path, tmp_path: Path) -> None:
    try:
        torture(str(on_disk / "stream"), on_disk / "torture", seed=1)
    except AssertionError:
        shutil.copytree(on_disk, tmp_path / "kept")
        raise


@pytest.mark.lengthy
@pytest.mark.integration
def test_on_a_real_s3_server(seaweedfs_server: S3Server, tmp_path: Path) -> None:
    torture(seaweedfs_server.url(f"torture-{uuid.uuid4().hex[:8]}/run"), tmp_path / "torture", seed=2)
