"""Figures on disk: what was measured, on which machine, and the plots of it."""

import json
import os
import platform
import re
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypedDict

from benchmarks.model import Figure

NAME = "results.json"
_LIBRARIES = ("numba", "numpy", "pyarrow")


class Run(TypedDict):
    """What one benchmark found."""

    machine: str
    figures: list[Figure]


Results = dict[str, Run]
"""By the benchmark's name."""


def machine() -> str:
    """What the figures of this process were measured on."""
    libraries = ", ".join(f"{name} {version(name)}" for name in _LIBRARIES)
    return f"{_processor()}, {os.cpu_count()} cores; Python {platform.python_version()}, {libraries}"


def read(folder: Path) -> Results:
    """What a folder of results holds; nothing if it is new."""
    path = folder / NAME
    found: Results = json.loads(path.read_text()) if path.exists() else {}
    return found


def write(folder: Path, results: Results) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / NAME).write_text(json.dumps(results, indent=1) + "\n")


def data_of(results: Results, benchmark: str) -> Iterator[Mapping[str, Any]]:
    """The numbers of a benchmark's figures; none if it did not run."""
    if benchmark in results:
        yield from (figure["data"] for figure in results[benchmark]["figures"] if "data" in figure)


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    found = re.search(r"^model name\s*:\s*(.+)$", info.read_text(), re.MULTILINE) if info.exists() else None
    return found[1] if found else platform.processor() or platform.machine()
