"""Hashes of Xet: of chunks, xorbs, files and ranges of chunks.

Source: the Xet protocol specification, "Hashing".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from blake3 import blake3

_DATA_KEY = bytes.fromhex("6697f5775b9550de3135cbaca597181c9de421109beb2b58b4d0b04b93adf229")
_NODE_KEY = bytes.fromhex("017ec5c7a5472996fd946666b48a02e65ddd536f37c76dd2f86352e64a53713f")
_RANGE_KEY = bytes.fromhex("7f1857d6ce56ed66127ff913e7a5c3f3a4cd26d5b5db49e64124987f28fb94c3")
EMPTY = bytes(32)
"""The hash of a file of no bytes."""

Node = tuple[bytes, int]
"""A hash, and how many bytes of data are below it."""


def chunk_hash(data: bytes) -> bytes:
    """The hash of a chunk."""
    return _keyed(_DATA_KEY, data)


def merkle_root(nodes: Sequence[Node]) -> bytes:
    """The root above chunks: the hash of a xorb that has them."""
    while len(nodes) > 1:
        nodes = [_parent(group) for group in _groups(nodes)]
    return nodes[0][0] if nodes else EMPTY


def file_hash(nodes: Sequence[Node]) -> bytes:
    """The hash of a file of these chunks."""
    return _keyed(EMPTY, merkle_root(nodes)) if nodes else EMPTY


def range_hash(chunks: Iterable[bytes]) -> bytes:
    """What proves that whoever describes a file has the chunks of one range: a hash over their hashes."""
    return _keyed(_RANGE_KEY, b"".join(chunks))


def as_hex(digest: bytes) -> str:
    """A hash as the protocol writes it: four integers of 64 bits, which the bytes have in little-endian order."""
    return b"".join(digest[at : at + 8][::-1] for at in range(0, 32, 8)).hex()


def _keyed(key: bytes, data: bytes) -> bytes:
    return blake3(data, key=key).digest()


def _groups(nodes: Sequence[Node]) -> Iterable[Sequence[Node]]:
    """Children of one node each: a group ends with its ninth, or from the third on with a hash divisible by 4."""
    begin = 0
    while begin < len(nodes):
        end = min(begin + 9, len(nodes))
        for at in range(begin + 2, end):
            if int.from_bytes(nodes[at][0][24:], "little") % 4 == 0:
                end = at + 1
                break
        yield nodes[begin:end]
        begin = end


def _parent(group: Sequence[Node]) -> Node:
    lines = "".join(f"{as_hex(digest)} : {size}\n" for digest, size in group)
    return _keyed(_NODE_KEY, lines.encode()), sum(size for _, size in group)
