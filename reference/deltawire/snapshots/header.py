"""The header of a safetensors file, read and written without trust (SPEC.md section 8.7)."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from deltawire.errors import DeltawireError, LimitExceededError, MalformedShardError
from deltawire.format import strict_json
from deltawire.format.dtypes import dtype_of
from deltawire.format.tensors import Tensor
from deltawire.limits import DEFAULT_LIMITS, Limits

DIGESTS = "deltawire.digests"
"""Member of ``__metadata__``: a JSON object, as a string, of each tensor's share of the state digest (SNP-4)."""

_HEX64 = re.compile("[0-9a-f]{16}")


@dataclass(frozen=True, slots=True)
class Entry:
    """A tensor in a safetensors file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    begin: int
    """First byte, counted from the end of the header."""
    end: int


@dataclass(frozen=True, slots=True)
class Header:
    """A checked header: entries lie end to end, in file order, without holes."""

    entries: tuple[Entry, ...]
    metadata: dict[str, str]
    data_start: int
    """Where the tensors begin in the file."""
    data_bytes: int

    def digests(self) -> dict[str, int]:
        """Each tensor's share of the state digest; empty in files of other origin.

        Raises:
            MalformedShardError: the member is there, but is not what SNP-4 says.
        """
        if DIGESTS not in self.metadata:
            return {}
        try:
            found = strict_json.parse(self.metadata[DIGESTS].encode(), what=DIGESTS, limits=DEFAULT_LIMITS)
        except (DeltawireError, UnicodeEncodeError) as error:
            raise MalformedShardError(str(error)) from None
        if not all(isinstance(value, str) and _HEX64.fullmatch(value) for value in found.values()):
            raise MalformedShardError(f"{DIGESTS} is not an object of 16 hex digits each")
        return {name: int(value, 16) for name, value in found.items()}


def file_order(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Tensors as they lie in a shard: widest elements first, so that each is aligned (SNP-4)."""
    return sorted(tensors, key=lambda tensor: -tensor.dtype.width)


def build_header(tensors: Sequence[Tensor], digests: dict[str, int] | None) -> bytes:
    """Length and header of a shard that holds ``tensors`` in this order; None for a file that will be patched."""
    metadata = {"format": "pt"}
    if digests is not None:
        hexes = {name: f"{value:016x}" for name, value in digests.items()}
        metadata[DIGESTS] = json.dumps(hexes, separators=(",", ":"))
    members: dict[str, Any] = {"__metadata__": metadata}
    begin = 0
    for tensor in tensors:
        end = begin + tensor.bytes
        members[tensor.name] = {"dtype": tensor.dtype.name, "shape": tensor.shape, "data_offsets": [begin, end]}
        begin = end
    text = json.dumps(members, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def header_length(prefix: bytes, *, limits: Limits) -> int:
    """Length of the first 8 bytes and the JSON behind them together.

    Raises:
        MalformedShardError: fewer than 8 bytes.
        LimitExceededError: longer than the limit.
    """
    if len(prefix) < 8:
        raise MalformedShardError("a safetensors file has at least 8 bytes")
    length = int.from_bytes(prefix[:8], "little")
    return 8 + limits.check("shard_header_bytes", length, "length of a safetensors header")


def parse_header(data: bytes, file_bytes: int, *, limits: Limits) -> Header:
    """Read a header: its first 8 bytes and JSON, of a file of ``file_bytes``.

    Raises:
        MalformedShardError: not a safetensors header, or tensors that overlap, leave holes or do not fill the file.
        LimitExceededError: too large or too deep.
        UnsupportedDtypeError: a dtype that is not in the registry.
    """
    length = header_length(data, limits=limits)
    if length != len(data) or length > file_bytes:
        raise MalformedShardError(f"a header of {length:,} bytes in {min(len(data), file_bytes):,}")
    try:
        members = strict_json.parse(data[8:], what="safetensors header", limits=limits)
    except LimitExceededError:
        raise
    except DeltawireError as error:
        raise MalformedShardError(str(error)) from None
    metadata = members.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise MalformedShardError("__metadata__ is not an object of strings")
    limits.check("tensors", len(members), "number of tensors of a safetensors file")
    entries = sorted((_entry(name, value, limits) for name, value in members.items()), key=lambda e: (e.begin, e.end))
    at = 0
    for entry in entries:
        if entry.begin != at:
            raise MalformedShardError(f"tensor {entry.name[:80]!r} overlaps another or leaves a hole")
        at = entry.end
    if length + at != file_bytes:
        raise MalformedShardError(f"tensors of {at:,} bytes in a file with {file_bytes - length:,}")
    return Header(tuple(entries), metadata, length, at)


def _entry(name: str, value: object, limits: Limits) -> Entry:
    match value:
        case {"dtype": str(dtype), "shape": list(shape), "data_offsets": [begin, end]}:
            pass
        case _:
            raise MalformedShardError(f"tensor {name[:80]!r} has no dtype, shape and data_offsets")
    limits.check("dims", len(shape), f"rank of {name[:80]!r}")  # before the product of its extents
    if not all(type(number) is int and 0 <= number < 1 << 53 for number in (*shape, begin, end)) or begin > end:
        raise MalformedShardError(f"tensor {name[:80]!r} has an impossible shape or place")
    kind = dtype_of(dtype)
    # In bits: a sub-byte tensor need not fill whole bytes here, but then no number of bytes is right. DTY-3
    if math.prod(shape) * kind.bits != 8 * (end - begin):
        raise MalformedShardError(f"tensor {name[:80]!r} of shape {shape} does not have {end - begin:,} bytes")
    return Entry(name, dtype, tuple(shape), begin, end)


def check_against_table(header: Header, tensors: Sequence[Tensor], *, what: str) -> dict[str, int]:
    """Check that a shard holds exactly ``tensors`` and return their digests. SNP-3, SNP-4

    Raises:
        MalformedShardError: other names, dtypes or shapes, or no digests.
    """
    expected = {tensor.name: (tensor.dtype.name, tensor.shape) for tensor in tensors}
    if {entry.name: (entry.dtype, entry.shape) for entry in header.entries} != expected:
        raise MalformedShardError(f"{what} does not hold the tensors that the record says")
    digests = header.digests()
    if digests.keys() != expected.keys():
        raise MalformedShardError(f"{what} does not give the digest of each tensor")
    return digests
