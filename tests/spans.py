"""Spans written by hand, from the states of their two versions."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from deltawire import Follower
from deltawire.deadline import Deadline
from deltawire.format import keys, records
from deltawire.format.records import Part, SpanRecord
from deltawire.parts.writer import PartOptions, PartWriter
from deltawire.producer.comparing import ArrayPair, HeldArray, SourceArray
from deltawire.producer.deltas import encode_delta
from deltawire.producer.encoding import Encoder, EncodingPool
from deltawire.producer.envelope import envelope
from deltawire.reading.stream import Committed, StreamReader
from deltawire.reading.transfer import Transfer
from deltawire.store.base import Store
from deltawire.targets.arrays import ArraysTarget
from deltawire.targets.base import Held


def add_span(store: Store, base: int, target: int, **members: Any) -> SpanRecord:
    """Write the span from one version to another, with other members than the true ones if some are given."""
    (held, before), (last, after) = _state(store, base), _state(store, target)
    assert last.table.data == held.table.data
    head = envelope(last.committed.record.stream_id, "span", epoch=0, writer_features=())
    prefix = keys.data_prefix(target, head["commit_id"])

    def put(part: Part, data: pa.Buffer) -> None:
        store.put(part.key, bytes(data), mode="create")

    writer = PartWriter(lambda index: prefix + keys.part_name(index), put, options=PartOptions())
    encoding = EncodingPool(Encoder(), workers=1)
    try:
        encoded = encode_delta(
            held.table.tensors,
            lambda tensor: ArrayPair(HeldArray(before.bits(tensor).flat), SourceArray(after.bits(tensor).flat)),
            encoding=encoding,
            writer=writer,
        )
    finally:
        encoding.close()
    true: dict[str, Any] = {
        **head,
        "base": base,
        "base_digest": held.committed.digest,
        "version": target,
        "version_digest": last.committed.digest,
        "tensors": last.committed.record.tensors,
        "state_digest": last.committed.record.state_digest,
        "delta": encoded.delta,
        "replaces_bytes": replaced_bytes(_versions(store, range(base + 1, target + 1))),
    }
    record = SpanRecord(**(true | members))
    store.put(keys.span_key(base, target), records.encode(record), mode="overwrite")
    return record


def replaced_bytes(versions: list[Committed]) -> int:
    """Bytes of all parts of the deltas of these versions."""
    deltas = [version.record.delta for version in versions]
    return sum(part.bytes for delta in deltas if delta is not None for part in delta.parts)


def _versions(store: Store, numbers: range) -> list[Committed]:
    transfer = Transfer(store, workers=1)
    try:
        reader = StreamReader(transfer)
        return [reader.version(number, Deadline(None)) for number in numbers]
    finally:
        transfer.close()


def _state(store: Store, number: int) -> tuple[Held, ArraysTarget]:
    target = ArraysTarget()
    with Follower(store, target) as follower:
        follower.poll(to=number)
    assert target.held is not None
    return target.held, target
