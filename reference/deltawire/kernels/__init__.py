"""Compiled loops over bit patterns. ``oracle`` holds the same functions in plain NumPy; the tests keep them equal.

Kernels check nothing: sizes and bounds are the caller's. They release the GIL. What was compiled is kept on the disk:
where ``NUMBA_CACHE_DIR`` says, else beside the sources, else in the user's cache, else in a temporary folder.
"""

from __future__ import annotations

import atexit
import os
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from numba import config, njit


def _find_room() -> None:
    """Give numba a place for its cache where it finds none, as it refuses to define a kernel that it cannot keep.

    So it is in a container whose user may write neither to the installed package nor to a home.
    """
    try:
        njit(cache=True)(_nothing)
    except RuntimeError:
        with suppress(FileNotFoundError):  # no temporary folder either: numba says what it misses
            config.CACHE_DIR = str(_own_folder())  # type: ignore[attr-defined]


def _nothing() -> None:
    """Never compiled."""


def _own_folder() -> Path:
    """A folder that nobody else can write to, since what numba finds there is run; the same one each time, if it is."""
    folder = Path(tempfile.gettempdir()) / f"deltawire-kernels-{os.getuid()}"
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022:
        return folder
    once = tempfile.mkdtemp(prefix="deltawire-kernels-")
    atexit.register(shutil.rmtree, once, ignore_errors=True)
    return Path(once)


_find_room()
