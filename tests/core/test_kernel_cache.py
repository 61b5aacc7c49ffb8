"""Kernels where the package is installed read-only and the user has no home: a container, often enough."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import deltawire

SCRIPT = """
import numpy as np
from deltawire.kernels.gaps import _encode, encode_gaps
print(encode_gaps(np.array([0, 300], np.uint32), 400).tolist(), sum(_encode.stats.cache_hits.values()))
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package in which nothing can be cached; files stand in the way, as root may write anywhere."""
    copy = tmp_path / "site" / "deltawire"
    shutil.copytree(Path(deltawire.__file__).parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "kernels" / "__pycache__").write_bytes(b"")
    (tmp_path / "tmp").mkdir()
    return copy.parent


def run(package: Path, **more: str) -> str:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "XDG_", "PYTHON"))}
    environment = {"PYTHONPATH": str(package), "HOME": os.devnull, "TMPDIR": str(package.parent / "tmp")}
    command = [sys.executable, "-B", "-c", SCRIPT]
    done = subprocess.run(command, env=kept | environment | more, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_kernels_are_kept_in_a_temporary_folder_if_there_is_no_other_place(package: Path) -> None:
    assert run(package) == "[0, 255, 44] 0"
    assert run(package) == "[0, 255, 44] 1"
    [folder] = (package.parent / "tmp").iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert [*folder.rglob("*.nbc")]


def test_a_folder_that_others_can_write_to_is_not_used(package: Path) -> None:
    folder = package.parent / "tmp" / f"deltawire-kernels-{os.getuid()}"
    folder.mkdir()
    folder.chmod(0o777)
    assert run(package) == "[0, 255, 44] 0"
    assert [*folder.parent.rglob("*")] == [folder]  # the other one is gone with its process


def test_the_folder_that_numba_is_told_comes_first(package: Path, tmp_path: Path) -> None:
    assert run(package, NUMBA_CACHE_DIR=str(tmp_path / "cache")) == "[0, 255, 44] 0"
    assert [*(tmp_path / "cache").rglob("*.nbc")]
    assert not [*(package.parent / "tmp").iterdir()]
