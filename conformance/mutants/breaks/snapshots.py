"""Shards that are believed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from deltawire.errors import MalformedShardError
from mutants import Mutant
from mutants.breaks.parts import short_ranges
from mutants.patching import both, edit, replace


def _header_without(check: str) -> Callable[[], None]:
    return edit(
        "deltawire.snapshots.header:parse_header",
        (check, "if False:"),
        also=("deltawire.consumer.loading:parse_header", "deltawire.snapshots.mapping:parse_header"),
    )


def _record_without(check: str) -> Callable[[], None]:
    return edit("deltawire.format.records:_check_snapshot", (check, "if False:"))


def _any_tensors(header: Any, *_: Any, **__: Any) -> dict[str, int]:
    return defaultdict(int, header.digests())


MUTANTS = [
    Mutant(
        name="holes",
        what="does not look whether tensors lie end to end",
        patch=_header_without("if entry.begin != at:"),
        caught_by=("snapshots/hole", "snapshots/overlap"),
    ),
    Mutant(
        name="trailing-bytes",
        what="does not look whether tensors fill the shard",
        patch=_header_without("if length + at != file_bytes:"),
        caught_by=("snapshots/trailing-bytes",),
    ),
    Mutant(
        name="any-place",
        what="does not hold places against shapes",
        patch=edit(
            "deltawire.snapshots.header:_entry", ("if math.prod(shape) * kind.bits != 8 * (end - begin):", "if False:")
        ),
        caught_by=("snapshots/place-too-small",),
    ),
    Mutant(
        name="any-tensors",
        what="does not hold a shard against the table",
        patch=replace("deltawire.consumer.loading:check_against_table", by=_any_tensors),
        caught_by=(
            "snapshots/tensor-missing",
            "snapshots/tensor-too-many",
            "snapshots/tensor-renamed",
            "snapshots/other-dtype",
            "snapshots/other-shape",
            "snapshots/no-digests",
            "snapshots/digest-missing",
            "snapshots/digest-too-many",
        ),
    ),
    Mutant(
        name="headers-as-records",
        what="reports headers that are no good as records that are no good",
        patch=edit(
            "deltawire.snapshots.header:parse_header",
            ("raise MalformedShardError(str(error)) from None", "raise"),
            also=("deltawire.consumer.loading:parse_header",),
        ),
        caught_by=("snapshots/header-not-json", "snapshots/header-member-twice"),
    ),
    Mutant(
        name="any-tensor-digest",
        what="does not compare tensors with their digests",
        patch=edit(
            "deltawire.consumer.loading:_load_shard",
            ("if found[tensor.name] & _MASK != digests[tensor.name]:", "if False:"),
        ),
        caught_by=("snapshots/digests-wrong", "snapshots/bits-wrong"),
    ),
    Mutant(
        name="any-shard-digest",
        what="does not compare the sha256 of shards",
        patch=edit(
            "deltawire.consumer.loading:_load_shard",
            ('if whole and "sha256:" + hasher.hexdigest() != shard.digest:', "if False:"),
        ),
        caught_by=("snapshots/shard-digest",),
    ),
    Mutant(
        name="any-header-digest",
        what="does not compare the sha256 of headers",
        patch=edit("deltawire.consumer.loading:_read_header", ("if sha256(data) != shard.header_digest:", "if False:")),
        caught_by=("snapshots/header-digest",),
    ),
    Mutant(
        name="any-header-length",
        what="does not compare the length of headers",
        patch=edit(
            "deltawire.consumer.loading:_read_header",
            ("if header_length(data, limits=transfer.limits) != shard.header_bytes:", "if False:"),
        ),
        caught_by=("snapshots/header-bytes",),
    ),
    Mutant(
        name="any-shard-size",
        what="does not compare the size of shards, and fills up what is too short",
        patch=both(
            edit(
                "deltawire.consumer.loading:check_room",
                ("if found != shard.bytes:", "if False:"),
                also=("deltawire.consumer.steps:check_room",),
            ),
            replace("deltawire.store.local:LocalStore.get_range", by=short_ranges),
        ),
        caught_by=("snapshots/shard-longer", "snapshots/shard-cut-short"),
    ),
    Mutant(
        name="room-as-size",
        what="reports a shard that its tensors do not fit in as one of another size",
        patch=edit(
            "deltawire.consumer.loading:check_room",
            ("raise MalformedShardError(", "raise SizeMismatchError("),
            also=("deltawire.consumer.steps:check_room",),
        ),
        caught_by=("snapshots/table-of-terabytes",),
    ),
    Mutant(
        name="shards-in-any-order",
        what="does not look in which order shards are",
        patch=_record_without("if shard.first_tensor != expected or shard.last_tensor < shard.first_tensor:"),
        caught_by=(
            "snapshots/gap-between-shards",
            "snapshots/shards-out-of-order",
            "snapshots/first-shard-missing",
        ),
    ),
    Mutant(
        name="any-header-size",
        what="does not look whether a header fits in its shard by the record",
        patch=_record_without("if not 8 <= shard.header_bytes <= shard.bytes:"),
        caught_by=("snapshots/header-longer-than-shard", "snapshots/header-of-seven-bytes"),
    ),
    Mutant(
        name="any-media-type",
        what="does not look at the media type of shards",
        patch=_record_without("if shard.media_type != SAFETENSORS_TYPE:"),
        caught_by=("snapshots/media-type",),
    ),
    Mutant(
        name="records-as-shards",
        what="reports records that are no good as shards that are no good",
        patch=replace("deltawire.format.records:MalformedRecordError", by=MalformedShardError),
        caught_by=("snapshots/no-shards",),
    ),
]
