"""Arrow messages that lie while every hash is true: nothing they claim is believed before it is checked."""

from __future__ import annotations

import resource
import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltawire.codecs.base import BoxChange
from deltawire.codecs.registry import CODECS
from deltawire.consumer.staging import Totals, stage_row
from deltawire.errors import CODES
from deltawire.format import keys
from deltawire.format.boxes import Box
from deltawire.format.records import ARROW_TYPE, Part
from deltawire.format.strict_json import sha256
from deltawire.kernels.digest import digest_at
from deltawire.kernels.gaps import encode_gaps
from deltawire.kernels.oracle import changed_positions, find_changes
from deltawire.kernels.values import split_planes
from deltawire.parts.message import _Flat, read_claims
from deltawire.parts.rows import FIXED_FIELDS, Row, part_schema
from deltawire.parts.writer import PartOptions, PartWriter
from deltawire.targets.arrays import NumpyBits
from tests.core.refusal import refusal
from tests.hostile.stream import NEWEST, STATES, Record, Stream, honest, survive, to_json

LAST = keys.version_key(NEWEST)
HELD = NEWEST - 1
TENSORS = STATES[0].table().tensors
ORDINAL = {tensor.name: tensor.ordinal for tensor in TENSORS}
MASK = 2**64 - 1
GIB = 1 << 30


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("messages")


@pytest.fixture(autouse=True)
def bounded_memory() -> Any:
    """No hostile part may make a reader take a gigabyte."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown * 1024 < GIB, f"the peak of memory grew by {grown >> 10} MiB"


# A delta of the newest version made of rows of our own.


def row_of(name: str, codec: str = "gap") -> Row:
    """The true row of one tensor from the version held to the newest."""
    tensor = TENSORS[ORDINAL[name]]
    old, new = STATES[HELD].bits[name], STATES[NEWEST].bits[name]
    where = changed_positions(old, new)
    covered = np.arange(old.size, dtype=np.uint32) if codec == "dense" else where
    seed = np.uint64(tensor.seed)
    return Row(
        tensor=tensor.ordinal,
        box=Box((0,) * len(tensor.storage_shape), tensor.storage_shape),
        codec=codec,
        changed=len(where),
        digest_before=int(digest_at(old[covered], covered, seed, np.uint64(0))),
        digest_after=int(digest_at(new[covered], covered, seed, np.uint64(0))),
        streams=CODECS[codec].encode(BoxChange(old, new, find_changes(old, new)), tensor.dtype),
    )


TRUE_ROWS = [row_of(name) for name in ("embed", "w", "packed")]


def delta_of(rows: Sequence[Row], options: PartOptions | None = None) -> tuple[list[Part], dict[str, bytes]]:
    stored: dict[str, bytes] = {}
    writer = PartWriter(
        lambda index: f"data/hostile/part-{index:05d}.arrow",
        lambda part, data: stored.__setitem__(part.key, data.to_pybytes()),
        options=options or PartOptions(),
    )
    for row in rows:
        writer.add(row)
    return list(writer.finish()), stored


def stream_of(parts: Sequence[Record], stored: dict[str, bytes], **totals: Any) -> Stream:
    """The honest stream whose newest record names these parts instead."""
    record = honest().record(LAST)
    record["delta"] |= {"parts": list(parts)} | totals
    return Stream(honest().objects | stored | {LAST: to_json(record)})


def as_record(part: Part) -> Record:
    found: Record = msgspec.to_builtins(part)
    return found


def with_rows(rows: Sequence[Row], *, agree: bool = True) -> Stream:
    """A delta of these rows, in a record that agrees with their sums or is the honest one."""
    parts, stored = delta_of(rows)
    totals: dict[str, Any] = {}
    if agree:
        before, after = (sum(getattr(row, name) for row in rows) & MASK for name in ("digest_before", "digest_after"))
        totals = {
            "changed_elements": min(sum(row.changed for row in rows), 2**53 - 1),
            "digest_before": f"{before:016x}",
            "digest_after": f"{after:016x}",
        }
    return stream_of([as_record(part) for part in parts], stored, **totals)


def with_batch(
    data: bytes, *, rows: int, decoded: int | None = None, streams: Sequence[str] = (), last: int = 5
) -> Stream:
    """A delta of one batch with exactly these bytes, described with true hashes and the claims given."""
    if decoded is None:
        decoded = sum(read_claims(memoryview(data)).buffers)
    batch = {"offset": 0, "bytes": len(data), "digest": sha256(data), "decoded_bytes": decoded, "rows": rows}
    batch |= {"first_tensor": 0, "last_tensor": last}
    key = "data/hostile/part-00000.arrow"
    part = {"key": key, "media_type": ARROW_TYPE, "bytes": len(data), "digest": sha256(data)}
    return stream_of([part | {"streams": list(streams), "batches": [batch]}], {key: data})


def message_of(batch: pa.RecordBatch, compression: str | None = "zstd") -> bytes:
    """A record batch as an encapsulated message, as Arrow writes it."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_batch(batch)
    messages = pa.ipc.MessageReader.open_stream(sink.getvalue())
    found: bytes = next(m for m in messages if m.type == "record batch").serialize().to_pybytes()
    return found


def true_batch() -> tuple[bytes, Part]:
    parts, stored = delta_of(TRUE_ROWS)
    [part] = parts
    [batch] = part.batches
    return stored[part.key][batch.offset : batch.offset + batch.bytes], part


TRUE, TRUE_PART = true_batch()
STREAMS = TRUE_PART.streams
LAST_TENSOR = TRUE_PART.batches[0].last_tensor


def describing(data: bytes, **claims: Any) -> Stream:
    """The true batch's description over other bytes."""
    known: dict[str, Any] = {"rows": 3, "decoded": TRUE_PART.batches[0].decoded_bytes, "last": LAST_TENSOR}
    stream = with_batch(data, streams=STREAMS, **(known | claims))
    record = stream.record(LAST)
    record["delta"]["parts"][0]["batches"][0]["first_tensor"] = TRUE_PART.batches[0].first_tensor
    return Stream(stream.objects | {LAST: to_json(record)})


def test_the_true_rows_are_good(folder: Path) -> None:
    assert survive(with_rows(TRUE_ROWS, agree=False), "own", HELD, folder) is None
    assert survive(with_rows(TRUE_ROWS), "own", HELD, folder) is None
    assert survive(describing(TRUE), "own", HELD, folder) is None
    others = [row_of(name, "gap-set") for name in ("embed", "w", "packed")]
    assert survive(with_rows(others), "own", HELD, folder) is None


W = TRUE_ROWS[1]
POSITIONS = changed_positions(STATES[HELD].bits["w"], STATES[NEWEST].bits["w"])


def changed(row: Row, **members: Any) -> list[Row]:
    """The true rows with one of them changed."""
    return [replace(row, **members) if each is row else each for each in TRUE_ROWS]


def idle_row() -> Row:
    """A true row that also sets one element to the bits it has, and counts it."""
    tensor, old, new = TENSORS[W.tensor], STATES[HELD].bits["w"], STATES[NEWEST].bits["w"]
    idle = next(at for at in range(old.size) if old[at] == new[at])
    where = np.sort(np.append(POSITIONS, np.uint32(idle))).astype(np.uint32)
    planes = {f"value_{plane}": stream for plane, stream in enumerate(split_planes(new[where]))}
    seed, zero = np.uint64(tensor.seed), np.uint64(0)
    return replace(
        row_of("w", "gap-set"),
        changed=len(where),
        digest_before=int(digest_at(old[where], where, seed, zero)),
        digest_after=int(digest_at(new[where], where, seed, zero)),
        streams={"positions": encode_gaps(where, old.size)} | planes,
    )


def bent(row: Row, name: str, how: Callable[[np.ndarray[Any, Any]], Any]) -> list[Row]:
    """The true rows with one stream of one of them changed."""
    stream = np.array(row.streams[name])
    return changed(row, streams=dict(row.streams) | {name: np.asarray(how(stream), np.uint8)})


def added(stream: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    stream[0] += 1
    return stream


ROW_LIES: list[tuple[str, list[Row], str]] = [
    ("a tensor that is not there", changed(W, tensor=6), "malformed_row"),
    ("the last ordinal", changed(W, tensor=2**32 - 1), "malformed_row"),
    ("another tensor of the same width", changed(TRUE_ROWS[2], tensor=ORDINAL["codes"]), "wrong_base"),
    ("an empty tensor", changed(W, tensor=ORDINAL["empty"]), "malformed_row"),
    ("a scalar", changed(W, tensor=ORDINAL["scale"]), "malformed_row"),
    ("a box past the end", changed(W, box=Box((1, 0), (20, 5))), "malformed_row"),
    ("a box far away", changed(W, box=Box((2**63, 0), (20, 5))), "malformed_row"),
    ("a box that wraps", changed(W, box=Box((2**64 - 1, 0), (2, 5))), "malformed_row"),
    ("a box of nothing", changed(W, box=Box((0, 0), (0, 5))), "malformed_row"),
    ("a box of another rank", changed(W, box=Box((0,), (100,))), "malformed_row"),
    ("a box of a thousand dimensions", changed(W, box=Box((0,) * 1000, (1,) * 1000)), "malformed_row"),
    ("start and shape of unlike rank", changed(W, box=Box((0, 0, 0), (20, 5))), "malformed_row"),
    ("a box that is too small", changed(W, box=Box((0, 0), (1, 5))), "malformed_row"),
    ("too many changes", changed(W, changed=W.changed + 1), "malformed_row"),
    ("too few changes", changed(W, changed=W.changed - 1), "malformed_row"),
    ("no changes", changed(W, changed=0), "malformed_row"),
    ("all changes", changed(W, changed=2**64 - 1), "malformed_row"),
    ("an idle element", [TRUE_ROWS[0], idle_row(), TRUE_ROWS[2]], "malformed_row"),
    (
        "a dense row that miscounts",
        [TRUE_ROWS[0], replace(row_of("w", "dense"), changed=W.changed + 1), TRUE_ROWS[2]],
        "malformed_row",
    ),
    ("an unknown codec", changed(W, codec="ranked-9"), "unsupported_codec"),
    ("an empty codec", changed(W, codec=""), "unsupported_codec"),
    ("a long codec", changed(W, codec="x" * 100_000), "unsupported_codec"),
    ("another codec", changed(W, codec="dense"), "malformed_row"),
    ("a wrong base", changed(W, digest_before=W.digest_before ^ 1), "wrong_base"),
    ("a wrong result", changed(W, digest_after=W.digest_after ^ 1), "state_mismatch"),
    ("an element beside", bent(W, "positions", added), "wrong_base"),
    ("another value", bent(W, "diff_0", added), "state_mismatch"),
    ("another sign", bent(W, "signs", added), "state_mismatch"),
    ("a magnitude out of range", bent(W, "diff_3", lambda plane: plane | 0x80), "malformed_row"),
    ("an escape left open", bent(W, "positions", lambda s: np.append(s, 255)), "malformed_row"),
    ("escapes without end", bent(W, "positions", lambda s: np.full(100_000, 255)), "malformed_row"),
    ("a plane that is short", bent(W, "diff_1", lambda plane: plane[:-1]), "malformed_row"),
    ("a plane that is long", bent(W, "diff_1", lambda plane: np.append(plane, 0)), "malformed_row"),
    ("padding", bent(W, "signs", lambda s: s | (0x80 if len(s) * 8 > W.changed else 0)), "malformed_row"),
    (
        "a stream of another codec",
        changed(W, streams=dict(W.streams) | {"value_0": np.zeros(1, np.uint8)}),
        "malformed_row",
    ),
    ("one row left out", TRUE_ROWS[:2], "state_mismatch"),
    ("one row twice", [*TRUE_ROWS, W], "malformed_row"),
]


@pytest.mark.parametrize(("rows", "code"), [lie[1:] for lie in ROW_LIES], ids=[lie[0] for lie in ROW_LIES])
@pytest.mark.parametrize("agree", [True, False])
def test_lies_of_rows(rows: list[Row], code: str, agree: bool, folder: Path) -> None:
    found = survive(with_rows(rows, agree=agree), "arrays", HELD, folder)
    sums = [sum(getattr(row, name) for row in rows) for name in ("digest_after", "digest_before")]
    true = [sum(getattr(row, name) for row in TRUE_ROWS) for name in ("digest_after", "digest_before")]
    if agree and (sums[0] - sums[1] - true[0] + true[1]) & MASK:
        # A record that agrees with such rows does not lead from its parent's state digest to its own.
        assert found == "broken_chain"
    else:
        assert found == code


def test_rows_that_overlap(folder: Path) -> None:
    # Two dense rows over boxes that share a column, each true for itself.
    tensor = TENSORS[ORDINAL["w"]]
    old, new = STATES[HELD].bits["w"].reshape(20, 5), STATES[NEWEST].bits["w"].reshape(20, 5)
    flat = np.arange(100, dtype=np.uint32).reshape(20, 5)
    rows = []
    for first, last in ((0, 3), (2, 5)):
        where = flat[:, first:last].reshape(-1)
        before, after = (np.ascontiguousarray(bits[:, first:last]).reshape(-1) for bits in (old, new))
        positions = changed_positions(before, after)
        seed = np.uint64(tensor.seed)
        rows.append(
            Row(
                tensor=tensor.ordinal,
                box=Box((0, first), (20, last - first)),
                codec="gap-set",
                changed=len(positions),
                digest_before=int(digest_at(before[positions], where[positions], seed, np.uint64(0))),
                digest_after=int(digest_at(after[positions], where[positions], seed, np.uint64(0))),
                streams=CODECS["gap-set"].encode(BoxChange(before, after, find_changes(before, after)), tensor.dtype),
            )
        )
    shared = set(flat[:, 2].tolist()) & set(POSITIONS.tolist())
    stream = with_rows([TRUE_ROWS[0], *rows, TRUE_ROWS[2]], agree=False)
    assert survive(stream, "own", HELD, folder) == ("malformed_row" if shared else None)


def test_rows_are_refused_as_soon_as_they_cover_too_much() -> None:
    # What is staged stays in memory until all rows are read: a thousand true rows over one box must not get that far.
    tensor, bits, totals = TENSORS[W.tensor], NumpyBits(STATES[HELD].bits["w"]), Totals()
    row = row_of("w", "dense")
    stage_row(row, tensor, bits, totals)
    assert refusal(lambda: stage_row(row, tensor, bits, totals)) == "malformed_row"


# Messages that no Arrow writer makes.


def fields_with(**replaced: pa.Array) -> pa.RecordBatch:
    """The true batch with whole columns exchanged."""
    message = pa.ipc.read_message(pa.py_buffer(TRUE))
    batch = pa.ipc.read_record_batch(message, part_schema(STREAMS))
    columns = {name: replaced.get(name, batch.column(name)) for name in batch.schema.names}
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def lists(values: list[Any]) -> pa.Array:
    return pa.array(values, pa.list_(pa.uint64()))


BOXES = [[0, 0], [0, 0], [0]]
SCHEMA_LIES: list[tuple[str, dict[str, pa.Array]]] = [
    ("a null ordinal", {"tensor": pa.array([0, None, 4], pa.uint32())}),
    ("a null box", {"box_start": lists([BOXES[0], None, BOXES[2]])}),
    ("a null extent", {"box_shape": lists([[32, None], [20, 5], [16]])}),
    ("a null codec", {"codec": pa.array(["gap", None, "gap"], pa.utf8())}),
    ("a null stream", {"positions": pa.array([b"", None, b""], pa.large_binary())}),
    ("signed boxes", {"box_start": pa.array([[-1, 0], [0, 0], [0]], pa.list_(pa.int64()))}),
    ("a narrow ordinal", {"tensor": pa.array([0, 1, 4], pa.uint8())}),
    ("a narrow count", {"changed": pa.array([1, 1, 1], pa.uint32())}),
    ("floating digests", {"digest_before": pa.array([1.0, 2.0, 3.0], pa.float64())}),
    ("short offsets", {"positions": pa.array([b"\0"] * 3, pa.binary())}),
    ("text", {"positions": pa.array(["a"] * 3, pa.large_string())}),
    ("a dictionary", {"codec": pa.array(["gap"] * 3).dictionary_encode()}),
    ("bytes that are no text", {"codec": pa.array([b"gap", b"\xff\xfe", b"gap"], pa.binary())}),
    ("large lists", {"box_start": pa.array(BOXES, pa.large_list(pa.uint64()))}),
    ("structs", {"changed": pa.array([{"a": 1}] * 3)}),
    ("nothing but nulls", {"changed": pa.nulls(3)}),
]


@pytest.mark.parametrize("columns", [lie[1] for lie in SCHEMA_LIES], ids=[lie[0] for lie in SCHEMA_LIES])
def test_columns_of_another_type(columns: dict[str, pa.Array], folder: Path) -> None:
    data = message_of(fields_with(**columns))
    decoded = sum(read_claims(memoryview(data)).buffers)
    found = survive(describing(data, decoded=decoded), "own", HELD, folder)
    assert found in ("malformed_part", "malformed_row", "wrong_base", "unsupported_codec")


def test_no_rows(folder: Path) -> None:
    empty = pa.RecordBatch.from_pylist([], part_schema(STREAMS))
    for rows in (0, 3):
        assert survive(describing(message_of(empty), rows=rows, decoded=0), "own", HELD, folder) == "malformed_part"


@pytest.mark.parametrize("kept", [0, 19])
def test_no_rows_and_no_offsets(kept: int, folder: Path) -> None:
    # Arrow accepts an empty column whose buffers are empty too: all columns here, or those of the streams.
    data = bytearray(message_of(pa.RecordBatch.from_pylist([], part_schema(STREAMS))))
    metadata = _Flat(memoryview(bytes(data))[8 : 8 + struct.unpack_from("<i", data, 4)[0]])
    batch = metadata.field(metadata.follow(0), 2)
    assert batch is not None
    buffers = metadata.field(metadata.follow(batch), 2)
    assert buffers is not None
    first = metadata.follow(buffers)
    for number in range(kept, metadata.scalar("I", first)):
        struct.pack_into("<q", data, 8 + first + 4 + 16 * number + 8, 0)
    decoded = sum(read_claims(memoryview(bytes(data))).buffers)
    assert survive(describing(bytes(data), rows=0, decoded=decoded), "own", HELD, folder) == "malformed_part"


def test_too_many_or_too_few_columns(folder: Path) -> None:
    batch = fields_with()
    for columns in (batch.columns[:-1], batch.columns[:3], [*batch.columns, batch.columns[-1]], []):
        names = [str(number) for number in range(len(columns))]
        data = message_of(pa.RecordBatch.from_arrays(columns, names=names))
        decoded = sum(read_claims(memoryview(data)).buffers) if columns else 0
        assert survive(describing(data, decoded=decoded), "own", HELD, folder) == "malformed_part"


@pytest.mark.parametrize("compression", [None, "lz4"])
def test_other_compressions(compression: str | None, folder: Path) -> None:
    data = message_of(fields_with(), compression)
    assert survive(describing(data), "own", HELD, folder) == "malformed_part"


def test_other_messages(folder: Path) -> None:
    schema = part_schema(STREAMS).serialize().to_pybytes()
    nothing = (b"", b"\xff" * 8, b"\xff\xff\xff\xff\0\0\0\0", b"ARROW1\0\0")
    for data in (schema, schema + TRUE, TRUE + TRUE, TRUE[8:], *nothing):
        assert survive(describing(data), "own", HELD, folder) == "malformed_part"


def buffers_of(data: bytes) -> list[tuple[int, int]]:
    """Where the lengths of the compressed buffers of a message lie in it: place and claimed length."""
    body = 8 + struct.unpack_from("<i", data, 4)[0]
    reader = pa.ipc.read_message(pa.py_buffer(data))
    assert reader.body.size == len(data) - body
    claims = set(read_claims(memoryview(data)).buffers) - {0}
    # Buffers are aligned to 8 bytes and begin with their length, or with -1 if they are stored as they are.
    places = range(body, len(data) - 8, 8)
    found = [(at, struct.unpack_from("<q", data, at)[0]) for at in places]
    return [(at, length) for at, length in found if length == -1 or length in claims]


@pytest.mark.parametrize("claim", [2**40, 2**63 - 1, -2, -(2**63), 0, 1, 2**31, 2**33, GIB])
def test_lengths_that_lie(claim: int, folder: Path) -> None:
    found = []
    for at, _ in buffers_of(TRUE):
        data = TRUE[:at] + struct.pack("<q", claim) + TRUE[at + 8 :]
        decoded = refusal(partial(read_claims, memoryview(data)))
        total = sum(read_claims(memoryview(data)).buffers) if decoded is None else 0
        told = {min(total, 2**53 - 1), TRUE_PART.batches[0].decoded_bytes}
        found += [survive(describing(data, decoded=each), "own", HELD, folder) for each in told]
    assert len(found) > 5
    assert set(found) <= {"malformed_part", "limit_exceeded", "malformed_row", "wrong_base", "state_mismatch", None}
    if claim >= 2**31 or claim < -1:
        assert None not in found


def test_a_length_that_is_a_little_off(folder: Path) -> None:
    # Arrow itself believes it; the record agrees with it.
    for at, length in buffers_of(TRUE):
        for off in (-8, -1, 1, 8, 4096):
            data = TRUE[:at] + struct.pack("<q", length + off) + TRUE[at + 8 :]
            if refusal(partial(read_claims, memoryview(data))) is not None:
                continue
            decoded = sum(read_claims(memoryview(data)).buffers)
            code = survive(describing(data, decoded=decoded), "own", HELD, folder)
            assert code is None or code in CODES


def test_a_bomb(folder: Path) -> None:
    # 64 MiB of zeros in a few kilobytes: refused by its claim alone, and also if the record lies about it.
    zeros = pa.array([bytes(64 << 20), b"", b""], pa.large_binary())
    data = message_of(fields_with(positions=zeros))
    assert len(data) < 100_000
    decoded = sum(read_claims(memoryview(data)).buffers)
    before = pa.total_allocated_bytes()
    for told, code in ((decoded, "limit_exceeded"), (1000, "limit_exceeded")):
        assert survive(describing(data, decoded=told), "own", HELD, folder) == code
    assert pa.total_allocated_bytes() - before < 1 << 20


def test_a_bomb_that_claims_to_be_small(folder: Path) -> None:
    # The buffer says 100 bytes, the compressed frame holds 64 MiB.
    zeros = pa.array([bytes(64 << 20), b"", b""], pa.large_binary())
    data = message_of(fields_with(positions=zeros))
    [at] = [place for place, length in buffers_of(data) if length == 64 << 20]
    data = data[:at] + struct.pack("<q", 100) + data[at + 8 :]
    decoded = sum(read_claims(memoryview(data)).buffers)
    assert survive(describing(data, decoded=decoded), "own", HELD, folder) == "malformed_part"


@settings(max_examples=500)
@given(st.data(), st.booleans())
def test_any_damage_with_true_hashes(folder: Path, data: st.DataObject, metadata_only: bool) -> None:
    # The flatbuffer in front is where a few bits turn into offsets, counts and lengths.
    stored = bytearray(TRUE)
    end = 8 + struct.unpack_from("<i", TRUE, 4)[0] if metadata_only else len(TRUE)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, end - 1))
        if data.draw(st.booleans()):
            stored[at] ^= data.draw(st.integers(1, 255))
        else:
            value = data.draw(st.sampled_from([0, 1, 2**31 - 1, 2**32 - 1, 2**63 - 1, 2**64 - 1, 2**40, 2**64 - 8]))
            stored[at : at + 8] = struct.pack("<Q", value)[: len(stored) - at]
    whole = bytes(stored)
    claims = refusal(lambda: read_claims(memoryview(whole)))
    decoded = min(sum(read_claims(memoryview(whole)).buffers), 2**53 - 1) if claims is None else 0
    rows = read_claims(memoryview(whole)).rows if claims is None else 3
    stream = describing(whole, decoded=decoded, rows=rows if 0 <= rows < 2**53 else 3)
    code = survive(stream, "own", HELD, folder)
    assert code is None or code in CODES


@settings(max_examples=100)
@given(st.binary(max_size=300))
def test_any_bytes_as_a_batch(folder: Path, data: bytes) -> None:
    assert survive(describing(data), "own", HELD, folder) in CODES


def test_the_fixed_columns_are_those_of_the_specification() -> None:
    assert [field.name for field in FIXED_FIELDS] == [
        "tensor", "box_start", "box_shape", "codec", "changed", "digest_before", "digest_after",
    ]  # fmt: skip
