"""What a layout has to do to be measured."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt
import zstandard

Bits16 = npt.NDArray[np.uint16]
State = Mapping[str, Bits16]
"""Bit patterns of bf16 tensors by name, contiguous, in the tensors' shapes."""


class Peer(ABC):
    """A way to bring a state from one place to another that holds the state before it."""

    name: str
    own: bool = False
    """Whether it is one of Deltawire's."""
    sparse: bool = True
    """Whether its cost follows what changed, and bytes per changed element say something."""

    @abstractmethod
    def encode(self, old: State, new: State) -> bytes:
        """Everything that goes on the wire, records and headers included."""

    @abstractmethod
    def apply(self, payload: bytes, state: State) -> None:
        """Bring ``state``, which holds the old bits, to the new ones in place."""


def changed_tensors(old: State, new: State) -> Iterator[tuple[str, Bits16, Bits16, npt.NDArray[np.int64]]]:
    """Name, flat old bits, flat new bits and ascending changed positions of each tensor that changed."""
    for name, after in new.items():
        before, flat = old[name].reshape(-1), after.reshape(-1)
        positions = np.flatnonzero(before != flat)
        if positions.size:
            yield name, before, flat, positions


def compress(data: bytes | memoryview, level: int = 1) -> bytes:
    """One zstd frame; level 1 is what all of these systems chose."""
    return zstandard.ZstdCompressor(level=level).compress(data)


def decompress(frame: bytes | memoryview) -> bytes:
    return zstandard.ZstdDecompressor().decompress(frame)
