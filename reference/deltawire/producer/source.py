"""What a publisher needs of a model state, wherever it is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping
from typing import TypeVar

from deltawire.format.dtypes import Bits
from deltawire.format.records import RollbackOf
from deltawire.producer.comparing import SourceArray, SourceTensor

T = TypeVar("T")

TensorEntry = tuple[str, str, tuple[int, ...]]
"""Name, dtype name and logical shape of a tensor."""


class Source(ABC):
    """A model state as names, dtypes, shapes and bits; bits are made for one tensor at a time."""

    entries: tuple[TensorEntry, ...]
    aliases: dict[str, str]
    """Second names of tensors in ``entries``."""
    rollback_of: RollbackOf | None = None
    """The earlier version of the same stream that this state is, if publishing it is a rollback."""

    @abstractmethod
    def bits(self, name: str) -> Bits:
        """Flat bit patterns of a tensor on the CPU, valid until the caller's state changes."""

    def tensor(self, name: str) -> SourceTensor:
        """A tensor where it is; other threads may read it then, once ``settle`` was called in the caller's."""
        return SourceArray(self.bits(name))

    def settle(self) -> None:  # noqa: B027 - memory of the CPU is settled
        """Wait for what the calling thread has asked to be done to the state, and which may not be done yet."""


def find_aliases(tensors: Mapping[str, T], place: Callable[[T], Hashable]) -> dict[str, str]:
    """Names of tensors that are another one's memory, and whose (TAB-4).

    Args:
        tensors: by name.
        place: what two tensors have in common only if they are the same memory read in the same way; None for a tensor
            without elements, which is nobody's alias.
    """
    first: dict[Hashable, str] = {}
    aliases = {}
    for name, tensor in tensors.items():
        own = place(tensor)
        if own is not None and first.setdefault(own, name) != name:
            aliases[name] = first[own]
    return aliases
