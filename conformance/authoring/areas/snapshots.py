"""Snapshots and their shards (SPEC.md section 8.7)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from authoring.drafts import Draft, accepted, refused_next
from authoring.states import M64, small_model, trained
from authoring.stream import Edit, Json, Stream, dump, small_stream, unedited
from deltawire.format.strict_json import sha256

AREA = "snapshots"
DIGESTS = "deltawire.digests"
Header = Callable[[Json], object]
Shard = Callable[[bytes], bytes]


def drafts() -> Iterator[Draft]:
    """All cases."""
    yield from _headers()
    yield from _digests()
    yield from _shards()
    yield from _order()
    yield from _sound()


def _unchanged(data: bytes) -> bytes:
    return data


def _next(
    name: str, title: str, requirements: Sequence[str], error: str = "malformed_shard", *, header: Header = unedited,
    shard: Shard = _unchanged, record: Edit = unedited, table: Edit = unedited, shard_tensors: int | None = None,
    stored: Callable[[bytes], bytes | None] = _unchanged,
) -> Draft:  # fmt: skip
    """A rebase with a faulty snapshot, one shard of which is changed.

    Args:
        name, title, requirements, error: of the case.
        header, shard: change the header and the bytes; the record gives digests of what comes out.
        record, table: change the record and the table.
        shard_tensors: tensors to a shard; all in one if None.
        stored: what is stored in the end in place of the first shard; None for nothing.
    """

    def grow(stream: Stream) -> None:
        made = stream.rebase(
            small_model(seed="next"),
            edit=record,
            table=table,
            shard_tensors=shard_tensors,
            header=lambda parsed, number: None if number else header(parsed),
            shard=lambda data, number: data if number else shard(data),
        )
        if made["snapshot"]["shards"]:
            key = next(key for key in stream.objects if made["commit_id"] in key and "/model-00001" in key)
            found = stored(stream.objects.pop(key))
            if found is not None:
                stream.objects[key] = found

    return refused_next(
        AREA, name, title, requirements, small_stream(f"snapshots {name}", versions=1), error, grow=grow
    )  # fmt: skip


# In the shard: norm.weight at 0 to 28, embed.weight at 28 to 124, layers.0.mlp.weight at 124 to 244.


def _places(**places: tuple[int, int]) -> Header:
    def change(header: Json) -> None:
        for name, place in places.items():
            header[{"norm": "norm.weight", "embed": "embed.weight", "mlp": "layers.0.mlp.weight"}[name]][
                "data_offsets"
            ] = list(place)

    return change


def _without(name: str) -> Header:
    def change(header: Json) -> None:
        del header[name]
        _edit_digests(header, lambda digests: digests.pop(name))

    return change


def _edit_digests(header: Json, edit: Callable[[Json], object]) -> None:
    digests = json.loads(header["__metadata__"][DIGESTS])
    edit(digests)
    header["__metadata__"][DIGESTS] = dump(digests).decode()


def _digests_of(edit: Callable[[Json], object]) -> Header:
    return lambda header: _edit_digests(header, edit)


def _member(name: str, **members: Any) -> Header:
    return lambda header: header[name].update(members)


def _extra(header: Json) -> None:
    header["extra.weight"] = {"dtype": "BF16", "shape": [2], "data_offsets": [244, 248]}
    _edit_digests(header, lambda digests: digests.update({"extra.weight": "0" * 16}))


def _renamed(header: Json) -> None:
    header["norm.bias"] = header.pop("norm.weight")
    _edit_digests(header, lambda digests: digests.update({"norm.bias": digests.pop("norm.weight")}))


def _raw_header(change: Callable[[bytes], bytes]) -> Shard:
    """Change the JSON of the header, which keeps its length."""

    def edit(data: bytes) -> bytes:
        size = int.from_bytes(data[:8], "little")
        text = change(data[8 : 8 + size])
        assert len(text) == size
        return data[:8] + text + data[8 + size :]

    return edit


def _headers() -> Iterator[Draft]:
    yield _next(
        "hole", "a shard with four bytes between two tensors", ["SNP-5"],
        header=_places(mlp=(128, 248)), shard=lambda data: data[:-120] + bytes(4) + data[-120:],
    )  # fmt: skip
    yield _next(
        "overlap", "a shard in which two tensors share four bytes", ["SNP-5"],
        header=_places(mlp=(120, 240)), shard=lambda data: data[:-4],
    )  # fmt: skip
    yield _next(
        "trailing-bytes", "a shard with bytes behind its last tensor", ["SNP-5"], shard=lambda data: data + bytes(8)
    )
    yield _next(
        "place-too-small", "a shard with a place of two bytes less than its tensor has", ["SNP-5"],
        header=_places(mlp=(124, 242)), shard=lambda data: data[:-2],
    )  # fmt: skip
    yield _next(
        "tensor-missing", "a shard without the last of its tensors", ["SNP-3", "SNP-1"],
        header=_without("layers.0.mlp.weight"), shard=lambda data: data[:-120],
    )  # fmt: skip
    yield _next(
        "tensor-too-many", "a shard with a tensor that the table has not got", ["SNP-3", "SNP-1"],
        header=_extra, shard=lambda data: data + bytes(4),
    )  # fmt: skip
    yield _next("tensor-renamed", "a shard with a tensor under another name", ["SNP-3"], header=_renamed)
    yield _next(
        "other-dtype", "a shard with a tensor of another dtype of the same width", ["SNP-3"],
        header=_member("norm.weight", dtype="I32"),
    )  # fmt: skip
    yield _next(
        "other-shape", "a shard with a matrix the other way round", ["SNP-3"],
        header=_member("embed.weight", shape=[6, 8]),
    )  # fmt: skip
    yield _next(
        "header-not-json", "a shard with a header that is not JSON", ["SNP-5"],
        shard=_raw_header(lambda text: b"[" + text[1:]),
    )  # fmt: skip
    yield _next(
        "header-member-twice", "a shard whose header has a tensor twice", ["SNP-5", "JSN-1"],
        shard=_raw_header(lambda text: text.replace(b'"embed.weight":{', b'"norm.weight" :{', 1)),
    )  # fmt: skip


def _opposed(digests: Json) -> None:
    for name, by in (("norm.weight", 1), ("embed.weight", -1)):
        digests[name] = f"{(int(digests[name], 16) + by) & M64:016x}"


def _digests() -> Iterator[Draft]:
    yield _next(
        "no-digests", "a shard without the digests of its tensors", ["SNP-4"],
        header=lambda header: header["__metadata__"].pop(DIGESTS),
    )  # fmt: skip
    yield _next(
        "digest-missing", "a shard without the digest of one of its tensors", ["SNP-4"],
        header=_digests_of(lambda digests: digests.pop("norm.weight")),
    )  # fmt: skip
    yield _next(
        "digest-too-many", "a shard with the digest of a tensor that it does not hold", ["SNP-4"],
        header=_digests_of(lambda digests: digests.update(lm_head="0" * 16)),
    )  # fmt: skip
    yield _next(
        "digests-wrong", "a shard with two wrong digests whose sum is right", ["SNP-5"], "state_mismatch",
        header=_digests_of(_opposed),
    )  # fmt: skip
    yield _next(
        "bits-wrong", "a shard with one bit that the digest of its tensor does not know", ["SNP-5", "DIG-3"],
        "state_mismatch", shard=lambda data: data[:-1] + bytes([data[-1] ^ 1]),
    )  # fmt: skip


def _first(**members: Any) -> Edit:
    """Say something else of the first shard."""
    return lambda record: record["snapshot"]["shards"][0].update(members)


def _shards() -> Iterator[Draft]:
    yield _next(
        "shard-digest", "a shard that has another sha256 than its record says", ["SNP-5", "DSC-3"], "digest_mismatch",
        record=_first(digest=sha256(b"another shard")),
    )  # fmt: skip
    yield _next(
        "header-digest", "a shard whose header has another sha256 than its record says", ["SNP-5"], "digest_mismatch",
        record=_first(header_digest=sha256(b"another header")),
    )  # fmt: skip
    yield _header_bytes()
    yield _next(
        "shard-cut-short", "a shard that ends in the middle of a tensor", ["DSC-3", "SNP-5"], "size_mismatch",
        stored=lambda data: data[:-50],
    )  # fmt: skip
    yield _next(
        "shard-longer", "a shard with a byte more than its record says", ["DSC-3"], "size_mismatch",
        stored=lambda data: data + b"\0",
    )  # fmt: skip
    yield _next(
        "shard-missing", "a shard that is not in the store", ["DSC-3"], "missing_object", stored=lambda _: None
    )  # fmt: skip
    yield _next(
        "table-of-terabytes", "a table that claims four terabytes for a tensor in a shard of some hundred bytes",
        ["LIM-1", "SNP-3"], table=lambda table: table["tensors"][2].update(shape=[1 << 20, 1 << 20]),
    )  # fmt: skip


def _header_bytes() -> Draft:
    shards: list[bytes] = []

    def record(made: Json) -> None:
        shard = made["snapshot"]["shards"][0]
        shard["header_bytes"] += 8
        shard["header_digest"] = sha256(shards[0][: shard["header_bytes"]])

    def keep(data: bytes) -> bytes:
        shards.append(data)
        return data

    return _next(
        "header-bytes", "a shard whose header is shorter than its record says", ["SNP-5"], "size_mismatch",
        shard=keep, record=record,
    )  # fmt: skip


def _order() -> Iterator[Draft]:
    record = "malformed_record"
    yield _next(
        "gap-between-shards", "two shards with a tensor between them that neither holds", ["SNP-3"], record,
        record=lambda made: made["snapshot"]["shards"].pop(1), shard_tensors=1,
    )  # fmt: skip
    yield _next(
        "shards-out-of-order", "shards that are not in table order", ["SNP-3"], record,
        record=lambda made: made["snapshot"]["shards"].reverse(), shard_tensors=1,
    )  # fmt: skip
    yield _next(
        "first-shard-missing", "a snapshot whose first shard begins with the second tensor", ["SNP-3"], record,
        record=lambda made: made["snapshot"]["shards"].pop(0), shard_tensors=1,
    )  # fmt: skip
    yield _next(
        "last-shard-missing", "a snapshot that ends before the last tensor of the table", ["SNP-3", "SNP-1"],
        "state_mismatch", record=lambda made: made["snapshot"]["shards"].pop(), shard_tensors=1,
    )  # fmt: skip
    yield _next(
        "no-shards", "a snapshot without shards", ["SNP-3"], record,
        record=lambda made: made["snapshot"]["shards"].clear(),
    )  # fmt: skip
    yield _next(
        "header-longer-than-shard", "a shard whose header is longer than the shard by its record", ["SNP-3"], record,
        record=_first(header_bytes=1 << 20),
    )  # fmt: skip
    yield _next(
        "header-of-seven-bytes", "a shard with a header of seven bytes by its record", ["SNP-3"], record,
        record=_first(header_bytes=7),
    )  # fmt: skip
    yield _next(
        "media-type", "a shard whose media type is that of parts", ["SNP-3"], record,
        record=_first(media_type="application/vnd.apache.arrow.file"),
    )  # fmt: skip


def _sound() -> Iterator[Draft]:
    stream = Stream("snapshots three shards")
    stream.create()
    stream.rebase(small_model(), shard_tensors=1)
    stream.delta(trained(small_model(), 1))
    yield accepted(AREA, "three-shards", "a snapshot in three shards, and a delta after it", ["SNP-2", "SNP-3"], stream)
    stream = Stream("snapshots more in header")
    stream.create()
    stream.rebase(small_model(), header=lambda header, _: header["__metadata__"].update(format="tf", note="ü"))
    yield accepted(
        AREA, "more-metadata", "a shard with metadata that nobody knows", ["SNP-4", "VER-4"], stream
    )  # fmt: skip
