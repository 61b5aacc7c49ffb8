"""What content is stored, by its hash: xorbs, and files made of their chunks. All of it in memory."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.hub.emulator.hashes import EMPTY, Node, as_hex, file_hash, range_hash
from tests.hub.emulator.shards import ShardFile, ShardXorb, Term, describe, parse_shard
from tests.hub.emulator.xorbs import Malformed, Xorb, pack, parse_xorb

EMPTY_FILE = as_hex(EMPTY)
"""The hash of the file of no bytes, which is always there."""


@dataclass(frozen=True, slots=True)
class _Part:
    """Chunks of one xorb that hold a part of a file."""

    xorb: str
    begin: int
    end: int
    size: int


@dataclass(frozen=True, slots=True)
class _Piece:
    """What of a part a range of bytes needs."""

    part: _Part
    offset: int
    """Of the piece's first byte in the file."""


@dataclass
class _Shelf:
    xorbs: dict[str, Xorb] = field(default_factory=dict)
    files: dict[str, Sequence[_Part]] = field(default_factory=dict)
    tracked: dict[str, str] = field(default_factory=dict)
    """Chunks by which a client finds a xorb that another one sent: the first of a file, and one of 1024."""


class Content:
    """Everything stored, safe to use from several threads. Nothing is kept whose hash was not computed here."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._shelf = _Shelf()

    def add_xorb(self, name: str, data: bytes) -> bool:
        """Keep a xorb; whether it is new. Raises Malformed."""
        xorb = parse_xorb(data)
        if as_hex(xorb.digest) != name:
            raise Malformed(f"the hash of the xorb is {as_hex(xorb.digest)}")
        return self._keep(name, xorb)

    def add_shard(self, data: bytes) -> None:
        """Make files known, and chunks by which xorbs are found. Raises Malformed; then nothing is."""
        described, xorbs = parse_shard(data)
        files = {as_hex(file.digest): self._parts(file) for file in described}
        tracked = {}
        for xorb in xorbs:
            self._compare(xorb)
            for chunk, _ in xorb.nodes:
                if int.from_bytes(chunk[24:], "little") % 1024 == 0:
                    tracked[as_hex(chunk)] = as_hex(xorb.digest)
        for parts in files.values():
            if parts:
                first = self._shelf.xorbs[parts[0].xorb].chunks[parts[0].begin]
                tracked[as_hex(first.digest)] = parts[0].xorb
        with self._lock:
            self._shelf.files.update(files)
            self._shelf.tracked.update(tracked)

    def add_file(self, data: bytes) -> str:
        """Keep a file whose bytes came as they are; its hash."""
        parts, nodes = [], list[Node]()
        for xorb in pack(data):
            name, count = as_hex(xorb.digest), len(xorb.chunks)
            self._keep(name, xorb)
            nodes += xorb.nodes(0, count)
            parts.append(_Part(name, 0, count, sum(chunk.size for chunk in xorb.chunks)))
        digest = as_hex(file_hash(nodes))
        if data:
            with self._lock:
                self._shelf.files[digest] = parts
        return digest

    def size(self, digest: str) -> int | None:
        """How many bytes a file has; None if there is none of that hash."""
        if digest == EMPTY_FILE:
            return 0
        parts = self._shelf.files.get(digest)
        return None if parts is None else sum(part.size for part in parts)

    def read(self, digest: str, begin: int, end: int) -> bytes:
        """A range of a file. Raises KeyError if there is none of that hash."""
        pieces = self._pieces(digest, begin, end)
        if not pieces:
            return b""
        found = bytearray()
        for piece in pieces:
            xorb = self._shelf.xorbs[piece.part.xorb]
            for index in range(piece.part.begin, piece.part.end):
                found += xorb.content(index)
        return bytes(found[begin - pieces[0].offset : end - pieces[0].offset])

    def plan(self, digest: str, begin: int, end: int, url: str) -> Mapping[str, Any]:
        """How to put a range of a file together: the answer of ``GET /v2/reconstructions``. Raises KeyError.

        Args:
            digest: of the file.
            begin: first byte.
            end: after the last byte.
            url: under which the bytes of xorbs are, followed by a name.
        """
        pieces = self._pieces(digest, begin, end)
        spans: dict[str, list[tuple[int, int]]] = {}
        for piece in pieces:
            spans.setdefault(piece.part.xorb, []).append((piece.part.begin, piece.part.end))
        return {
            "offset_into_first_range": begin - pieces[0].offset if pieces else 0,
            "terms": [
                {
                    "hash": piece.part.xorb,
                    "unpacked_length": piece.part.size,
                    "range": {"start": piece.part.begin, "end": piece.part.end},
                }
                for piece in pieces
            ],
            "xorbs": {
                name: [{"url": url + name, "ranges": [self._stored(name, *span)]} for span in _merged(found)]
                for name, found in spans.items()
            },
        }

    def xorb(self, name: str) -> bytes | None:
        """The bytes of a xorb as they were sent."""
        found = self._shelf.xorbs.get(name)
        return None if found is None else found.data

    def neighbours(self, chunk: str) -> bytes | None:
        """A shard that describes the xorb in which a chunk is, if clients may find it by that."""
        found = self._shelf.tracked.get(chunk)
        return None if found is None else describe(self._shelf.xorbs[found])

    def keep_only(self, digests: Collection[str]) -> None:
        """Forget all files but these, and what no file is made of."""
        with self._lock:
            files = {digest: parts for digest, parts in self._shelf.files.items() if digest in digests}
            used = {part.xorb for parts in files.values() for part in parts}
            self._shelf = _Shelf(
                {name: xorb for name, xorb in self._shelf.xorbs.items() if name in used},
                files,
                {chunk: name for chunk, name in self._shelf.tracked.items() if name in used},
            )

    def _keep(self, name: str, xorb: Xorb) -> bool:
        with self._lock:
            return self._shelf.xorbs.setdefault(name, xorb) is xorb

    def _parts(self, file: ShardFile) -> list[_Part]:
        parts, nodes = [], list[Node]()
        for term, proof in zip(file.terms, file.proofs, strict=True):
            found = self._nodes(term)
            if range_hash(digest for digest, _ in found) != proof:
                raise Malformed("a range of chunks is not what its verification says")
            nodes += found
            parts.append(_Part(as_hex(term.xorb), term.begin, term.end, term.size))
        if file_hash(nodes) != file.digest:
            raise Malformed(f"the hash of the file is {as_hex(file_hash(nodes))}")
        return parts

    def _nodes(self, term: Term) -> list[Node]:
        xorb = self._shelf.xorbs.get(as_hex(term.xorb))
        if xorb is None:
            raise Malformed(f"there is no xorb {as_hex(term.xorb)}")
        nodes = xorb.nodes(term.begin, term.end)
        if not 0 <= term.begin < term.end <= len(xorb.chunks) or sum(size for _, size in nodes) != term.size:
            raise Malformed("a range of chunks that the xorb does not have")
        return nodes

    def _compare(self, described: ShardXorb) -> None:
        xorb = self._shelf.xorbs.get(as_hex(described.digest))
        if xorb is None:
            raise Malformed(f"there is no xorb {as_hex(described.digest)}")
        if described.nodes != xorb.nodes(0, len(xorb.chunks)):
            raise Malformed("a xorb is not what the shard says")

    def _pieces(self, digest: str, begin: int, end: int) -> list[_Piece]:
        if digest == EMPTY_FILE:
            return []
        pieces, at = [], 0
        for part in self._shelf.files[digest]:
            if at < end and begin < at + part.size:
                pieces.append(self._cut(part, at, begin, end))
            at += part.size
        return pieces

    def _cut(self, part: _Part, at: int, begin: int, end: int) -> _Piece:
        """Only the chunks of a part, which begins at a byte of its file, that a range of the file needs."""
        chunks = self._shelf.xorbs[part.xorb].chunks
        first, offset = part.begin, at
        while offset + chunks[first].size <= begin:
            offset += chunks[first].size
            first += 1
        last, size = first, 0
        while last < part.end and offset + size < end:
            size += chunks[last].size
            last += 1
        return _Piece(_Part(part.xorb, first, last, size), offset)

    def _stored(self, name: str, begin: int, end: int) -> Mapping[str, Any]:
        chunks = self._shelf.xorbs[name].chunks
        return {
            "chunks": {"start": begin, "end": end},
            "bytes": {"start": chunks[begin].begin, "end": chunks[end - 1].end - 1},
        }


def _merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for begin, end in sorted(spans):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begin, end))
    return merged
