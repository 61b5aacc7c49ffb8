"""The tensor table: names, dtypes and shapes of a state, shared by the versions after it (SPEC.md 8.3)."""

from __future__ import annotations

import hashlib
import math
import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from deltawire.errors import DeltawireError, InvalidStateError, MalformedRecordError
from deltawire.format import features, strict_json
from deltawire.format.boxes import Box, Shapes
from deltawire.format.dtypes import Dtype, dtype_of, storage_shape
from deltawire.format.keys import MAX_VERSION
from deltawire.format.records import JSON_TYPE, Descriptor, ProtocolVersion, Record
from deltawire.limits import Limits

# Controls, line and paragraph separators, and what turns the direction of text: a fixed list, because what counts as
# printable changes with each version of Unicode. TAB-3
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")

Extent = Annotated[int, Meta(ge=0, le=MAX_VERSION)]


class TensorEntry(Record, frozen=True, kw_only=True):
    """One tensor: its ordinal is its place in the table."""

    name: Annotated[str, Meta(min_length=1)]
    dtype: str
    shape: tuple[Extent, ...]


class Alias(Record, frozen=True, kw_only=True):
    """A second name of a tensor, such as a tied output embedding (TAB-4)."""

    name: Annotated[str, Meta(min_length=1)]
    target: Annotated[str, Meta(min_length=1)]


class TableRecord(Record, frozen=True, kw_only=True):
    """The stored table; it has no commit data, so that equal tables have equal bytes (TAB-1)."""

    protocol: str
    protocol_version: ProtocolVersion
    kind: Literal["tensor_table"]
    tensors: tuple[TensorEntry, ...]
    aliases: tuple[Alias, ...] = ()


@dataclass(frozen=True)
class Tensor:
    """A tensor of a state, checked."""

    ordinal: int
    name: str
    dtype: Dtype
    shape: tuple[int, ...]
    storage_shape: tuple[int, ...] = field(repr=False)
    """Shape in stored elements; see ``dtypes.storage_shape``."""
    elements: int = field(init=False, repr=False, compare=False)
    """Number of stored elements."""
    bytes: int = field(init=False, repr=False, compare=False)
    """Size of the tensor's data."""

    def __post_init__(self) -> None:
        # Not cached properties: those take a lock each, and there are as many as tensors.
        elements = math.prod(self.storage_shape)
        object.__setattr__(self, "elements", elements)
        object.__setattr__(self, "bytes", elements * self.dtype.width)

    @cached_property
    def whole(self) -> Box:
        """The box that is all of the tensor."""
        return Box((0,) * len(self.storage_shape), self.storage_shape)

    @cached_property
    def seed(self) -> int:
        """The 64-bit seed of this tensor's share of the state digest (DIG-1)."""
        return digest_seed(self.name, self.dtype.name, self.shape)


def digest_seed(name: str, dtype: str, shape: tuple[int, ...]) -> int:
    """First 8 bytes, little-endian, of sha256 over name, 0, dtype, 0 and each extent as u64 little-endian (DIG-1)."""
    extents = struct.pack(f"<{len(shape)}Q", *shape)
    encoded = name.encode() + b"\0" + dtype.encode() + b"\0" + extents
    return int.from_bytes(hashlib.sha256(encoded).digest()[:8], "little")


@dataclass(frozen=True)
class TensorTable:
    """The checked table together with its exact bytes."""

    tensors: tuple[Tensor, ...]
    aliases: dict[str, str]
    """Alias name to the name of the tensor it stands for."""
    data: bytes = field(repr=False)
    """The stored JSON."""

    @cached_property
    def by_name(self) -> dict[str, Tensor]:
        """Tensors by their own name; aliases are not in it."""
        return {tensor.name: tensor for tensor in self.tensors}

    @cached_property
    def entries(self) -> tuple[tuple[str, str, tuple[int, ...]], ...]:
        """Name, dtype name and logical shape of each tensor."""
        return tuple((tensor.name, tensor.dtype.name, tensor.shape) for tensor in self.tensors)

    @cached_property
    def shapes(self) -> Shapes:
        """Storage shapes of all tensors."""
        return Shapes([tensor.storage_shape for tensor in self.tensors])

    @cached_property
    def dtype_numbers(self) -> tuple[tuple[Dtype, ...], npt.NDArray[np.uint8]]:
        """The dtypes that there are, and for each tensor which of them it has."""
        found: dict[str, int] = {}
        numbers = [found.setdefault(tensor.dtype.name, len(found)) for tensor in self.tensors]
        return tuple(dtype_of(name) for name in found), np.array(numbers, np.uint8)

    @cached_property
    def state_bytes(self) -> int:
        """Size of all tensors together."""
        return sum(tensor.bytes for tensor in self.tensors)

    @cached_property
    def elements(self) -> int:
        """Stored elements of all tensors together."""
        return sum(tensor.elements for tensor in self.tensors)

    def described(self, key: str) -> Descriptor:
        """Descriptor of the table where it is stored under ``key``."""
        digest = strict_json.sha256(self.data)
        return Descriptor(key=key, media_type=JSON_TYPE, bytes=len(self.data), digest=digest)


def build_table(
    entries: Iterable[tuple[str, str, tuple[int, ...]]], *, aliases: dict[str, str] | None = None, limits: Limits
) -> TensorTable:
    """Make the table of a state from (name, dtype name, shape) in the order they should have.

    Raises:
        InvalidStateError: the names, dtypes or shapes cannot be published.
    """
    record = TableRecord(
        protocol=features.PROTOCOL,
        protocol_version=features.PROTOCOL_VERSION,
        kind="tensor_table",
        tensors=tuple(TensorEntry(name=name, dtype=dtype, shape=shape) for name, dtype, shape in entries),
        aliases=tuple(Alias(name=name, target=target) for name, target in sorted((aliases or {}).items())),
    )
    try:
        return parse_table(strict_json.encode(record), limits=limits)
    except (DeltawireError, UnicodeEncodeError) as error:
        raise InvalidStateError(str(error)) from None


def parse_table(data: bytes, *, limits: Limits) -> TensorTable:
    """Read and check a stored table. TAB-2, TAB-3, TAB-4

    Raises:
        MalformedRecordError: wrong shape, a name twice, an alias of nothing.
        LimitExceededError: too many tensors, too long names, too large tensors.
        UnsupportedDtypeError: a dtype that is not in the registry.
    """
    limits.check("table_bytes", len(data), "size of the tensor table")
    value = strict_json.parse(data, what="tensor table", limits=limits)
    features.check_protocol_of(value, what="the tensor table")
    record = strict_json.convert(value, TableRecord, what="tensor table")
    limits.check("tensors", len(record.tensors) + len(record.aliases), "number of tensors")
    tensors = tuple(_check_entry(ordinal, entry, limits) for ordinal, entry in enumerate(record.tensors))
    if not tensors:
        raise MalformedRecordError("the tensor table is empty")
    limits.check("state_bytes", sum(tensor.bytes for tensor in tensors), "size of the state")
    names = {tensor.name for tensor in tensors}
    aliases = {alias.name: alias.target for alias in record.aliases}
    for alias, target in aliases.items():
        _check_name(alias, limits)
        if target not in names:
            raise MalformedRecordError(f"alias {alias[:80]!r} stands for {target[:80]!r}, which is not a tensor")
    if len(names | set(aliases)) != len(record.tensors) + len(record.aliases):
        raise MalformedRecordError("the tensor table names a tensor twice")
    return TensorTable(tensors=tensors, aliases=aliases, data=data)


def _check_name(name: str, limits: Limits) -> None:
    try:
        encoded = name.encode("utf-8")
    except UnicodeEncodeError:
        raise MalformedRecordError("a tensor name is not valid Unicode") from None
    if len(encoded) >= limits.name_bytes:  # there are as many as tensors, and words for each cost more than all else
        limits.check("name_bytes", len(encoded), f"length of the name {name[:40]!r}")
    if name == "__metadata__" or _CONTROL.search(name):
        raise MalformedRecordError(f"the tensor name {name[:80]!r} is not allowed")


def _check_entry(ordinal: int, entry: TensorEntry, limits: Limits) -> Tensor:
    _check_name(entry.name, limits)
    dtype = dtype_of(entry.dtype)
    if len(entry.shape) >= limits.dims:
        limits.check("dims", len(entry.shape), f"rank of {entry.name[:80]!r}")
    tensor = Tensor(ordinal, entry.name, dtype, entry.shape, storage_shape(dtype, entry.shape))
    if tensor.bytes >= limits.tensor_bytes:
        limits.check("tensor_bytes", tensor.bytes, f"size of {entry.name[:80]!r}")
    return tensor
