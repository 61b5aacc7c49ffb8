"""Parts that are believed, or not read to their end."""

from __future__ import annotations

from typing import Any

from deltawire.errors import MalformedPartError, MalformedRowError
from deltawire.parts import message, reader
from mutants import Mutant
from mutants.patching import ANYTHING, both, edit, replace, skip

_read_batch, _decoded_length = reader.read_batch, message._decoded_length  # noqa: SLF001


def short_ranges(store: Any, key: str, start: int, length: int) -> bytes:
    """What is there of a range, and zeros for the rest."""
    data: bytes = store.get(key, max_bytes=1 << 30).data
    return data[start : start + length].ljust(length, b"\0")


def _first_batches(data: bytes, part: Any, batch: Any, *more: Any, **options: Any) -> list[Any]:
    return _read_batch(data, part, batch, *more, **options) if batch == part.batches[0] else []


def _compressed_length(body: memoryview, start: int, size: int) -> int:
    if size and body[start : start + 8] == b"\xff" * 8:
        raise MalformedPartError("a buffer claims a negative length")
    return _decoded_length(body, start, size)


MUTANTS = [
    Mutant(
        name="no-delta-invariants",
        what="does not hold what a record says of parts and batches to any rule",
        patch=skip("deltawire.format.records:check_delta"),
        caught_by=(
            "parts/batch-leaves-part",
            "parts/batches-overlap",
            "parts/first-above-last",
            "parts/stream-named-twice",
            "parts/media-type",
        ),
    ),
    Mutant(
        name="no-batch-digests",
        what="does not compare the sha256 of batches",
        patch=replace("deltawire.parts.reader:sha256", by=lambda _: ANYTHING),
        caught_by=(
            "parts/batch-digest",
            "parts/bit-flipped",
            "planning/damaged-part",
            "following/half-way",
            "following/follow-damaged",
            "following/damaged-batch",
        ),
    ),
    Mutant(
        name="short-ranges",
        what="takes what is there of a range, and zeros for the rest",
        patch=replace("deltawire.store.local:LocalStore.get_range", by=short_ranges),
        caught_by=("parts/cut-short",),
    ),
    Mutant(
        name="missing-object-of-the-store",
        what="lets the store's code for what is not there through",
        patch=replace("deltawire.errors:MissingObjectError.code", by="object_not_found"),
        caught_by=("parts/part-missing", "tables/missing", "snapshots/shard-missing", "following/file-missing"),
    ),
    Mutant(
        name="no-claims",
        what="lets Arrow decompress whatever a batch says of itself",
        patch=skip("deltawire.parts.reader:_check_claims"),
        caught_by=("parts/not-compressed", "parts/lz4", "parts/decoded-bytes", "parts/row-count"),
    ),
    Mutant(
        name="any-compression",
        what="reads batches of any compression",
        patch=skip("deltawire.parts.message:_check_compression"),
        caught_by=("parts/lz4",),
    ),
    Mutant(
        name="no-bombs",
        what="does not compare sizes before and after decompression",
        patch=skip("deltawire.limits:Limits.check_expansion"),
        caught_by=("parts/bomb-claimed", "parts/bomb-in-record", "parts/bomb"),
    ),
    Mutant(
        name="parts-as-rows",
        what="reports batches that are no good as rows that are no good",
        patch=replace(
            "deltawire.parts.reader:MalformedPartError",
            "deltawire.parts.message:MalformedPartError",
            by=MalformedRowError,
        ),
        caught_by=(
            "parts/schema-message",
            "parts/no-continuation",
            "parts/beyond-the-body",
            "parts/buffer-outside-body",
            "parts/column-too-many",
            "parts/buffer-too-few",
            "parts/dictionary",
            "parts/offsets-descend",
            "parts/offsets-past-buffer",
            "parts/not-utf8",
            "parts/not-zstd",
        ),
    ),
    Mutant(
        name="nulls",
        what="does not look for nulls",
        patch=edit("deltawire.parts.reader:_check_claims", ("if claims.nulls:", "if False:")),
        caught_by=("parts/null",),
    ),
    Mutant(
        name="any-range-of-tensors",
        what="does not compare the tensors of a batch with the record, nor whether there are any",
        patch=both(
            skip("deltawire.parts.reader:_check_range"),
            edit(
                "deltawire.parts.reader:read_batch",
                ("if not record_batch.num_rows:", "if False:"),
                also=("deltawire.consumer.steps:read_batch",),
            ),
        ),
        caught_by=("parts/first-tensor", "parts/last-tensor", "parts/empty-batch"),
    ),
    Mutant(
        name="first-batch-only",
        what="reads the first batch of each part",
        patch=replace("deltawire.consumer.steps:read_batch", by=_first_batches),
        caught_by=("parts/two-parts",),
    ),
    Mutant(
        name="every-buffer-compressed",
        what="refuses buffers that are stored as they are",
        patch=replace("deltawire.parts.message:_decoded_length", by=_compressed_length),
        caught_by=("parts/stored-buffers",),
    ),
]
