"""The cases, an area to a module; each has ``drafts()``."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

from msgspec import structs

from authoring.arbitration import needs_arbitration
from authoring.drafts import Draft


def all_drafts() -> Iterator[Draft]:
    """Every case of every area; those that need arbitration say so."""
    for module in sorted(info.name for info in pkgutil.iter_modules(__path__)):
        for draft in importlib.import_module(f"{__name__}.{module}").drafts():
            if draft.case.arbitration is None and needs_arbitration(draft.case):
                draft.case = structs.replace(draft.case, arbitration="needed")
            yield draft
