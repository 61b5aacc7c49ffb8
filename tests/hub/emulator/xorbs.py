"""Xorbs: files of chunks, as they are sent and kept.

Source: the Xet protocol specification, "Xorb Formation & Serialization Format".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from lz4.frame import LZ4FrameDecompressor  # type: ignore[import-untyped]

from tests.hub.emulator.hashes import Node, chunk_hash, merkle_root

XORB_BYTES = 64 << 20
"""Most bytes of the chunks of a xorb as they are stored; hf_xet does not count their headers."""
CHUNK_BYTES = 128 << 10
"""Most bytes of a chunk."""
_HEADER = 8
_FOOTER = b"XETBLOB"
_OWN_CHUNK_BYTES = 64 << 10
_OWN_CHUNKS = 1000
_PLAIN, _LZ4, _GROUPED = range(3)


class Malformed(Exception):  # noqa: N818 - an answer, not an error
    """What was sent is not what it says it is."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A chunk in its xorb."""

    begin: int
    """Where its header is."""
    end: int
    """Where what is stored of it ends."""
    scheme: int
    size: int
    """Bytes, when decoded."""
    digest: bytes


@dataclass(frozen=True, slots=True)
class Xorb:
    """A xorb."""

    data: bytes = field(repr=False)
    chunks: Sequence[Chunk] = field(repr=False)

    @property
    def digest(self) -> bytes:
        """Its hash."""
        return merkle_root(self.nodes(0, len(self.chunks)))

    def nodes(self, begin: int, end: int) -> list[Node]:
        """Hashes and sizes of a range of its chunks."""
        return [(chunk.digest, chunk.size) for chunk in self.chunks[begin:end]]

    def content(self, index: int) -> bytes:
        """The bytes of a chunk."""
        chunk = self.chunks[index]
        return _decoded(chunk.scheme, self.data[chunk.begin + _HEADER : chunk.end], chunk.size)


def parse_xorb(data: bytes) -> Xorb:
    """Take a xorb apart, and decode and hash every chunk. Raises Malformed."""
    chunks = list(_chunks(data))
    if not chunks:
        raise Malformed("a xorb without chunks")
    if sum(chunk.end - chunk.begin - _HEADER for chunk in chunks) > XORB_BYTES:
        raise Malformed("a xorb has at most 64 MiB")
    return Xorb(data, chunks)


def pack(data: bytes) -> list[Xorb]:
    """Xorbs that have these bytes, in chunks of one size that are not compressed."""
    pieces = [data[at : at + _OWN_CHUNK_BYTES] for at in range(0, len(data), _OWN_CHUNK_BYTES)]
    return [
        parse_xorb(b"".join(_header(len(piece)) + piece for piece in pieces[at : at + _OWN_CHUNKS]))
        for at in range(0, len(pieces), _OWN_CHUNKS)
    ]


def _chunks(data: bytes) -> Iterator[Chunk]:
    begin = 0
    while begin < len(data) and not data.startswith(_FOOTER, begin):
        header = data[begin : begin + _HEADER]
        stored, scheme, size = int.from_bytes(header[1:4], "little"), header[4:5], int.from_bytes(header[5:8], "little")
        end = begin + _HEADER + stored
        if len(header) != _HEADER or header[0] != 0 or end > len(data) or not 0 < size <= CHUNK_BYTES:
            raise Malformed(f"no chunk at byte {begin}")
        content = _decoded(scheme[0], data[begin + _HEADER : end], size)
        yield Chunk(begin, end, scheme[0], size, chunk_hash(content))
        begin = end


def _header(size: int) -> bytes:
    return b"\0" + size.to_bytes(3, "little") + bytes([_PLAIN]) + size.to_bytes(3, "little")


def _decoded(scheme: int, stored: bytes, size: int) -> bytes:
    if scheme == _PLAIN:
        content = stored
    elif scheme in {_LZ4, _GROUPED}:
        try:
            content = LZ4FrameDecompressor().decompress(stored, max_length=CHUNK_BYTES + 1)
        except RuntimeError as error:
            raise Malformed(f"a chunk cannot be decompressed: {error}") from None
        content = _ungrouped(content) if scheme == _GROUPED else content
    else:
        raise Malformed(f"there is no compression {scheme}")
    if len(content) != size:
        raise Malformed(f"a chunk has {len(content)} bytes instead of {size}")
    return content


def _ungrouped(data: bytes) -> bytes:
    """Every fourth byte lies together."""
    content, begin = bytearray(len(data)), 0
    for first in range(4):
        end = begin + len(range(first, len(data), 4))
        content[first::4] = data[begin:end]
        begin = end
    return bytes(content)
