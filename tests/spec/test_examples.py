"""JSON examples of SPEC.md: valid by the schemas, readable by the reference, and one stream together."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from deltawire.format import records
from deltawire.format.keys import LEASE, RETENTION, anchor_key, pin_key, span_key, table_key, version_key
from deltawire.format.strict_json import sha256
from deltawire.format.tensors import TensorTable
from deltawire.limits import DEFAULT_LIMITS
from deltawire.reading.stream import Committed, check_anchor, check_chain, check_ours
from tests.spec import document
from tests.spec.document import Block
from tests.spec.schemas import RECORDS, valid
from tests.spec.shapes import decode


def stored(block: Block) -> bytes:
    """The bytes that an example stands for: itself without white space."""
    return json.dumps(json.loads(block.text), separators=(",", ":"), ensure_ascii=False).encode()


def examples(schema: str) -> list[bytes]:
    return [stored(block) for block in document.blocks("schema") if block.tags["schema"] == schema]


def _versions() -> list[Committed]:
    decoded = [
        Committed(
            records.decode(data, records.VersionRecord, what="example", limits=DEFAULT_LIMITS), sha256(data), data
        )
        for data in examples("version")
    ]
    return sorted(decoded, key=lambda committed: committed.record.version)


def _only(schema: str, kind: type[records.R]) -> records.R:
    [data] = examples(schema)
    return records.decode(data, kind, what=schema, limits=DEFAULT_LIMITS)


def test_every_json_block_is_tagged_and_every_schema_has_an_example() -> None:
    tagged = len(document.blocks("schema")) + len(document.blocks("vector"))
    assert document.text().count("\n```json") + document.text().count("\n```hex") == tagged
    assert {block.tags["schema"] for block in document.blocks("schema")} == set(RECORDS)


@pytest.mark.parametrize("block", document.blocks("schema"), ids=lambda block: block.tags["schema"])
@pytest.mark.parametrize("strict", [False, True], ids=["open", "strict"])
def test_example_passes_its_schema(block: Block, strict: bool) -> None:
    assert valid(block.tags["schema"], json.loads(block.text), strict=strict)


@pytest.mark.parametrize("block", document.blocks("schema"), ids=lambda block: block.tags["schema"])
def test_example_is_read_and_written_again_by_the_reference(block: Block) -> None:
    data = stored(block)
    found = decode(block.tags["schema"], data)
    again = found.data if isinstance(found, TensorTable) else msgspec.json.encode(found)
    assert json.loads(again) == json.loads(data)


def test_examples_are_one_stream() -> None:
    stream = _only("stream", records.StreamRecord)
    versions, anchor, head = _versions(), _only("anchor", records.AnchorRecord), _only("head", records.HeadRecord)
    check_chain(versions)
    for committed in versions:
        check_ours(committed.record, stream, "example", committed.record.version)
    check_anchor(anchor, versions[anchor.version])
    lease = _only("lease", records.LeaseRecord)
    assert head.stream_id == lease.stream_id == stream.stream_id
    assert lease.epoch == versions[-1].record.epoch
    span = _only("span", records.SpanRecord)
    assert (span.base_digest, span.version_digest) == (versions[0].digest, versions[1].digest)
    for record in (span, _only("pin", records.PinRecord), _only("retention", records.RetentionRecord)):
        assert record.stream_id == stream.stream_id
    [table] = examples("tensor_table")
    first = versions[0].record
    assert {committed.record.tensors for committed in versions} == {anchor.tensors}
    assert first.tensors.key == table_key(0, first.commit_id)
    assert (first.tensors.bytes, first.tensors.digest) == (len(table), sha256(table))
    assert first.snapshot is not None
    assert first.snapshot.files == first.files == versions[1].record.files


def test_the_overview_lists_the_objects_of_the_examples() -> None:
    text = document.text().split("## 4 Overview")[1]
    listed = text.split("```")[1].split()
    named: set[str] = {"stream.json", "head.json", LEASE, anchor_key(1), version_key(0), version_key(1)}
    named |= {span_key(0, 1), RETENTION, pin_key("5a0f6a52-8c1f-4f4e-9f0e-9a1f3f8b2c77")}
    for schema in ("version", "anchor", "span"):
        for data in examples(schema):
            named |= set(_keys(json.loads(data)))
    assert listed == sorted(named)


def _keys(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["key"]] if "key" in value else []
        return own + [key for child in value.values() for key in _keys(child)]
    return [key for child in value for key in _keys(child)] if isinstance(value, list) else []
