"""Tensor tables that are believed."""

from __future__ import annotations

from typing import Any

from deltawire.errors import MalformedRecordError, MalformedShardError
from deltawire.format import tensors
from mutants import Mutant
from mutants.patching import edit, replace, skip

_parse_table = tensors.parse_table


def _as_shard(data: bytes, **options: Any) -> Any:
    try:
        return _parse_table(data, **options)
    except MalformedRecordError as error:
        raise MalformedShardError(str(error)) from None


def _parse_without(check: str) -> Any:
    return edit(
        "deltawire.format.tensors:parse_table", (check, "if False:"), also=("deltawire.reading.stream:parse_table",)
    )


MUTANTS = [
    Mutant(
        name="tables-as-shards",
        what="reports tables that are no good as shards that are no good",
        patch=replace("deltawire.reading.stream:parse_table", by=_as_shard),
        caught_by=(
            "tables/name-empty",
            "tables/kind",
            "tables/extent-negative",
            "tables/extent-true",
            "tables/aliases-null",
            "tables/cut",
        ),
    ),
    Mutant(
        name="any-name",
        what="takes any name of a tensor",
        patch=skip("deltawire.format.tensors:_check_name"),
        caught_by=(
            "tables/name-metadata",
            "tables/name-control",
            "tables/name-next-line",
            "tables/name-reversed",
            "tables/name-too-long",
            "tables/alias-control",
        ),
    ),
    Mutant(
        name="names-twice",
        what="does not look whether names are unique",
        patch=_parse_without("if len(names | set(aliases)) != len(record.tensors) + len(record.aliases):"),
        caught_by=("tables/name-twice", "tables/alias-is-tensor", "tables/alias-twice"),
    ),
    Mutant(
        name="any-alias",
        what="does not look what aliases stand for",
        patch=_parse_without("if target not in names:"),
        caught_by=("tables/alias-of-alias", "tables/alias-of-nothing"),
    ),
    Mutant(
        name="empty-table",
        what="takes a table without tensors",
        patch=_parse_without("if not tensors:"),
        caught_by=("tables/empty",),
    ),
    Mutant(
        name="table-of-any-protocol",
        what="does not look at protocol and version",
        patch=skip("deltawire.format.features:check_protocol_of"),
        caught_by=("tables/protocol", "tables/major-version"),
    ),
    Mutant(
        name="no-limits",
        what="has no limits",
        patch=edit("deltawire.limits:Limits.check", ("if value > limit:", "if False:")),
        caught_by=("tables/too-many-dimensions", "tables/tensor-too-large"),
    ),
    Mutant(
        name="any-size",
        what="does not compare the size of an object",
        patch=edit(
            "deltawire.reading.transfer:Transfer.read_object",
            ("if len(data) != descriptor.bytes:", "if False:"),
            ("max_bytes=descriptor.bytes,", "max_bytes=max_bytes,"),
        ),
        caught_by=("tables/longer", "following/file-longer"),
    ),
    Mutant(
        name="any-bytes",
        what="does not compare the sha256 of an object",
        patch=edit(
            "deltawire.reading.transfer:Transfer.read_object", ("if sha256(data) != descriptor.digest:", "if False:")
        ),
        caught_by=("tables/other-bytes", "following/file-other"),
    ),
]
