"""Which tensors a consumer wants (SPEC.md section 11.6, FOL-6)."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from deltawire.errors import InvalidArgumentError
from deltawire.format.tensors import Tensor, TensorTable


def select(table: TensorTable, patterns: Sequence[str] | None) -> list[Tensor]:
    """The tensors that names or glob patterns stand for, in table order; all of them for None. FOL-6

    An alias stands for its tensor, and a name for its tensor alone, even where it is a pattern too.

    Raises:
        InvalidArgumentError: a pattern fits no name.
    """
    if patterns is None:
        return list(table.tensors)
    every = table.by_name.keys() | table.aliases.keys()
    names = {table.aliases.get(name, name) for pattern in patterns for name in _matching(pattern, every)}
    return [tensor for tensor in table.tensors if tensor.name in names]


def _matching(pattern: str, names: AbstractSet[str]) -> list[str]:
    if pattern in names:  # of many names, each is found without a look at all others
        return [pattern]
    found = [name for name in names if fnmatch.fnmatchcase(name, pattern)]
    if not found:
        raise InvalidArgumentError(f"no tensor has a name like {pattern!r}")
    return found
