"""The reference implementation, broken on purpose: what shows that cases can fail.

``python -m mutants NAME ARGUMENTS...`` is an adapter (ADAPTER.md) of the reference with one thing taken away. Each
module of ``breaks`` holds the mutants of an area.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass

from mutants import breaks


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One way to be wrong."""

    name: str
    what: str
    """What is broken, in a sentence without an end."""
    patch: Callable[[], object]
    """Breaks the reference within this process."""
    caught_by: tuple[str, ...]
    """Cases that fail then, each for this reason; all others may pass or fail."""


def all_mutants() -> dict[str, Mutant]:
    """Mutants by name."""
    found: dict[str, Mutant] = {}
    for module in sorted(info.name for info in pkgutil.iter_modules(breaks.__path__)):
        for mutant in importlib.import_module(f"{breaks.__name__}.{module}").MUTANTS:
            assert mutant.name not in found
            found[mutant.name] = mutant
    return found
