"""Where a torture test happens: the stream, a folder of journals and orders, and how long things last."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LEASE_TTL = 1.5
PIN_TTL = 2.5
STALL = (1.3 * LEASE_TTL, 2.5 * LEASE_TTL)
"""Seconds for which a process is stopped: always longer than a lease lasts."""
KEEP_LAST = 8

WRITERS = tuple(f"writer-{number}" for number in range(4))
FOLLOWERS = ("memory-0", "memory-1", "directory-0", "directory-1")
MAINTAINER = "maintainer"
CAST = (*WRITERS, *FOLLOWERS, MAINTAINER)

Entry = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What every process is told."""

    url: str
    folder: Path
    seed: int

    def journal(self, who: str) -> Path:
        return self.folder / f"{who}.jsonl"

    def output(self, who: str) -> Path:
        return self.folder / f"{who}.log"

    def target(self, who: str) -> Path:
        return self.folder / "targets" / who

    def order(self, what: str) -> None:
        """Tell everybody; by a file, as whoever holds a lock may be killed."""
        (self.folder / f"order-{what}").touch()

    def ordered(self, what: str) -> bool:
        return (self.folder / f"order-{what}").exists()

    def entries(self, *names: str) -> Iterator[Entry]:
        """What processes have noted, each in its order."""
        for who in names:
            path = self.journal(who)
            lines = path.read_text().splitlines() if path.exists() else []
            yield from ({**json.loads(line), "who": who} for line in lines)


class Journal:
    """What a process notes, a line each, before it goes on; what was noted survives SIGKILL."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def note(self, event: str, **facts: object) -> None:
        line = json.dumps({"event": event, **facts}).encode() + b"\n"
        assert os.write(self._descriptor, line) == len(line)
