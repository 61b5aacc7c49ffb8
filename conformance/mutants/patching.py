"""Ways to take things away."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any


class _Anything:
    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = None  # type: ignore[assignment]


ANYTHING: Any = _Anything()
"""Equal to everything: the digest that always fits."""


def replace(*targets: str, by: Any) -> Callable[[], None]:
    """A patch that puts something in the place of attributes, each given as ``package.module:name.name``."""

    def patch() -> None:
        for target in targets:
            module, _, path = target.partition(":")
            *parents, name = path.split(".")
            owner: Any = importlib.import_module(module)
            for parent in parents:
                owner = getattr(owner, parent)
            getattr(owner, name)  # a typing error must not make a mutant that breaks nothing
            setattr(owner, name, by)

    return patch


def skip(*targets: str) -> Callable[[], None]:
    """A patch that makes functions do nothing: checks that no longer check."""
    return replace(*targets, by=lambda *_, **__: None)
