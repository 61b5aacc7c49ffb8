"""Shards: what files are made of, as a client tells the server, and what xorbs have, as the server tells a client.

Source: the Xet protocol specification, "MDB Shard File Format".
"""

from __future__ import annotations

import itertools
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass

from tests.hub.emulator.hashes import EMPTY, Node
from tests.hub.emulator.xorbs import Malformed, Xorb

_TAG = b"HFRepoMetaData\0" + bytes.fromhex("556967456a7b815783a5bdd95ccdd14aa9")
_HEADER = struct.Struct("<32sQQ")
_ENTRY = struct.Struct("<32sIIII")
"""Everything in a shard is a hash and four numbers of 32 bits."""
_LAST = b"\xff" * 32
_END = _LAST + bytes(16)
_FOOTER = struct.Struct("<9Q32sQQ72xQ")
"""Its key of no bits says that hashes of chunks are told as they are."""
_VERIFIED = 1 << 31
_SHA256 = 1 << 30
_KEPT_SECONDS = 7 * 86_400


@dataclass(frozen=True, slots=True)
class Term:
    """A range of a xorb's chunks, which is a part of a file."""

    xorb: bytes
    begin: int
    end: int
    size: int
    """Bytes."""


@dataclass(frozen=True, slots=True)
class ShardFile:
    """A file as a shard describes it."""

    digest: bytes
    terms: Sequence[Term]
    proofs: Sequence[bytes]
    """Of each term, the hash of its range."""


@dataclass(frozen=True, slots=True)
class ShardXorb:
    """A xorb as a shard describes it."""

    digest: bytes
    nodes: Sequence[Node]
    """Hashes and sizes of its chunks."""


def parse_shard(data: bytes) -> tuple[list[ShardFile], list[ShardXorb]]:
    """Take a shard apart. Raises Malformed."""
    try:
        tag, version, _ = _HEADER.unpack_from(data)
        if tag != _TAG or version != 2:
            raise Malformed("not a shard")
        files, at = _files(data, _HEADER.size)
        return files, _xorbs(data, at)
    except struct.error:
        raise Malformed("a shard ends too early") from None


def describe(xorb: Xorb) -> bytes:
    """A shard that describes one xorb."""
    nodes = xorb.nodes(0, len(xorb.chunks))
    sizes = [size for _, size in nodes]
    begins = itertools.accumulate(sizes[:-1], initial=0)
    parts = [_HEADER.pack(_TAG, 2, _FOOTER.size), _END]
    parts.append(_ENTRY.pack(xorb.digest, 0, len(nodes), sum(sizes), len(xorb.data)))
    parts += [_ENTRY.pack(chunk, begin, size, 0, 0) for (chunk, size), begin in zip(nodes, begins, strict=True)]
    parts.append(_END)
    now = int(time.time())
    footer_at = sum(map(len, parts))
    tables = (footer_at, 0) * 3  # of files, of xorbs, of chunks: where they begin, and that they are empty
    files_at, xorbs_at = _HEADER.size, _HEADER.size + len(_END)
    parts.append(_FOOTER.pack(1, files_at, xorbs_at, *tables, EMPTY, now, now + _KEPT_SECONDS, footer_at))
    return b"".join(parts)


def _files(data: bytes, at: int) -> tuple[list[ShardFile], int]:
    files: list[ShardFile] = []
    while True:
        digest, flags, count, _, _ = _ENTRY.unpack_from(data, at)
        at += _ENTRY.size
        if digest == _LAST:
            return files, at
        terms = []
        for _ in range(count):
            xorb, _, size, begin, end = _ENTRY.unpack_from(data, at)
            terms.append(Term(xorb, begin, end, size))
            at += _ENTRY.size
        if not flags & _VERIFIED:
            raise Malformed("a file without verification")
        proofs = []
        for _ in range(count):
            proofs.append(_ENTRY.unpack_from(data, at)[0])
            at += _ENTRY.size
        at += _ENTRY.size if flags & _SHA256 else 0
        files.append(ShardFile(digest, terms, proofs))


def _xorbs(data: bytes, at: int) -> list[ShardXorb]:
    xorbs: list[ShardXorb] = []
    while True:
        digest, _, count, _, _ = _ENTRY.unpack_from(data, at)
        if digest == _LAST:
            return xorbs
        at += _ENTRY.size
        nodes = []
        for _ in range(count):
            chunk, _, size, _, _ = _ENTRY.unpack_from(data, at)
            nodes.append((chunk, size))
            at += _ENTRY.size
        xorbs.append(ShardXorb(digest, nodes))
