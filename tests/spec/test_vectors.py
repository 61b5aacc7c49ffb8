"""Appendix A of SPEC.md recomputed, by the kernels and by the plain oracle."""

from __future__ import annotations

import ast
import hashlib
import json
import re
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from deltawire.codecs.base import Base, BoxChange, Positions
from deltawire.codecs.registry import CODECS
from deltawire.errors import DeltawireError, MalformedRowError
from deltawire.format import records
from deltawire.format.boxes import Box, flat_indices
from deltawire.format.dtypes import DTYPES, Bits, Dtype, storage_shape
from deltawire.format.keys import anchor_key, parse_numbered, version_key
from deltawire.format.signing import signed_message
from deltawire.format.strict_json import sha256
from deltawire.format.tensors import Tensor, digest_seed, parse_table
from deltawire.kernels import oracle
from deltawire.kernels.digest import digest_at, digest_range
from deltawire.kernels.gaps import decode_gaps, encode_gaps
from deltawire.kernels.scan import Room
from deltawire.kernels.subsets import FAILED, PADDING, read_subset
from deltawire.kernels.values import encode_differences
from deltawire.limits import DEFAULT_LIMITS
from deltawire.parts.reader import read_batch
from deltawire.producer.encoding import Encoder
from deltawire.reading.trust import as_trust
from deltawire.snapshots.header import build_header, check_against_table, file_order, parse_header
from deltawire.store.base import check_key
from tests.spec import document
from tests.spec.document import Row
from tests.spec.test_examples import examples

MASK = (1 << 64) - 1
U64 = np.uint64


def _rows(name: str) -> list[Row]:
    return document.table("vectors", name)


def _shape(cell: str) -> tuple[int, ...]:
    return tuple(ast.literal_eval(cell))


def _bits(cell: str, dtype: Dtype) -> Bits:
    return np.frombuffer(bytes.fromhex(cell), dtype.storage)


def _stream(cell: str) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    return np.frombuffer(bytes.fromhex(cell), np.uint8)


class _Array(Base):
    def __init__(self, bits: Bits) -> None:
        self.bits = bits

    def gather(self, positions: Positions | None) -> Bits:
        return self.bits if positions is None else self.bits[positions]


def test_seeds() -> None:
    for row in _rows("seeds"):
        assert f"{digest_seed(row['name'], row['dtype'], _shape(row['shape'])):016x}" == row["seed"]


def test_contributions() -> None:
    for row in _rows("contributions"):
        seed, index, bits = int(row["seed"], 16), int(row["index"]), np.array([int(row["bits"], 16)], np.uint64)
        expected = int(row["contribution"], 16)
        assert int(digest_range(bits, U64(seed), U64(index))) == expected
        assert oracle.digest_at(bits, np.array([index], np.uint64), seed) == expected


def test_digests_of_tensors() -> None:
    for row in _rows("tensor digests"):
        dtype, shape = DTYPES[row["dtype"]], _shape(row["shape"])
        seed, bits = digest_seed(row["name"], row["dtype"], shape), _bits(row["bytes"], dtype)
        assert bits.size == np.prod(storage_shape(dtype, shape), dtype=int)
        assert f"{int(digest_range(bits, U64(seed), U64(0))):016x}" == row["digest"]
        assert f"{oracle.digest_at(bits, np.arange(bits.size, dtype=np.uint64), seed):016x}" == row["digest"]


def _first_tensor() -> tuple[int, tuple[int, ...], Bits, int]:
    row = _rows("tensor digests")[0]
    shape = _shape(row["shape"])
    bits = _bits(row["bytes"], DTYPES[row["dtype"]])
    return digest_seed(row["name"], row["dtype"], shape), shape, bits, int(row["digest"], 16)


def test_digest_summed_in_shards() -> None:
    seed, shape, bits, whole = _first_tensor()
    *shards, last = _rows("sharded")
    total = 0
    for row in [*shards, last]:
        box = Box(_shape(row["box_start"]), _shape(row["box_shape"]))
        indices = flat_indices(box, shape, np.arange(box.elements, dtype=np.uint32))
        assert indices.tolist() == list(_shape(row["flat indices"]))
        share = int(digest_at(bits[indices], indices, U64(seed), U64(0)))
        assert f"{share:016x}" == row["share"]
        total += share if row is not last else 0
    assert total & MASK == whole == int(last["share"], 16)


def test_digest_updated_by_what_changed() -> None:
    seed, _, old, whole = _first_tensor()
    values = {row["quantity"]: int(row["value"], 16) for row in _rows("update")}
    changed = {int(name.rpartition(" ")[2]): bits for name, bits in values.items() if name.startswith("new bits")}
    new = old.copy()
    for index, pattern in changed.items():
        new[index] = pattern
    at = np.array(sorted(changed), np.uint32)
    before, after = (int(digest_at(bits[at], at, U64(seed), U64(0))) for bits in (old, new))
    assert (values["digest of the old tensor"], values["digest_before"], values["digest_after"]) == (
        whole,
        before,
        after,
    )
    assert values["digest of the new tensor"] == (whole + after - before) & MASK
    assert values["digest of the new tensor"] == int(digest_range(new, U64(seed), U64(0)))


def test_positions() -> None:
    for row in _rows("positions"):
        elements, positions = int(row["elements"]), np.array(_shape(row["positions"]), np.uint32)
        assert encode_gaps(positions, elements).tobytes().hex() == row["stream"]
        assert oracle.encode_gaps(positions).tobytes().hex() == row["stream"]
        decoded = decode_gaps(_stream(row["stream"]), elements, len(positions))
        assert decoded is not None
        assert decoded.tolist() == positions.tolist()


def test_refused_positions() -> None:
    for row in _rows("bad positions"):
        elements, changed = int(row["elements"]), int(row["changed"])
        streams = {"positions": _stream(row["stream"]), "value_0": np.zeros(changed, np.uint8)}
        with pytest.raises(MalformedRowError):
            CODECS["gap-set"].decode(streams, DTYPES["U8"], elements, changed, None)


def test_ordered_values() -> None:
    for row in _rows("ordered"):
        dtype = DTYPES[row["dtype"]]
        bits = np.array([int(row["bits"], 16)], dtype.storage)
        assert oracle.ordered(bits, dtype) == [int(row["ordered"])]


def _difference(row: Row) -> tuple[Dtype, Bits, Bits]:
    dtype = DTYPES[row["dtype"]]
    old, new = (np.array([int(row[name], 16)], dtype.storage) for name in ("old", "new"))
    return dtype, old, new


def test_differences() -> None:
    for row in _rows("differences"):
        dtype, old, new = _difference(row)
        expected = (int(row["sign bit"]), row["planes, least significant first"])
        for signs, planes in (
            oracle.encode_differences(old, new, dtype),
            encode_differences(old, new, dtype),
        ):
            assert (int(signs[0]), planes[:, 0].tobytes().hex()) == expected
        assert _decode_gap(dtype, old, *expected).tolist() == new.tolist()


def _decode_gap(dtype: Dtype, old: Bits, sign: int, planes: str) -> Bits:
    streams = {"positions": np.zeros(1, np.uint8), "signs": np.array([sign], np.uint8)}
    streams |= {f"diff_{plane}": _stream(planes)[plane : plane + 1] for plane in range(dtype.width)}
    return CODECS["gap"].decode(streams, dtype, 1, 1, _Array(old)).bits


def test_refused_differences() -> None:
    text = document.prose().split("Refused with `malformed_row` for a BF16 element:")[1].split("\n\n")[0]
    refused = [
        (int(sign), planes)
        for signs, planes in re.findall(r"sign (0|0 or 1) with planes `([0-9a-f]{4})`", text)
        for sign in signs.split(" or ")
    ]
    assert len(refused) == 3
    for sign, planes in refused:
        with pytest.raises(MalformedRowError):
            _decode_gap(DTYPES["BF16"], np.array([0x3F80], np.uint16), sign, planes)


def test_codecs() -> None:
    assert {row["codec"] for row in _rows("codecs")} == set(CODECS)
    for row in _rows("codecs"):
        codec, dtype = CODECS[row["codec"]], DTYPES[row["dtype"]]
        old, new = _bits(row["old"], dtype), _bits(row["new"], dtype)
        changes = oracle.find_changes(old, new)
        assert len(changes.positions) == int(row["changed"])
        expected = dict(item.strip("`").split("=") for item in row["streams"].split("<br>"))
        if codec.name != "ranked":  # of which there are many rows for one change
            encoded = codec.encode(BoxChange(old, new, changes), dtype)
            assert {name: stream.tobytes().hex() for name, stream in encoded.items()} == expected
        streams = {name: _stream(stream) for name, stream in expected.items()}
        patch = codec.decode(streams, dtype, old.size, len(changes.positions), _Array(old))
        result = old.copy()
        result[slice(None) if patch.positions is None else patch.positions] = patch.bits
        assert result.tolist() == new.tolist()


def test_subsets() -> None:
    for row in _rows("subsets"):
        total, chosen, bits = int(row["things"]), json.loads(row["subset"].strip("`")), int(row["bits"])
        stream = _stream(row["stream"].strip("`"))
        assert len(stream) == (bits + 7) // 8
        assert _read_subset(total, int(row["code"]), stream, bits, room=len(chosen)) == chosen
        assert oracle.read_subset(int(row["code"]), total, oracle.BitReader(stream)) == chosen
    for row in _rows("bad subsets"):
        total, code, stream = int(row["things"]), int(row["code"]), _stream(row["stream"].strip("`"))
        assert _read_subset(total, code, stream, 8 * len(stream), room=total) is None
        with pytest.raises(ValueError, match=r"."):
            oracle.read_subset(code, total, oracle.BitReader(stream))


def _read_subset(total: int, code: int, stream: Any, bits: int, *, room: int) -> list[int] | None:
    items = np.empty(room, np.uint32)
    padded = np.concatenate([stream, np.zeros(PADDING, np.uint8)])
    count, end = read_subset(code, total, padded, 0, bits, items)
    if count == FAILED:
        return None
    assert end == bits
    found: list[int] = items[:count].tolist()
    return found


def test_version_keys() -> None:
    for row in _rows("version keys"):
        version = int(row["Version"])
        assert (version_key(version), anchor_key(version)) == (row["Version record"], row["Anchor record"])
        assert parse_numbered(row["Version record"]) == version
    ignored = document.text().split("Of keys in a listing of `versions/`, ")[1].split(" are ignored")[0]
    found = re.findall(r"`(versions/[0-9]+\.json)`", ignored)
    assert len(found) == 3
    assert [parse_numbered(key) for key in found] == [None] * 3


def test_keys_and_file_names() -> None:
    for row in _rows("keys"):
        text = row["String"]
        for check, verdict in (
            (check_key, row["As a key"]),
            (records.check_file_name, row["As the name of an auxiliary file"]),
        ):
            try:
                check(text)
                found = "valid"
            except DeltawireError:
                found = "invalid"
            assert found == verdict, text


def _hex(name: str) -> bytes:
    return bytes.fromhex(document.block("vector", name).text)


def _example_versions() -> list[records.VersionRecord]:
    decoded = [
        records.decode(data, records.VersionRecord, what="example", limits=DEFAULT_LIMITS)
        for data in examples("version")
    ]
    return sorted(decoded, key=lambda record: record.version)


def test_part() -> None:
    data, record = _hex("part"), _example_versions()[1]
    assert record.delta is not None
    [part] = record.delta.parts
    assert (len(data), sha256(data)) == (part.bytes, part.digest)
    table = parse_table(examples("tensor_table")[0], limits=DEFAULT_LIMITS)
    rows = [
        row
        for batch in part.batches
        for row in read_batch(
            data[batch.offset : batch.offset + batch.bytes], part, batch, table, limits=DEFAULT_LIMITS
        )
    ]
    found = [
        {
            "tensor": str(row.tensor),
            "box_start": str(list(row.box.start)),
            "box_shape": str(list(row.box.shape)),
            "codec": row.codec,
            "changed": str(row.changed),
            "digest_before": f"{row.digest_before:016x}",
            "digest_after": f"{row.digest_after:016x}",
            **{name: bytes(row.streams.get(name, b"")).hex() for name in part.streams},
        }
        for row in rows
    ]
    assert found == _rows("part rows")
    assert record.delta.changed_elements == sum(row.changed for row in rows)
    assert int(record.delta.digest_after, 16) == sum(row.digest_after for row in rows) & MASK


def _tensors() -> tuple[Tensor, ...]:
    return parse_table(examples("tensor_table")[0], limits=DEFAULT_LIMITS).tensors


def _shard_bits(tensors: tuple[Tensor, ...]) -> dict[str, Bits]:
    data, record = _hex("shard"), _example_versions()[0]
    assert record.snapshot is not None
    [shard] = record.snapshot.shards
    assert (len(data), sha256(data)) == (shard.bytes, shard.digest)
    assert sha256(data[: shard.header_bytes]) == shard.header_digest
    header = parse_header(data[: shard.header_bytes], len(data), limits=DEFAULT_LIMITS)
    digests = check_against_table(header, tensors, what="example")
    bits = {}
    for tensor in tensors:
        [entry] = [entry for entry in header.entries if entry.name == tensor.name]
        start = header.data_start + entry.begin
        bits[tensor.name] = np.frombuffer(data[start : start + tensor.bytes], tensor.dtype.storage)
        assert int(digest_range(bits[tensor.name], U64(tensor.seed), U64(0))) == digests[tensor.name]
    assert build_header(file_order(tensors), digests) == data[: shard.header_bytes]
    assert sum(digests.values()) & MASK == int(record.state_digest, 16)
    return bits


def test_shard() -> None:
    _shard_bits(_tensors())
    header = document.block("vector", "shard-header").text.strip()
    length = int.from_bytes(_hex("shard")[:8], "little")
    assert _hex("shard")[8 : 8 + length].decode().rstrip(" ") == header


def test_shard_and_part_make_the_next_state() -> None:
    """The whole way of a consumer, on the bytes in the text."""
    tensors, record = _tensors(), _example_versions()[1]
    assert record.delta is not None
    [part] = record.delta.parts
    old = _shard_bits(tensors)
    new = {name: bits.copy() for name, bits in old.items()}
    table = parse_table(examples("tensor_table")[0], limits=DEFAULT_LIMITS)
    [batch] = part.batches
    data = _hex("part")[batch.offset : batch.offset + batch.bytes]
    for row in read_batch(data, part, batch, table, limits=DEFAULT_LIMITS):
        tensor = tensors[row.tensor]
        assert row.box.elements == tensor.elements
        patch = CODECS[row.codec].decode(
            row.streams, tensor.dtype, tensor.elements, row.changed, _Array(old[tensor.name])
        )
        new[tensor.name][slice(None) if patch.positions is None else patch.positions] = patch.bits
    shares = [oracle.digest_at(new[t.name], np.arange(t.elements, dtype=np.uint64), t.seed) for t in tensors]
    assert sum(shares) & MASK == int(record.state_digest, 16)
    again = [row for t in tensors for row in _encode(t, old[t.name], new[t.name])]
    assert [row.codec for row in again] == [row["codec"] for row in _rows("part rows")]


def _encode(tensor: Tensor, old: Bits, new: Bits) -> list[Any]:
    return list(Encoder().rows(tensor, old, new, Room(tensor.elements)))


def test_refused_json() -> None:
    [example] = examples("stream")
    for row in _rows("bad json"):
        data = _changed(example, row["Change"])
        try:
            records.decode(data, records.StreamRecord, what="stream.json", limits=DEFAULT_LIMITS)
            found = "accepted"
        except DeltawireError as error:
            found = error.code
        assert found == row["Code"], row["Change"]


def _changed(example: bytes, change: str) -> bytes:
    match change:
        case "the object cut short by one byte":
            return example[:-1]
        case "a byte order mark before it":
            return b"\xef\xbb\xbf" + example
        case "the member `epoch` twice":
            return example.replace(b'"epoch":0', b'"epoch":0,"epoch":0')
    members = json.loads(example)
    for name in json.loads("{" + _quoted(change) + "}"):
        members.pop(name, None)
    return json.dumps(members)[:-1].encode() + b", " + change.encode() + b"}"


def _quoted(change: str) -> str:
    """The change as JSON that Python reads, which has no numbers like 1e999 and no half surrogates to print."""
    return change.replace("NaN", "0").replace("1e999", "0")


def test_signature() -> None:
    """By RFC 8032's library alone: nothing of ours makes or checks this signature."""
    values = {row["quantity"]: row["value"] for row in _rows("signature")}
    private = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(values["private key"]))
    assert private.public_key().public_bytes_raw().hex() == values["public key"]
    data = document.block("vector", "signed-record").text.strip().encode()
    signature = json.loads(data)["signature"]
    assert signature["key"] == "ed25519:" + values["public key"]
    message = b"deltawire-signature-1\n" + data.replace(signature["value"].encode(), b"0" * 128)
    assert hashlib.sha256(message).hexdigest() == values["sha256 of the message"]
    assert private.sign(message).hex() == signature["value"]
    assert signed_message(data, signature["value"], what="the vector") == message
    assert f"The message is {len(message)} bytes long: 22, and the record's {len(data)}." in document.text()


def test_bad_signatures() -> None:
    data = document.block("vector", "signed-record").text.strip().encode()
    trust = as_trust([json.loads(data)["signature"]["key"]])
    assert trust is not None
    for row in _rows("bad signatures"):
        changed = _unsigned(data, row["Change"].replace("`", ""))
        assert (changed == data) == (row["Change"] == "none")
        try:
            record = records.decode(changed, records.StreamRecord, what="stream.json", limits=DEFAULT_LIMITS)
            trust.check_stream(record, changed)
            found = "accepted"
        except DeltawireError as error:
            found = error.code
        assert found == row["Code"], row["Change"]


def _unsigned(data: bytes, change: str) -> bytes:
    signature = json.loads(data)["signature"]
    key, value = signature["key"].encode(), signature["value"].encode()
    other = b"0" if value[-1:] != b"0" else b"1"
    whole = b'"signature":' + json.dumps(signature, separators=(",", ":")).encode() + b","
    if " becomes " in change:
        old, new = change.split(" becomes ")
        return data.replace(old.encode(), new.encode())
    changes = {
        "none": data,
        "the last digit of value another": data.replace(value, value[:-1] + other),
        "a space after the object": data + b" ",
        "signature is left out": data.replace(whole, b""),
        "key is that of A.14 with the last digit another": data.replace(b'"key":"' + key, b'"key":"' + key[:-1] + b"0"),
        "the digits of value in metadata once more": data.replace(b'"metadata":{', b'"metadata":{"x":"%s"' % value),
        "value with its digits in upper case": data.replace(value, value.upper()),
        "value shorter by one digit": data.replace(value, value[:-1]),
        "the key twice in signing_keys": data.replace(b'["ed', b'["%s","ed' % key),
        f"the last digit of value written as \\u00{value[-1]:02x}": data.replace(
            value, value[:-1] + b"\\u00%02x" % value[-1]
        ),
    }
    return changes[change]
