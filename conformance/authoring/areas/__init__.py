"""The cases, an area to a module; each has ``drafts()``."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

from authoring.drafts import Draft


def all_drafts() -> Iterator[Draft]:
    """Every case of every area."""
    for module in sorted(info.name for info in pkgutil.iter_modules(__path__)):
        yield from importlib.import_module(f"{__name__}.{module}").drafts()
