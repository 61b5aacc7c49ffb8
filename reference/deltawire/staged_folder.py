"""A folder that appears whole or not at all."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deltawire.errors import TargetMismatchError
from deltawire.store.posix_files import sync_folder


@contextmanager
def staged_folder(path: Path) -> Iterator[Path]:
    """A hidden folder beside ``path`` to fill; it becomes ``path`` when the block ends well, and is removed otherwise.

    Raises:
        TargetMismatchError: ``path`` is there already and is not an empty folder; nothing was touched.
    """
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise TargetMismatchError(f"{path} is already there; give a new or an empty directory")
    path = path.absolute()
    made = _make_parents(path.parent)
    staging = path.parent / f".{path.name}.{uuid.uuid4().hex[:12]}"
    staging.mkdir()
    try:
        yield staging
        staging.replace(path)  # an empty folder gives way to it
        sync_folder(path.parent)
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        for folder in made:
            folder.rmdir()
        raise


def _make_parents(folder: Path) -> list[Path]:
    """Make a folder and what is missing above it; those made, innermost first."""
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for new in reversed(missing):
        new.mkdir()
    return missing
