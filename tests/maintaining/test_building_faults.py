"""Building while the store fails, the builder dies, others build too, and what is there is damaged or collected."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field

import msgspec
import pytest

from deltawire import Publisher
from deltawire.errors import DeltawireError, StoreDeniedError, UnsupportedFeatureError
from deltawire.format import keys, records
from deltawire.format.records import SpanRecord, VersionRecord
from deltawire.limits import DEFAULT_LIMITS
from deltawire.maintaining.builder import Builder
from deltawire.maintaining.building import Built
from deltawire.maintaining.ladder import Ladder, Span
from deltawire.producer.anchors import NEVER, AnchorPolicy
from deltawire.store.base import Store
from deltawire.store.memory import MemoryStore
from tests.faults.faulty_store import APPLICABLE, BindingBugError, Call, Fault, FaultyStore
from tests.faults.line import descriptors
from tests.maintaining.streams import (
    EVERY,
    PARTS,
    Inspection,
    Line,
    expected_spans,
    new_store,
    orphans,
    present_anchors,
    present_spans,
    write_line,
)
from tests.maintaining.test_building import steady
from tests.retaining import retain

LADDER = Ladder(smallest=2, largest=4)


def built_by(store: Store, *, anchors: AnchorPolicy = EVERY, ladder: Ladder = LADDER) -> Built:
    with Builder(store, ladder=ladder, anchors=anchors, shard_bytes=300, parts=PARTS, workers=1) as builder:
        return builder.run(force=True)


def copy_of(line: Line) -> Line:
    store = new_store()
    for info in line.store.list(""):
        store.put(info.key, line.store.get(info.key, max_bytes=info.bytes).data, mode="create")
    return Line(store, line.states, line.rebases)


@pytest.fixture(scope="module")
def small() -> Line:
    """Five versions of two tensors, with a file."""
    return write_line(steady(5, size=100), files={"config.json": b"{}"})


def check_complete(line: Line) -> None:
    assert present_spans(line.store) == expected_spans(line, LADDER)
    assert len(line.states) - 1 in present_anchors(line.store)
    Inspection(line).check()


def calls_of(line: Line) -> list[Call]:
    watched = FaultyStore(copy_of(line).store)
    built_by(watched)
    return watched.log


@pytest.mark.lengthy
def test_any_call_may_fail(small: Line) -> None:
    """Whatever fails, what is there is right, nothing is named that is missing, and the next run makes the rest."""
    calls = calls_of(small)
    assert len(calls) > 50
    for index in range(len(calls)):
        for fault in sorted(set().union(*APPLICABLE.values())):
            line = copy_of(small)
            faulty = FaultyStore(line.store, {index: fault})
            failed = None
            try:
                built_by(faulty)
            except DeltawireError as error:
                failed = error
            if faulty.log[index].fault is None:
                continue  # this call has no such fault
            if failed is None and not present_spans(line.store) ^ expected_spans(line, LADDER):
                assert not orphans(line.store), faulty.log[index]
            Inspection(line).check()
            built_by(line.store)
            check_complete(line)


def test_it_may_die_at_any_call(small: Line) -> None:
    for index in range(len(calls_of(small))):
        line = copy_of(small)
        faulty = FaultyStore(line.store, {index: Fault.BUG})
        with suppress(BindingBugError):
            built_by(faulty)
            assert faulty.log[index].key.startswith(keys.PINS)  # a failing pin stops nobody. PIN-7
        Inspection(line).check()
        built_by(line.store)
        check_complete(line)


def test_two_at_once(small: Line) -> None:
    line = copy_of(small)
    barrier = threading.Barrier(2)
    results: list[Built] = []

    def build() -> None:
        barrier.wait()
        results.append(built_by(line.store))

    threads = [threading.Thread(target=build) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 2
    made = [span for built in results for span in built.spans]
    assert len(made) == len(set(made))
    assert set(made) == expected_spans(line, LADDER)
    assert sum(len(built.anchors) for built in results) == 1
    assert not orphans(line.store)
    check_complete(line)


@dataclass
class Meanwhile:
    """Does something once, just before a record is created."""

    prefix: str
    act: Callable[[str], object]
    done: list[str] = field(default_factory=list)

    def __call__(self, call: Call) -> None:
        if call.verb == "create" and call.key.startswith(self.prefix) and not self.done:
            self.done.append(call.key)
            self.act(call.key)


def test_who_comes_second_removes_what_it_has_written(small: Line) -> None:
    line = copy_of(small)
    other = Meanwhile(keys.ANCHORS, lambda key: built_by(line.store))
    built = built_by(FaultyStore(line.store, before=other))
    assert other.done
    assert (built.spans, built.anchors, built.problems) == ((), (), ())
    assert len(built.present) == 1 + len(expected_spans(line, LADDER))
    assert not orphans(line.store)
    check_complete(line)


@pytest.mark.parametrize("prefix", [keys.SPANS, keys.ANCHORS])
def test_what_was_taken_for_an_orphan_is_taken_back(small: Line, prefix: str) -> None:
    line = copy_of(small)

    def collect(key: str) -> None:
        for orphan in orphans(line.store):
            line.store.delete(orphan)

    built = built_by(FaultyStore(line.store, before=Meanwhile(prefix, collect)))
    # What was made before is whole; all that was still without a record is gone, and so is its record.
    assert len(built.problems) == len(expected_spans(line, LADDER)) + (prefix == keys.ANCHORS)
    assert not orphans(line.store)
    Inspection(line).check()
    built_by(line.store)
    check_complete(line)


def test_what_is_not_retained_any_more_is_taken_back() -> None:
    line = write_line(steady(9, size=100), anchors=AnchorPolicy(every=4, outweigh=None))
    move = Meanwhile(keys.SPANS, lambda key: retain(line.store, 4))
    built = built_by(FaultyStore(line.store, before=move))
    assert present_spans(line.store) == {span for span in expected_spans(line, LADDER) if span.base >= 4}
    assert built.problems
    assert not orphans(line.store)


def test_a_record_that_could_not_be_looked_after_is_looked_after_later(small: Line) -> None:
    line = copy_of(small)
    denied = True

    def refuse(call: Call) -> None:
        if denied and call.verb == "head" and "-" in call.key and created(line.store):
            raise StoreDeniedError("no")

    faulty = FaultyStore(line.store, before=refuse)
    with Builder(faulty, ladder=LADDER, anchors=NEVER, parts=PARTS, workers=1) as builder:
        built = builder.run(force=True)
        assert len(built.problems) >= len(built.spans) == len(expected_spans(line, LADDER))
        for part in [info.key for info in line.store.list(keys.DATA) if "00002-" in info.key]:
            if part in named_by_spans(line.store):
                line.store.delete(part)
        denied = False
        builder.run(force=True)
    check_spans(line)


def created(store: Store) -> bool:
    return any(True for _ in store.list(keys.SPANS))


def named_by_spans(store: Store) -> set[str]:
    found = (store.get(info.key, max_bytes=1 << 20).data for info in store.list(keys.SPANS))
    return {descriptor["key"] for record in found for descriptor in descriptors(record) if "part" in descriptor["key"]}


def check_spans(line: Line) -> None:
    assert present_spans(line.store) == expected_spans(line, LADDER)
    Inspection(line).check()


def damaged(store: MemoryStore, prefix: str) -> None:
    """Flip a bit in the middle of every object with this prefix."""
    for key in [info.key for info in store.list(keys.DATA) if info.key.startswith(prefix)]:
        data = bytearray(store.get(key, max_bytes=1 << 24).data)
        data[len(data) // 2] ^= 1
        store.put(key, data, mode="overwrite")


def missing(store: MemoryStore, prefix: str) -> None:
    for key in [info.key for info in store.list(keys.DATA) if info.key.startswith(prefix)]:
        store.delete(key)


DAMAGE = [damaged, missing]
WIDE = Ladder(smallest=2, largest=8)


@pytest.mark.parametrize("damage", DAMAGE)
def test_what_does_not_need_a_damaged_delta_is_made(damage: Callable[[MemoryStore, str], None]) -> None:
    line = write_line(steady(13, size=100), anchors=AnchorPolicy(every=7, outweigh=None), files={"a.json": b"1"})
    damage(line.store, f"{keys.DATA}{3:020d}-")
    built = built_by(line.store, ladder=WIDE)
    assert present_spans(line.store) == {
        span
        for span in expected_spans(line, WIDE)
        if not span.base < 3 <= span.target and (span.target < 3 or span.base >= 7)
    }
    assert [sentence for sentence in built.problems if "version 3" in sentence]
    assert 12 in present_anchors(line.store)
    assert not orphans(line.store)
    Inspection(line).check()


def test_a_span_leads_round_a_damaged_delta() -> None:
    line = write_line(steady(9, size=100))
    built_by(line.store, ladder=Ladder(smallest=2, largest=2), anchors=NEVER)
    missing(line.store, f"{keys.DATA}{3:020d}-")
    built = built_by(line.store, ladder=WIDE)
    assert present_spans(line.store) == expected_spans(line, WIDE)
    assert not built.problems
    Inspection(line).check()


def cut_short(span: SpanRecord) -> bytes:
    return records.encode(span)[:-1]


def of_another_base(span: SpanRecord) -> bytes:
    return records.encode(msgspec.structs.replace(span, base_digest=span.version_digest))


def to_another_state(span: SpanRecord) -> bytes:
    delta = msgspec.structs.replace(span.delta, digest_after="0" * 16)
    return records.encode(msgspec.structs.replace(span, delta=delta))


@pytest.mark.parametrize("spoil", [cut_short, of_another_base, to_another_state])
def test_a_span_that_is_no_good_is_gone_round(spoil: Callable[[SpanRecord], bytes]) -> None:
    line = write_line(steady(9, size=100))
    built = built_by(line.store, ladder=Ladder(smallest=2, largest=2), anchors=NEVER)
    assert Span(2, 4) in built.spans
    key = keys.span_key(2, 4)
    span = records.decode(line.store.get(key, max_bytes=1 << 20).data, SpanRecord, what=key, limits=DEFAULT_LIMITS)
    line.store.put(key, spoil(span), mode="overwrite")
    built = built_by(line.store, ladder=WIDE)
    assert [sentence for sentence in built.problems if "2-4" in sentence]
    assert present_spans(line.store) == expected_spans(line, WIDE)
    for made in expected_spans(line, WIDE) - {Span(2, 4)}:
        Inspection(line).check_span(made)


def test_an_older_snapshot_serves_for_a_damaged_one() -> None:
    line = write_line(steady(12, size=100), anchors=AnchorPolicy(every=4, outweigh=None))
    anchor = max(present_anchors(line.store))
    record = line.store.get(keys.anchor_key(anchor), max_bytes=1 << 20).data
    for descriptor in descriptors(record):
        if descriptor["key"].endswith(".safetensors"):
            damaged(line.store, descriptor["key"])
    built = built_by(line.store, ladder=Ladder(smallest=2, largest=2), anchors=EVERY)
    assert present_spans(line.store) == expected_spans(line, Ladder(smallest=2, largest=2))
    assert built.anchors == (11,)
    assert [sentence for sentence in built.problems if f"snapshot of version {anchor} " in sentence]


def test_rows_that_a_record_does_not_count_are_missed() -> None:
    line = write_line(steady(5, size=4000))
    key = keys.version_key(4)
    record = records.decode(line.store.get(key, max_bytes=1 << 20).data, VersionRecord, what=key, limits=DEFAULT_LIMITS)
    assert record.delta is not None
    parts = record.delta.parts[:-1]
    assert parts
    shorter = msgspec.structs.replace(record, delta=msgspec.structs.replace(record.delta, parts=parts))
    line.store.put(key, records.encode(shorter), mode="overwrite")
    built = built_by(line.store)
    assert present_spans(line.store) == {Span(0, 2)}
    assert not built.anchors
    assert [sentence for sentence in built.problems if "version 4" in sentence]
    assert {key.split("-", 1)[0] for key in orphans(line.store)} <= {f"{keys.DATA}{4:020d}"}


@pytest.mark.parametrize("number", [3, 5])
def test_a_version_record_that_is_lost_ends_a_stretch(number: int) -> None:
    line = write_line(steady(12, size=100), anchors=AnchorPolicy(every=6, outweigh=None))
    line.store.put(keys.version_key(number), b"{}", mode="overwrite")
    built = built_by(line.store)
    expected = {
        span for span in expected_spans(line, LADDER) if span.target < number or (span.base > number and span.base >= 6)
    }
    assert present_spans(line.store) == expected
    assert [sentence for sentence in built.problems if f"version {number} " in sentence]
    assert 11 in built.anchors


def test_the_same_failure_is_not_met_twice() -> None:
    line = write_line(steady(9, size=100))
    missing(line.store, f"{keys.DATA}{3:020d}-")
    watched = FaultyStore(line.store)
    with Builder(watched, ladder=LADDER, anchors=NEVER, parts=PARTS, workers=1) as builder:
        assert builder.run(force=True).problems
        before = len(watched.log)
        again = builder.run(force=True)
    assert (again.problems, again.bytes_read) == ((), 0)
    assert not [call for call in watched.log[before:] if call.key.startswith(keys.DATA)]


def test_each_byte_is_read_once() -> None:
    """One pass, whatever is made of it: the snapshot once, and each delta once, but for batches that groups share."""
    line = write_line(steady(17, size=4000))
    watched = CountingStore(line.store)
    with Builder(watched, ladder=Ladder(smallest=2, largest=16), anchors=EVERY, shard_bytes=8000) as builder:
        built = builder.run(force=True)
    assert len(built.spans) == 8 + 4 + 2 + 1
    stored = sum(info.bytes for info in line.store.list(keys.DATA) if info.key.endswith((".arrow", ".safetensors")))
    parts = sum(info.bytes for info in line.store.list(keys.DATA) if info.key.endswith(".arrow"))
    assert watched.ranged <= stored + parts


class CountingStore(FaultyStore):
    """Counts bytes asked for by range."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.ranged = 0

    def get_range(self, key: str, start: int, length: int) -> bytes:
        with self._lock:
            self.ranged += length
        return super().get_range(key, start, length)


def test_a_feature_that_writers_must_know_is_refused() -> None:
    store = new_store()
    Publisher(store).close()
    data = store.get(keys.STREAM, max_bytes=1 << 20).data.replace(
        b'"writer_features":[]', b'"writer_features":["novel"]'
    )
    store.put(keys.STREAM, data, mode="overwrite")
    with pytest.raises(UnsupportedFeatureError):
        built_by(store)


def test_what_a_pass_reads_is_pinned() -> None:
    """And what was collected before the pin was there is looked for again."""
    line = write_line(steady(9, size=100), anchors=AnchorPolicy(every=4, outweigh=None))
    pinned: list[tuple[int, int]] = []

    def pin(first: int, last: int) -> AbstractContextManager[None]:
        pinned.append((first, last))
        if len(pinned) == 1:
            retain(line.store, 4)
        return nullcontext()

    with Builder(line.store, ladder=LADDER, anchors=NEVER, parts=PARTS, workers=1, pin=pin) as builder:
        built = builder.run(force=True)
    assert pinned == [(0, 4), (4, 8)]
    assert not built.problems
    assert present_spans(line.store) == {span for span in expected_spans(line, LADDER) if span.base >= 4}
