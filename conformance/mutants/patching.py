"""Ways to take things away."""

from __future__ import annotations

import importlib
import inspect
import textwrap
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


def skip(*targets: str) -> Callable[[], None]:
    """A patch that makes functions do nothing: checks that no longer check."""
    return replace(*targets, by=lambda *_, **__: None)


def edit(target: str, *changes: tuple[str, str], also: tuple[str, ...] = ()) -> Callable[[], None]:
    """A patch that writes a function anew, with other text in some places.

    Args:
        target: as in ``replace``.
        changes: what stands in the source exactly once, and what is put in its place.
        also: names of the same function in modules that have imported it.
    """

    def patch() -> None:
        module, _, path = target.partition(":")
        owner: Any = importlib.import_module(module)
        for name in path.split("."):
            owner = getattr(owner, name)
        source = textwrap.dedent(inspect.getsource(owner))
        for old, new in changes:
            assert source.count(old) == 1, (target, old)
            source = source.replace(old, new)
        made: dict[str, Any] = {}
        exec(f"from __future__ import annotations\n{source}", owner.__globals__, made)  # noqa: S102 - our own source
        replace(target, *also, by=made[owner.__name__])()

    return patch


def both(*patches: Callable[[], object]) -> Callable[[], None]:
    """Several patches that make one mutant."""

    def patch() -> None:
        for one in patches:
            one()

    return patch
