"""The CAS believes no hash: what was tampered with is refused."""

from __future__ import annotations

import random
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.hub.clients import BUCKET, api, ask, batch, send
from tests.hub.emulator import HubEmulator
from tests.hub.emulator.content import Content
from tests.hub.emulator.hashes import as_hex, file_hash, merkle_root, range_hash
from tests.hub.emulator.shards import Term, describe, parse_shard
from tests.hub.emulator.xorbs import Malformed, Xorb, pack, parse_xorb

_FILE = 1 << 31
_LAST = b"\xff" * 32 + bytes(16)


def _shard(digest: bytes, terms: list[Term], proofs: list[bytes], *, flags: int = _FILE) -> bytes:
    def entry(found: bytes, *numbers: int) -> bytes:
        return struct.pack("<32s4I", found, *numbers)

    tag = b"HFRepoMetaData\0" + bytes.fromhex("556967456a7b815783a5bdd95ccdd14aa9")
    parts = [struct.pack("<32sQQ", tag, 2, 0), entry(digest, flags, len(terms), 0, 0)]
    parts += [entry(term.xorb, 0, term.size, term.begin, term.end) for term in terms]
    parts += [entry(proof, 0, 0, 0, 0) for proof in proofs] if flags & _FILE else []
    return b"".join((*parts, _LAST, _LAST))


def _valid() -> tuple[Xorb, bytes, list[Term], list[bytes]]:
    """Two ranges of one xorb, and the second comes first."""
    (xorb,) = pack(random.Random(1).randbytes(300_000))
    spans = [(2, 5), (0, 2)]
    nodes = [xorb.nodes(*span) for span in spans]
    terms = [Term(xorb.digest, *span, sum(size for _, size in found)) for span, found in zip(spans, nodes, strict=True)]
    proofs = [range_hash(digest for digest, _ in found) for found in nodes]
    return xorb, file_hash(nodes[0] + nodes[1]), terms, proofs


def test_a_shard_makes_a_file() -> None:
    xorb, digest, terms, proofs = _valid()
    content = Content()
    with pytest.raises(Malformed, match="no xorb"):
        content.add_shard(_shard(digest, terms, proofs))
    assert content.add_xorb(as_hex(xorb.digest), xorb.data)
    assert not content.add_xorb(as_hex(xorb.digest), xorb.data)
    content.add_shard(_shard(digest, terms, proofs))
    data = random.Random(1).randbytes(300_000)
    expected = data[131072:] + data[:131072]
    assert content.size(as_hex(digest)) == len(expected)
    assert content.read(as_hex(digest), 0, len(expected)) == expected
    assert content.read(as_hex(digest), 100_000, 170_000) == expected[100_000:170_000]
    first = as_hex(xorb.chunks[2].digest)
    _, (found,) = parse_shard(content.neighbours(first) or b"")
    assert (found.digest, found.nodes) == (xorb.digest, xorb.nodes(0, 5))
    assert content.neighbours(as_hex(xorb.chunks[0].digest)) is None
    assert describe(xorb) == content.neighbours(first)


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("file", "hash of the file"),
        ("proof", "verification"),
        ("no proof", "without verification"),
        ("size", "does not have"),
        ("end", "does not have"),
        ("empty", "does not have"),
        ("xorb", "no xorb"),
        ("order", "hash of the file"),
    ],
)
def test_shards_that_lie(what: str, message: str) -> None:
    xorb, digest, terms, proofs = _valid()
    content = Content()
    content.add_xorb(as_hex(xorb.digest), xorb.data)
    first = terms[0]
    wrong = {
        "size": Term(first.xorb, first.begin, first.end, first.size + 1),
        "end": Term(first.xorb, first.begin, 6, first.size),
        "empty": Term(first.xorb, 2, 2, 0),
        "xorb": Term(bytes(32), first.begin, first.end, first.size),
    }
    terms[0] = wrong.get(what, first)
    if what == "order":
        terms.reverse()
        proofs.reverse()
    if what == "proof":
        proofs[1] = bytes(32)
    told = bytes(32) if what == "file" else digest
    with pytest.raises(Malformed, match=message):
        content.add_shard(_shard(told, terms, proofs, flags=0 if what == "no proof" else _FILE))
    assert content.size(as_hex(digest)) is None


@given(st.data())
@settings(max_examples=200, deadline=None)
def test_shards_that_were_damaged(draw: st.DataObject) -> None:
    """A bit, or the end: either it is refused, or it says the same."""
    xorb, digest, terms, proofs = _valid()
    shard = bytearray(_shard(digest, terms, proofs))
    if draw.draw(st.booleans()):
        del shard[draw.draw(st.integers(0, len(shard) - 1)) :]
    else:
        at = draw.draw(st.integers(0, len(shard) * 8 - 1))
        shard[at // 8] ^= 1 << at % 8
    content = Content()
    content.add_xorb(as_hex(xorb.digest), xorb.data)
    try:
        content.add_shard(bytes(shard))
    except Malformed:
        assert content.size(as_hex(digest)) is None
    else:
        assert content.size(as_hex(digest)) == 300_000


def _of_the_client() -> bytes:
    """A xorb in each way that chunks are compressed."""
    numbers = random.Random(2)
    floats = struct.pack("<40000f", *(numbers.gauss(0, 0.02) for _ in range(40_000)))
    xorbs: list[bytes] = []
    with HubEmulator() as hub:
        hub.create(BUCKET)
        hub.before("POST .*/v1/xorbs/", lambda asked: xorbs.append(asked.body))
        api(hub).batch_bucket_files(BUCKET, add=[(floats + b"abcdefgh" * 9000 + numbers.randbytes(150_000), "x")])
    return xorbs[0]


@pytest.fixture(scope="module")
def xorb() -> Xorb:
    return parse_xorb(_of_the_client())


def test_all_ways_of_compression_came(xorb: Xorb) -> None:
    assert len({chunk.scheme for chunk in xorb.chunks}) >= 2


@given(draw=st.data())
@settings(max_examples=150, deadline=None)
def test_xorbs_that_were_damaged(xorb: Xorb, draw: st.DataObject) -> None:
    """Nothing is kept under the name but what has the same chunks."""
    at = draw.draw(st.integers(0, len(xorb.data) * 8 - 1) | st.integers(0, 64 * 8))
    data = bytearray(xorb.data)
    data[at // 8] ^= 1 << at % 8
    content = Content()
    try:
        content.add_xorb(as_hex(xorb.digest), bytes(data))
    except Malformed:
        assert content.xorb(as_hex(xorb.digest)) is None
    else:
        kept = parse_xorb(bytes(data))
        assert [kept.content(at) for at in range(len(kept.chunks))] == [
            xorb.content(at) for at in range(len(xorb.chunks))
        ]


@pytest.mark.parametrize(
    "data", [b"", b"\0", bytes(8), b"\0\1\0\0\0\0\0\2x", b"\1\1\0\0\0\1\0\0x", b"\0\1\0\0\3\1\0\0x"]
)
def test_no_xorbs(data: bytes) -> None:
    with pytest.raises(Malformed):
        parse_xorb(data)


def test_the_largest_xorb() -> None:
    data = b"\0\0\0\1\0\0\0\1" + bytes(1 << 16)
    assert len(parse_xorb(data * 1024).chunks) == 1024
    with pytest.raises(Malformed, match="at most 64 MiB"):
        parse_xorb(data * 1024 + b"\0\1\0\0\0\1\0\0x")


def test_refusals_are_told(hub: HubEmulator) -> None:
    info = ask(hub, "GET", f"/api/buckets/{BUCKET}/xet-write-token").json
    cas, authorization = info["casUrl"].removeprefix(hub.endpoint), f"Bearer {info['accessToken']}"
    (mine,) = pack(b"1234")
    name = as_hex(mine.digest)

    def post(path: str, data: bytes) -> tuple[int, bytes]:
        found = send(hub, "POST", cas + path, data, Authorization=authorization)
        return found.status, found.body

    assert post(f"/v1/xorbs/default/{name}", mine.data[:-1] + b"5")[0] == 400
    shard = _shard(file_hash(mine.nodes(0, 1)), [Term(mine.digest, 0, 1, 4)], [range_hash([mine.chunks[0].digest])])
    status, told = post("/v2/shards", shard)
    assert status == 200
    assert b'"type": "error"' in told
    assert b"there is no xorb" in told
    assert post(f"/v1/xorbs/default/{name}", mine.data)[0] == 200
    assert b'"type": "result"' in post("/v2/shards", shard)[1]
    operation = {"type": "addFile", "path": "x", "xetHash": as_hex(file_hash(mine.nodes(0, 1))), "mtime": 1}
    assert batch(hub, operation).status == 200
    assert hub.read(BUCKET, "x") == b"1234"
    assert send(hub, "GET", f"{cas}/v1/chunks/default/{'0' * 64}", Authorization=authorization).status == 404
    assert send(hub, "GET", f"{cas}/v2/reconstructions/{'1' * 64}", Authorization=authorization).status == 404


def test_hashes_of_little() -> None:
    """One chunk is its own root, and a file of no bytes has a hash of no bits."""
    (small,) = pack(b"1")
    assert merkle_root(small.nodes(0, 1)) == small.chunks[0].digest
    assert file_hash([]) == bytes(32)
    assert pack(b"") == []
