"""A consumer written from SPEC.md alone: it shares no code with the reference, and is slow and short on purpose.

It holds states as one bytearray per tensor and uses pyarrow to decompress; everything else is Python's own.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from tests.spec.plain_ranked import ranked

Get = Callable[[str], bytes | None]
"""Bytes of an object, None if there is none."""
State = dict[str, bytearray]

M64 = (1 << 64) - 1
FLOATS = {"F8_E5M2", "F8_E4M3", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "F16", "BF16", "F32", "F64"}
BITS = {"BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "BF16": 16, "C64": 64}


def _bits(dtype: str) -> int:
    return BITS[dtype] if dtype in BITS else int("".join(itertools.takewhile(str.isdigit, dtype[1:])))


def _sha256(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


class PlainTensor:
    """Section 7.2 and section 10."""

    def __init__(self, entry: dict[str, Any]) -> None:
        self.name, self.dtype, self.logical = entry["name"], entry["dtype"], entry["shape"]
        bits = _bits(self.dtype)
        self.width = max(bits // 8, 1)
        self.shape = [math.prod(self.logical) * bits // 8] if bits < 8 else list(self.logical)
        seed = self.name.encode() + b"\0" + self.dtype.encode() + b"\0"
        seed += b"".join(struct.pack("<Q", extent) for extent in self.logical)
        self.seed = int.from_bytes(hashlib.sha256(seed).digest()[:8], "little")

    def get(self, data: bytes | bytearray, index: int) -> int:
        return int.from_bytes(data[index * self.width : (index + 1) * self.width], "little")

    def put(self, data: bytearray, index: int, bits: int) -> None:
        data[index * self.width : (index + 1) * self.width] = bits.to_bytes(self.width, "little")

    def share(self, index: int, bits: int) -> int:
        """DIG-2."""
        x = ((self.seed + index * 0x9E3779B97F4A7C15) & M64) ^ bits
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & M64
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & M64
        return x ^ (x >> 31)

    def digest(self, data: bytes | bytearray) -> int:
        """DIG-3."""
        return sum(self.share(i, self.get(data, i)) for i in range(math.prod(self.shape))) & M64

    def flat(self, start: Sequence[int], extent: Sequence[int], position: int) -> int:
        """BOX-3."""
        index, stride = 0, 1
        for first, reach, size in zip(reversed(start), reversed(extent), reversed(self.shape), strict=True):
            position, inner = divmod(position, reach)
            index += (first + inner) * stride
            stride *= size
        return index


def read_version(get: Get, version: int) -> tuple[dict[str, Any], State]:
    """The record and the state of a version, from nothing, with the checks that concern a trusted producer."""
    stream = _json(get, "stream.json")
    chain: list[tuple[dict[str, Any], bytes]] = []
    for number in range(version, -1, -1):
        data = _existing(get, f"versions/{number:020d}.json")
        record = json.loads(data)
        assert (record["stream_id"], record["version"]) == (stream["stream_id"], number)
        chain.insert(0, (record, data))
        anchor = get(f"anchors/{number:020d}.json")
        if "snapshot" in record or anchor is not None:
            break
    first, first_data = chain[0]
    snapshot = first.get("snapshot")
    if snapshot is None:
        assert anchor is not None
        found = json.loads(anchor)
        assert found["version_digest"] == _sha256(first_data)
        assert found["state_digest"] == first["state_digest"]
        snapshot = found["snapshot"]
    table = [PlainTensor(entry) for entry in json.loads(_object(get, first["tensors"]))["tensors"]]
    state = _load(get, snapshot, table)
    assert _digest(table, state) == first["state_digest"]
    for (before, before_data), (record, _) in itertools.pairwise(chain):
        assert record["parent"] == {"version": before["version"], "digest": _sha256(before_data)}
        assert record["tensors"]["digest"] == before["tensors"]["digest"]
        _apply(get, record["delta"], table, state)
        assert _digest(table, state) == record["state_digest"]
    return chain[-1][0], state


def _digest(table: list[PlainTensor], state: State) -> str:
    return f"{sum(tensor.digest(state[tensor.name]) for tensor in table) & M64:016x}"


def _load(get: Get, snapshot: dict[str, Any], table: list[PlainTensor]) -> State:
    """Section 8.7."""
    state: State = {}
    for shard in snapshot["shards"]:
        data = _object(get, shard)
        length = 8 + int.from_bytes(data[:8], "little")
        assert (length, _sha256(data[:length])) == (shard["header_bytes"], shard["header_digest"])
        header = json.loads(data[8:length])
        digests = json.loads(header.pop("__metadata__")["deltawire.digests"])
        tensors = table[shard["first_tensor"] : shard["last_tensor"] + 1]
        assert set(header) == {tensor.name for tensor in tensors}
        for tensor in tensors:
            entry = header[tensor.name]
            assert (entry["dtype"], entry["shape"]) == (tensor.dtype, tensor.logical)
            begin, end = entry["data_offsets"]
            state[tensor.name] = bytearray(data[length + begin : length + end])
            assert digests[tensor.name] == f"{tensor.digest(state[tensor.name]):016x}"
    return state


def _apply(get: Get, delta: dict[str, Any], table: list[PlainTensor], state: State) -> None:
    """Section 11.6."""
    writes: list[tuple[PlainTensor, int, int]] = []
    totals = [0, 0, 0]
    for part in delta["parts"]:
        for row, streams in _rows(_object(get, part), part):
            tensor = table[row["tensor"]]
            data = state[tensor.name]
            box = [tensor.flat(row["box_start"], row["box_shape"], at) for at in range(math.prod(row["box_shape"]))]
            if row["codec"] == "ranked":
                before = [tensor.get(data, index) for index in box]
                found = ranked(streams["classes"], streams["items"], before, tensor.width)
                where, new = [box[position] for position in found], list(found.values())
                old = [tensor.get(data, index) for index in where]
            else:
                where = [box[position] for position in _positions(row["codec"], streams, len(box))]
                old = [tensor.get(data, index) for index in where]
                new = _values(row["codec"], streams, old, tensor)
            assert len(new) == len(where)
            assert sum(map(tensor.share, where, old)) & M64 == row["digest_before"]
            assert sum(map(tensor.share, where, new)) & M64 == row["digest_after"]
            assert sum(a != b for a, b in zip(old, new, strict=True)) == row["changed"]
            writes += zip(itertools.repeat(tensor), where, new, strict=False)
            totals = [
                a + b for a, b in zip(totals, (row["changed"], row["digest_before"], row["digest_after"]), strict=True)
            ]
    assert totals[0] == delta["changed_elements"]
    assert [f"{total & M64:016x}" for total in totals[1:]] == [delta["digest_before"], delta["digest_after"]]
    for tensor, index, bits in writes:
        tensor.put(state[tensor.name], index, bits)


def _rows(data: bytes, part: dict[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, bytes]]]:
    """Section 8.6: each batch by its byte range, with the schema that the text gives."""
    numbers = pa.list_(pa.field("item", pa.uint64(), nullable=False))
    columns = {
        "tensor": pa.uint32(), "box_start": numbers, "box_shape": numbers, "codec": pa.utf8(),
        "changed": pa.uint64(), "digest_before": pa.uint64(), "digest_after": pa.uint64(),
        **dict.fromkeys(part["streams"], pa.large_binary()),
    }  # fmt: skip
    schema = pa.schema([pa.field(name, kind, nullable=False) for name, kind in columns.items()])
    for batch in part["batches"]:
        stored = data[batch["offset"] : batch["offset"] + batch["bytes"]]
        assert stored[:4] == b"\xff\xff\xff\xff"
        assert _sha256(stored) == batch["digest"]
        rows = pa.ipc.read_record_batch(pa.ipc.read_message(stored), schema).to_pylist()
        assert len(rows) == batch["rows"]
        ordinals = [row["tensor"] for row in rows]
        assert (min(ordinals), max(ordinals)) == (batch["first_tensor"], batch["last_tensor"])
        for row in rows:
            yield row, {name: row[name] for name in part["streams"]}


def _positions(codec: str, streams: dict[str, bytes], elements: int) -> list[int]:
    """Section 9.1."""
    if codec == "dense":
        return list(range(elements))
    found, skipped, following = [], 0, 0
    for byte in streams["positions"]:
        skipped += byte
        if byte < 255:
            found.append(following + skipped)
            following, skipped = found[-1] + 1, 0
    return found


def _values(codec: str, streams: dict[str, bytes], old: list[int], tensor: PlainTensor) -> list[int]:
    """Sections 9.2 to 9.5."""
    prefix = "diff" if codec == "gap" else "value"
    planes = [streams[f"{prefix}_{plane}"] for plane in range(tensor.width)]
    numbers = [int.from_bytes(bytes(column), "little") for column in zip(*planes, strict=True)]
    if codec != "gap":
        return numbers
    top = 1 << (8 * tensor.width - 1)

    def ordered(bits: int) -> int:
        if bits < top:
            return bits
        return top - 1 - bits if tensor.dtype in FLOATS else bits - 2 * top

    def pattern(value: int) -> int:
        if value >= 0:
            return value
        return top - 1 - value if tensor.dtype in FLOATS else value + 2 * top

    new = []
    for k, (bits, number) in enumerate(zip(old, numbers, strict=True)):
        negative = streams["signs"][k // 8] >> (k % 8) & 1
        difference = -(number + 1) if negative else number + 1
        wrapped = (ordered(bits) + difference + top) % (2 * top) - top
        new.append(pattern(wrapped))
    return new


def _existing(get: Get, key: str) -> bytes:
    data = get(key)
    assert data is not None, key
    return data


def _json(get: Get, key: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(_existing(get, key))
    return value


def _object(get: Get, descriptor: dict[str, Any]) -> bytes:
    data = _existing(get, descriptor["key"])
    assert (len(data), _sha256(data)) == (descriptor["bytes"], descriptor["digest"])
    return data
