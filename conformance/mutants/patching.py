"""Ways to take things away."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any


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


def wrap(*targets: str, by: Callable[[Any], Any]) -> Callable[[], None]:
    """A patch that makes something else of attributes, given what they are."""

    def patch() -> None:
        for target in targets:
            module, _, path = target.partition(":")
            found: Any = importlib.import_module(module)
            for name in path.split("."):
                found = getattr(found, name)
            replace(target, by=by(found))()

    return patch


def both(*patches: Callable[[], object]) -> Callable[[], None]:
    """Several patches."""

    def patch() -> None:
        for one in patches:
            one()

    return patch


def skip(*targets: str) -> Callable[[], None]:
    """A patch that makes functions do nothing: checks that no longer check."""
    return replace(*targets, by=lambda *_, **__: None)
