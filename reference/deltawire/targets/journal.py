"""The journal of a directory target: absolute changes, written before any of them is made."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from deltawire.errors import LimitExceededError
from deltawire.format.dtypes import Bits
from deltawire.store.posix_files import sync_folder, temporary
from deltawire.targets.base import Indices


@dataclass(frozen=True, kw_only=True)
class Journal:
    """One update of a directory."""

    changes: Sequence[tuple[str, Indices | slice, Bits]]
    """Tensor name, flat indices, new bits."""
    files: dict[str, bytes] = field(default_factory=dict)
    """Auxiliary files to write."""
    removed: Sequence[str] = ()
    """Auxiliary files to remove."""
    held: dict[str, object]
    """What the directory holds afterwards."""


def write_journal(journal: Journal, path: Path) -> None:
    """Make a journal appear at ``path``, whole and durable.

    Raises:
        LimitExceededError: it has more changes than a safetensors header can name.
    """
    tensors: dict[str, Bits] = {}
    ranges: list[list[Any]] = []
    for index, (name, where, bits) in enumerate(journal.changes):
        tensors[f"new.{index}"] = bits
        if isinstance(where, slice):
            ranges.append([name, where.start, where.stop])
        else:
            ranges.append([name])
            tensors[f"where.{index}"] = where
    for index, data in enumerate(journal.files.values()):
        tensors[f"file.{index}"] = np.frombuffer(data, np.uint8)
    members = {
        "changes": ranges,
        "files": list(journal.files),
        "removed": list(journal.removed),
        "held": journal.held,
    }
    try:
        data = save(tensors, {"journal": json.dumps(members)})
    except SafetensorError as error:
        raise LimitExceededError(f"{len(journal.changes):,} changes do not fit in a journal: {error}") from None
    with temporary(path.parent) as new:
        new.file.write(data)
        new.flush()
        new.path.replace(path)
    sync_folder(path.parent)


def read_journal(path: Path) -> Journal:
    """Read a journal that ``write_journal`` finished."""
    with safe_open(path, framework="numpy") as file:
        members = json.loads(file.metadata()["journal"])
        changes = []
        for index, (name, *bounds) in enumerate(members["changes"]):
            where = slice(*bounds) if bounds else file.get_tensor(f"where.{index}")
            changes.append((name, where, file.get_tensor(f"new.{index}")))
        files = {name: file.get_tensor(f"file.{index}").tobytes() for index, name in enumerate(members["files"])}
    return Journal(changes=changes, files=files, removed=members["removed"], held=members["held"])
