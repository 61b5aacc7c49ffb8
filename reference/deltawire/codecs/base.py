"""What a codec is: a way to write the changed elements of one box as named byte streams (SPEC.md section 9)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from deltawire.errors import MalformedRowError
from deltawire.format.dtypes import Bits, Dtype
from deltawire.kernels.scan import Changes

Positions = npt.NDArray[np.uint32]
"""Row-major positions within a box, ascending."""
Stream = npt.NDArray[np.uint8]
Streams = Mapping[str, Stream]


@dataclass(frozen=True, slots=True)
class Window:
    """The old bits of a box where they lie, to be read and not written, and what goes into their digest."""

    bits: Bits
    """All of the box, flat."""
    seed: int
    """Of the tensor."""
    first: int
    """Flat index in the tensor of the first of them."""


class Base(ABC):
    """The old bits of a box, for codecs that need them."""

    @abstractmethod
    def gather(self, positions: Positions | None) -> Bits:
        """Old bits at positions within the box, or of all of it."""

    @property
    def window(self) -> Window | None:
        """Where they lie, if that is end to end in the memory of this process."""
        return None


@dataclass(frozen=True, slots=True)
class Patch:
    """What a row means: absolute new bits, so that writing it twice does no harm."""

    positions: Positions | None
    """Covered positions within the box; None if that is every one."""
    bits: Bits
    """New bit patterns, one for each covered position."""
    old: Bits | None = None
    """The old ones, where the codec had to read them anyway."""
    digests: tuple[int, int] | None = None
    """Of the old bits and of the new ones, where the codec could sum them on the way."""


class BoxChange:
    """A box before and after, flat, fewer than 2^31 elements; it differs somewhere."""

    def __init__(self, old: Bits, new: Bits, changes: Changes) -> None:
        self._old, self._new = old, new
        self.changes = changes
        """Where it differs."""

    @property
    def elements(self) -> int:
        """Size of the box."""
        return self.new.size

    @property
    def old(self) -> Bits:
        """All old bits."""
        return self._old

    @property
    def new(self) -> Bits:
        """All new bits; only where enough changed for a codec that writes them all, they stay as they were compared."""
        return self._new


class LazyBoxChange(BoxChange):
    """A box of which nothing but its changes is at hand: all bits are made, or fetched, when a codec asks for them."""

    def __init__(self, changes: Changes, elements: int, *, old: Callable[[], Bits], new: Callable[[], Bits]) -> None:
        self.changes = changes
        self._elements = elements
        self._make_old, self._make_new = old, new

    @property
    def elements(self) -> int:
        return self._elements

    @cached_property
    def old(self) -> Bits:
        return self._make_old()

    @cached_property
    def new(self) -> Bits:
        return self._make_new()


class Codec(ABC):
    """One entry of the codec registry."""

    name: ClassVar[str]
    needs_base: ClassVar[bool]
    """Whether decoding needs the old bits; a stream with the feature ``absolute`` has no such rows."""
    needs_box: ClassVar[bool] = False
    """Whether encoding and decoding look at all old bits of the box, and not only at those of changed elements."""

    @abstractmethod
    def streams(self, dtype: Dtype) -> tuple[str, ...]:
        """Names of the streams a row of this dtype has, in their order."""

    @abstractmethod
    def encode(self, change: BoxChange, dtype: Dtype) -> dict[str, Stream]:
        """Write what happened to a box as the codec's streams."""

    @abstractmethod
    def decode(self, streams: Streams, dtype: Dtype, elements: int, changed: int, base: Base | None) -> Patch:
        """Read a row of a box of ``elements``.

        Raises:
            MalformedRowError: the streams are not what the codec's section of SPEC.md says.
        """


def plane_names(prefix: str, dtype: Dtype) -> tuple[str, ...]:
    """Names of the byte planes of a dtype, least significant first."""
    return _plane_names(prefix, dtype.width)


@cache
def _plane_names(prefix: str, width: int) -> tuple[str, ...]:
    # Asked for several times a row, and there are as many rows as tensors.
    return tuple(f"{prefix}_{plane}" for plane in range(width))


def join(streams: Streams, names: tuple[str, ...], length: int, codec: str) -> Stream:
    """Planes of equal ``length`` as one array of shape (planes, length).

    Raises:
        MalformedRowError: a plane has another length.
    """
    return np.stack(planes_of(streams, names, length, codec))


def planes_of(streams: Streams, names: tuple[str, ...], length: int, codec: str) -> tuple[Stream, ...]:
    """Planes of equal ``length``.

    Raises:
        MalformedRowError: a plane has another length.
    """
    for name in names:
        if len(streams[name]) != length:
            raise MalformedRowError(f"{codec}: stream {name} has {len(streams[name]):,} bytes, not {length:,}")
    return tuple(streams[name] for name in names)
