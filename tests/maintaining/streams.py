"""Streams to build on, and what must hold of what was built."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from deltawire import Follower, Publisher
from deltawire.consumer.steps import stage_delta, take_snapshot
from deltawire.consumer.timings import Clock
from deltawire.deadline import Deadline
from deltawire.format import keys, records
from deltawire.format.records import Delta, SpanRecord, VersionRecord
from deltawire.format.tensors import TensorTable
from deltawire.limits import DEFAULT_LIMITS, MIB
from deltawire.maintaining.ladder import Ladder, Span
from deltawire.parts.writer import PartOptions, PartWriter
from deltawire.producer.anchors import NEVER, AnchorPolicy
from deltawire.producer.comparing import ArrayPair, HeldArray, SourceArray
from deltawire.producer.deltas import encode_delta
from deltawire.producer.encoding import Encoder, EncodingPool
from deltawire.reading.stream import Committed, StreamReader, check_anchor
from deltawire.reading.transfer import Transfer
from deltawire.store.base import Store
from deltawire.store.memory import MemoryStore
from deltawire.targets.arrays import ArraysTarget
from tests.faults.line import descriptors
from tests.strategies import State, codec_options, next_states, same_bits, states

FOREVER = Deadline(None)
SMALL = Ladder(smallest=2, largest=8)
EVERY = AnchorPolicy(every=1, outweigh=None)
PARTS = PartOptions(batch_bytes=200, part_bytes=300)
_NUMBERS = itertools.count()


def new_store() -> MemoryStore:
    return MemoryStore(f"maintaining-{next(_NUMBERS)}")


@dataclass(frozen=True)
class Line:
    """A stream in a store, and the states that were published into it."""

    store: MemoryStore
    states: list[State]
    rebases: list[int] = field(default_factory=list)
    """Versions whose tables are not those of the versions before."""


def write_line(
    line: Sequence[State],
    *,
    anchors: AnchorPolicy = NEVER,
    codecs: Mapping[str, Any] | None = None,
    shard_bytes: int = 1 << 30,
    files: Mapping[str, bytes] | None = None,
    parts: PartOptions = PARTS,
) -> Line:
    """Publish states one after the other."""
    store = new_store()
    rebases = []
    with Publisher(
        store, anchors=anchors, shard_bytes=shard_bytes, parts=parts, workers=1, **(codecs or {})
    ) as publisher:
        for number, state in enumerate(line):
            published = publisher.publish(state.arrays(), dtypes=state.dtype_names(), files=files)
            publisher.wait_for_anchor()
            assert publisher.anchor_error is None
            if published.record.snapshot is not None:
                rebases.append(number)
    return Line(store, list(line), rebases)


@st.composite
def histories(draw: st.DrawFn, *, versions: int = 9) -> list[State]:
    """A line of states; now and then the table changes, or an earlier state comes back."""
    line = [draw(states())]
    while len(line) < versions:
        kind = draw(st.integers(0, 15))
        if kind == 0:
            line.append(draw(states()))
        elif kind == 1:
            line.append(line[draw(st.integers(0, len(line) - 1))])
        else:
            line.append(draw(next_states(line[-1])))
    return line


@st.composite
def written_lines(draw: st.DrawFn) -> Line:
    """A stream of drawn states, with and without anchors of the producer's, shards, and codecs."""
    every = draw(st.sampled_from([None, 2, 3]))
    return write_line(
        draw(histories()),
        anchors=AnchorPolicy(every=every, outweigh=None) if every else NEVER,
        codecs=draw(codec_options),
        shard_bytes=draw(st.sampled_from([1, 200, 1 << 30])),
        files={"config.json": b"{}", "merges.txt": b"a b"},
    )


def expected_spans(line: Line, ladder: Ladder = SMALL) -> set[Span]:
    """All spans of the ladder that do not lead over a rebase."""
    every = ladder.spans(0, len(line.states) - 1)
    return {span for span in every if not any(span.base < rebase <= span.target for rebase in line.rebases)}


def present_spans(store: Store) -> set[Span]:
    found = (keys.parse_span(info.key) for info in store.list(keys.SPANS))
    return {Span(*ends) for ends in found if ends is not None}


def present_anchors(store: Store) -> list[int]:
    return [int(info.key[len(keys.ANCHORS) :].removesuffix(".json")) for info in store.list(keys.ANCHORS)]


class Inspection:
    """Every anchor and every span of a stream, applied."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._store = line.store
        self._transfer = Transfer(line.store, workers=2)
        self._reader = StreamReader(self._transfer)

    def check(self) -> None:
        """All that is there is right, bit for bit, and no object is there that nothing names."""
        for span in present_spans(self._store):
            self.check_span(span)
        for number in present_anchors(self._store):
            self.check_anchor(number)
        self._transfer.close()

    def check_span(self, span: Span) -> None:
        key = keys.span_key(*span)
        record = records.decode(self._get(key), SpanRecord, what=key, limits=DEFAULT_LIMITS)
        base, target = self._version(span.base), self._version(span.target)
        assert (record.base, record.version) == span
        assert (record.base_digest, record.version_digest) == (base.digest, target.digest)
        assert record.tensors == base.record.tensors == target.record.tensors
        assert (record.state_digest, record.epoch) == (target.record.state_digest, target.record.epoch)
        assert record.writer_features == self._reader.stream(FOREVER).writer_features
        deltas = [self._version(number).record for number in range(span.base + 1, span.target + 1)]
        assert record.replaces_bytes == sum(map(part_bytes, deltas))
        assert part_bytes(record) <= record.replaces_bytes
        folder = keys.data_prefix(span.target, record.commit_id)
        assert all(part.key.startswith(folder) for part in record.delta.parts)
        table = self._reader.table(base, FOREVER)
        self._check_rows(record, table, *(self._line.states[end] for end in span))

    def _check_rows(self, record: SpanRecord, table: TensorTable, was: State, becomes: State) -> None:
        target = ArraysTarget()
        target.begin_snapshot(table, table.tensors)
        for tensor in table.tensors:
            target.bits(tensor).flat[:] = was.bits[tensor.name]
        staged = stage_delta(self._transfer, record.delta, table, table.tensors, target.bits, FOREVER, Clock())
        for change in staged.changes:
            target.bits(change.tensor).scatter(change.where, change.new)
        for tensor in table.tensors:
            assert target.bits(tensor).flat.tobytes() == becomes.bits[tensor.name].tobytes(), tensor.name
        assert sums(record.delta) == sums(self._encoded(table, was, becomes))

    def _encoded(self, table: TensorTable, was: State, becomes: State) -> Delta:
        """The delta that a producer would make of the two states."""
        pool = EncodingPool(Encoder.of(self._reader.stream(FOREVER).writer_features), workers=1)
        try:
            return encode_delta(
                table.tensors,
                lambda tensor: ArrayPair(HeldArray(was.bits[tensor.name]), SourceArray(becomes.bits[tensor.name])),
                encoding=pool,
                writer=PartWriter(lambda index: f"data/{index}", lambda part, data: None, options=PARTS),
            ).delta
        finally:
            pool.close()

    def check_anchor(self, number: int) -> None:
        anchor, version = self._reader.anchor(number, FOREVER), self._version(number)
        check_anchor(anchor, version)
        assert anchor.tensors == version.record.tensors
        table = self._reader.table(version, FOREVER)
        target = ArraysTarget()
        snapshot = anchor.snapshot
        take_snapshot(
            self._transfer, target, snapshot, version, table, table.tensors, FOREVER, Clock(), whole_shards=True
        )
        assert same_bits(target.arrays, self._line.states[number])
        files = {file.name: file.digest for file in version.record.files}
        assert {file.name: file.digest for file in anchor.snapshot.files} == files
        folder = keys.data_prefix(number, anchor.commit_id)
        for descriptor in descriptors(self._get(keys.anchor_key(number))):
            assert descriptor["key"].startswith(folder) or descriptor["key"] == version.record.tensors.key
            assert len(self._get(descriptor["key"])) == descriptor["bytes"]

    def _version(self, number: int) -> Committed:
        return self._reader.version(number, FOREVER)

    def _get(self, key: str) -> bytes:
        return self._store.get(key, max_bytes=64 * MIB).data


def sums(delta: Delta) -> tuple[object, ...]:
    """What a delta comes to, whatever its parts."""
    return delta.changed_elements, delta.changed_tensors, delta.digest_before, delta.digest_after


def part_bytes(record: VersionRecord | SpanRecord) -> int:
    assert record.delta is not None
    return sum(part.bytes for part in record.delta.parts)


def orphans(store: Store) -> set[str]:
    """Objects below ``data/`` that no record names."""
    named = {
        descriptor["key"]
        for prefix in (keys.VERSIONS, keys.ANCHORS, keys.SPANS)
        for info in store.list(prefix)
        for descriptor in descriptors(store.get(info.key, max_bytes=64 * MIB).data)
    }
    return {info.key for info in store.list(keys.DATA)} - named


def check_newest(line: Line) -> None:
    """A newcomer comes to the newest version."""
    with Follower(line.store, workers=2) as follower:
        update = follower.poll()
        assert update is not None
        assert same_bits(follower.arrays, line.states[-1])
        follower.verify()
