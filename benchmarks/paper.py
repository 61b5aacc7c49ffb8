"""Records of a model that fits in no memory here: real tables, records and descriptors, of parts that do not exist.

How batches and parts are cut is the writer's own rule, and what stands in the records is what would stand there; only
sizes are assumed (``Sizes``), and digests are random.
"""

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from deltawire.format import keys, records
from deltawire.format.boxes import split
from deltawire.format.records import (
    ARROW_TYPE,
    JSON_TYPE,
    SAFETENSORS_TYPE,
    Batch,
    Delta,
    Descriptor,
    Parent,
    Part,
    Shard,
    Snapshot,
    SpanRecord,
    StreamRecord,
    VersionRecord,
)
from deltawire.format.strict_json import sha256
from deltawire.format.tensors import TensorTable
from deltawire.parts.writer import PartOptions
from deltawire.producer.encoding import BOX_ELEMENTS
from deltawire.producer.envelope import envelope
from deltawire.snapshots.header import build_header
from deltawire.snapshots.writer import plan_shards
from deltawire.store.base import Store

STREAM_ID = "6f0f8a4e-0000-4000-8000-000000000001"
TABLE_KEY = keys.table_key(0, STREAM_ID)
SHARD_BYTES = 4 << 30
OPTIONS = PartOptions()
STREAMS = ("positions", "signs", "diff_0", "diff_1", "diff_2", "diff_3")
ROW_BYTES = 90
"""Of the columns before the streams, which a box needs however little of it changed."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """What a delta comes to."""

    changed: float
    """Fraction of the elements that change in a version."""
    stored: float = 0.45
    """Bytes after compression over bytes before: what ``gap`` reaches on training steps of bf16."""

    def after(self, versions: int) -> "Sizes":
        """The same over several versions, if elements change at rates that are distributed exponentially.

        The mean rate is ``changed``: small weights change with almost every step, and large ones seldom.
        """
        steps = versions * self.changed
        return Sizes(steps / (1 + steps), self.stored)


def digest() -> str:
    """Of bytes that do not exist."""
    return f"sha256:{random.getrandbits(256):064x}"


def paper_delta(
    table: TensorTable, step: Sizes, prefix: str, *, versions: int = 1, options: PartOptions = OPTIONS
) -> Delta:
    """The delta over so many versions, in each of which every tensor changes alike.

    Of the state digest, of which there are no bits, each version is one more than the one before.
    """
    sizes = step if versions == 1 else step.after(versions)
    parts: list[Part] = []
    batches: list[Batch] = []
    size = 8 + 600  # magic and schema
    for raw, rows, first, last in _batches(table, sizes, options):
        stored = int(raw * sizes.stored)
        decoded = raw + rows * ROW_BYTES
        batches.append(
            Batch(
                offset=size,
                bytes=stored,
                digest=digest(),
                decoded_bytes=decoded,
                rows=rows,
                first_tensor=first,
                last_tensor=last,
            )
        )
        size += stored
        if size >= options.part_limit(len(parts)):
            parts.append(_part(prefix, len(parts), size, batches))
            batches, size = [], 8 + 600
    if batches:
        parts.append(_part(prefix, len(parts), size, batches))
    return Delta(
        changed_elements=int(table.elements * sizes.changed),
        changed_tensors=len(table.tensors),
        digest_before=f"{0:016x}",
        digest_after=f"{versions:016x}",
        parts=tuple(parts),
    )


def _batches(table: TensorTable, sizes: Sizes, options: PartOptions) -> Iterator[tuple[int, int, int, int]]:
    """Bytes before compression, rows, first and last tensor of each batch."""
    raw, rows, first, count = 0.0, 0, 0, 0
    for tensor in table.tensors:
        # Positions, a sign bit and planes of the changed elements; where nearly all change, all of them as they are.
        width = tensor.dtype.width
        each = min(sizes.changed * (1 + 1 / 8 + width), width)
        for box in split(tensor.storage_shape, BOX_ELEMENTS):
            raw += each * box.elements
            first, rows = (first, rows + 1) if rows else (tensor.ordinal, 1)
            if raw >= options.batch_limit(count):
                yield int(raw), rows, first, tensor.ordinal
                raw, rows, count = 0.0, 0, count + 1
    if rows:
        yield int(raw), rows, first, table.tensors[-1].ordinal


def _part(prefix: str, number: int, size: int, batches: Iterable[Batch]) -> Part:
    return Part(
        key=prefix + keys.part_name(number),
        media_type=ARROW_TYPE,
        bytes=size + 1000,
        digest=digest(),
        streams=STREAMS,
        batches=tuple(batches),
    )


def paper_snapshot(table: TensorTable, prefix: str) -> Snapshot:
    """A snapshot of all tensors, with headers that are really built, for their size."""
    runs = plan_shards(table.tensors, SHARD_BYTES)
    shards = []
    for number, run in enumerate(runs):
        header = build_header(run, {tensor.name: tensor.seed for tensor in run})
        shards.append(
            Shard(
                key=prefix + keys.shard_name(number + 1, len(runs)),
                media_type=SAFETENSORS_TYPE,
                bytes=len(header) + sum(tensor.bytes for tensor in run),
                digest=digest(),
                header_bytes=len(header),
                header_digest=digest(),
                first_tensor=run[0].ordinal,
                last_tensor=run[-1].ordinal,
            )
        )
    names = sum(len(tensor.name) + 50 for tensor in table.tensors)
    index = Descriptor(key=prefix + keys.SHARD_INDEX, media_type=JSON_TYPE, bytes=names, digest=digest())
    return Snapshot(shards=tuple(shards), index=index)


def paper_version(
    table: TensorTable,
    number: int,
    *,
    parent: str | None = None,
    delta: Delta | None = None,
    snapshot: Snapshot | None = None,
) -> bytes:
    """The record of a version, with the digest of its parent's record, as it would be stored."""
    record = VersionRecord(
        **envelope(STREAM_ID, "version", epoch=0, writer_features=()),
        version=number,
        parent=None if parent is None else Parent(version=number - 1, digest=parent),
        tensors=table.described(TABLE_KEY),
        state_digest=f"{number:016x}",
        delta=delta,
        snapshot=snapshot,
    )
    return records.encode(record)


class PaperStream:
    """A stream whose records are all there, and whose parts and shards are not: good for every plan, for no step."""

    def __init__(self, store: Store, table: TensorTable) -> None:
        self._store = store
        self._table = table
        self._digests: list[str] = []
        stream = StreamRecord(**envelope(STREAM_ID, "stream", epoch=0, writer_features=()), writers="single")
        store.put(keys.STREAM, records.encode(stream), mode="create")

    def version(self, *, delta: Delta | None = None, snapshot: Snapshot | None = None) -> None:
        """Commit the next version."""
        number = len(self._digests)
        parent = self._digests[-1] if number else None
        data = paper_version(self._table, number, parent=parent, delta=delta, snapshot=snapshot)
        self._digests.append(sha256(data))
        self._store.put(keys.version_key(number), data, mode="create")

    def span(self, base: int, target: int, delta: Delta, *, replaces_bytes: int) -> bytes:
        """Add a span; the bytes of its record."""
        record = SpanRecord(
            **envelope(STREAM_ID, "span", epoch=0, writer_features=()),
            base=base,
            base_digest=self._digests[base],
            version=target,
            version_digest=self._digests[target],
            tensors=self._table.described(TABLE_KEY),
            state_digest=f"{target:016x}",
            delta=delta,
            replaces_bytes=replaces_bytes,
        )
        data = records.encode(record)
        self._store.put(keys.span_key(base, target), data, mode="create")
        return data


def part_bytes(delta: Delta) -> int:
    """Size of all parts."""
    return sum(part.bytes for part in delta.parts)


def fetched_by(delta: Delta, ordinals: npt.NDArray[np.int64]) -> tuple[int, int]:
    """Requests and bytes of a reader of some tensors, given ascending: every batch that may hold one of them."""
    batches = [batch for part in delta.parts for batch in part.batches]
    first, last, size = np.array([(batch.first_tensor, batch.last_tensor, batch.bytes) for batch in batches]).T
    wanted = np.searchsorted(ordinals, first) < np.searchsorted(ordinals, last, side="right")
    return int(wanted.sum()), int(size[wanted].sum())
