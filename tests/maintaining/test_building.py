"""Spans and anchors that are made from the store: complete, and bit for bit what they should be."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltawire import Publisher
from deltawire.errors import StreamNotFoundError
from deltawire.format import keys
from deltawire.format.dtypes import DTYPES
from deltawire.maintaining.builder import Builder
from deltawire.maintaining.ladder import Ladder, Span
from deltawire.parts.writer import PartOptions
from deltawire.producer import encoding
from deltawire.producer.anchors import NEVER, AnchorPolicy
from tests.faults.faulty_store import FaultyStore
from tests.maintaining.streams import (
    EVERY,
    PARTS,
    SMALL,
    Inspection,
    Line,
    check_newest,
    expected_spans,
    new_store,
    orphans,
    present_anchors,
    present_spans,
    write_line,
    written_lines,
)
from tests.retaining import retain
from tests.strategies import State


def builder(line: Line, *, shard_bytes: int = 300, ladder: Ladder = SMALL, anchors: AnchorPolicy = EVERY) -> Builder:
    return Builder(line.store, ladder=ladder, anchors=anchors, shard_bytes=shard_bytes, parts=PARTS, workers=2)


@settings(max_examples=40)
@given(written_lines(), st.sampled_from([1, 60, 1 << 30]), st.integers(3, 50))
def test_all_that_is_missing_is_made(line: Line, shard_bytes: int, box: int) -> None:
    with pytest.MonkeyPatch.context() as patch, builder(line, shard_bytes=shard_bytes) as building:
        patch.setattr(encoding, "BOX_ELEMENTS", box)
        built = building.run(force=True)
        again = building.run(force=True)
        Inspection(line).check()
    assert not built.problems
    newest = len(line.states) - 1
    assert newest in {*present_anchors(line.store), *line.rebases}
    assert set(built.spans) | set(built.dropped) == expected_spans(line)
    assert present_spans(line.store) == set(built.spans)
    assert not orphans(line.store)
    assert (again.anchors, again.spans, again.bytes_read) == ((), (), 0)
    check_newest(line)


def steady(count: int, *, size: int = 400, seed: int = 0) -> list[State]:
    """Two tensors of which a twentieth changes with each version."""
    rng = np.random.default_rng(seed)
    bf16, f32 = DTYPES["BF16"], DTYPES["F32"]
    state = State(
        {"a": rng.integers(0, 1 << 16, size, dtype=np.uint16), "b": rng.integers(0, 1 << 32, size, dtype=np.uint32)},
        {"a": bf16, "b": f32},
        {"a": (size // 4, 4), "b": (size,)},
    )
    line = [state]
    for _ in range(count - 1):
        bits = {name: old.copy() for name, old in line[-1].bits.items()}
        for array in bits.values():
            where = rng.choice(size, size // 20, replace=False)
            array[where] += rng.integers(1, 3, where.size).astype(array.dtype)
        line.append(replace(state, bits=bits))
    return line


def test_spans_are_smaller_than_what_they_replace() -> None:
    line = write_line(steady(17, size=4000))
    with builder(line, shard_bytes=1 << 30, ladder=Ladder(smallest=2, largest=16)) as building:
        built = building.run(force=True)
    assert set(built.spans) == expected_spans(line, Ladder(smallest=2, largest=16))
    Inspection(line).check()


def test_spans_grow_with_the_line_and_from_each_other() -> None:
    line = write_line(steady(9))
    with builder(line, anchors=NEVER) as building:
        building.run(force=True)
    more = Line(line.store, steady(17), [0])
    with Publisher(line.store, anchors=NEVER, parts=PARTS, take_over=True) as publisher:
        for state in more.states[9:]:
            publisher.publish(state.arrays(), dtypes=state.dtype_names())
    ladder = Ladder(smallest=2, largest=16)
    watched = FaultyStore(more.store)
    with Builder(watched, ladder=ladder, anchors=NEVER, parts=PARTS) as building:
        built = building.run(force=True)
    read = [call.key for call in watched.log if call.verb == "get_range"]
    assert present_spans(more.store) == expected_spans(more, ladder)
    assert Span(0, 16) in built.spans
    assert not [key for key in read if key.endswith(".arrow") and key < keys.data_prefix(8, "")], (
        "the deltas to version 8 are read over the span from 0 to 8"
    )
    Inspection(more).check()


def test_a_run_waits_until_enough_has_come() -> None:
    line = write_line(steady(8))
    with Builder(line.store, ladder=SMALL, anchors=NEVER, batch=8, parts=PARTS) as building:
        assert not building.run().spans
        assert building.run(force=True).spans
    grown = write_line(steady(9))
    with Builder(grown.store, ladder=SMALL, anchors=NEVER, batch=8, parts=PARTS) as building:
        assert building.run().spans
        assert not building.run().spans


def test_an_anchor_that_is_due_is_reason_enough() -> None:
    line = write_line(steady(6))
    with Builder(line.store, ladder=SMALL, anchors=AnchorPolicy(every=5, outweigh=None), batch=100) as building:
        assert building.run().anchors == (5,)
    Inspection(line).check()


def test_a_stream_without_versions_is_left_alone() -> None:
    store = new_store()
    with Builder(store) as building, pytest.raises(StreamNotFoundError):
        building.run(force=True)
    Publisher(store).close()
    with Builder(store) as building:
        built = building.run(force=True)
    assert (built.anchors, built.spans, built.problems) == ((), (), ())


def test_a_long_backlog_is_made_stretch_by_stretch() -> None:
    line = write_line(steady(21, size=80))
    with builder(line, shard_bytes=200) as building:
        built = building.run(force=True)
    assert present_spans(line.store) == set(built.spans) == expected_spans(line) - set(built.dropped)
    assert built.anchors == (20,)
    Inspection(line).check()


def test_a_span_over_a_state_that_comes_back_is_empty() -> None:
    first, second = steady(2)
    line = write_line([first, second, first, second, first])
    with builder(line, anchors=NEVER) as building:
        built = building.run(force=True)
    assert present_spans(line.store) == {Span(0, 2), Span(2, 4), Span(0, 4)} == set(built.spans)
    assert built.bytes_written == 0
    Inspection(line).check()


def test_spans_that_would_save_nothing_are_dropped_once() -> None:
    """A part for each of many tensors has more bytes than the one part of each delta."""
    rng = np.random.default_rng(0)
    names = [f"layer.{index}" for index in range(8)]
    state = State(
        {name: rng.integers(0, 1 << 16, 40, dtype=np.uint16) for name in names},
        dict.fromkeys(names, DTYPES["BF16"]),
        dict.fromkeys(names, (40,)),
    )
    line = write_line(
        [
            replace(state, bits={name: bits + np.uint16(number) for name, bits in state.bits.items()})
            for number in range(5)
        ],
        parts=PartOptions(),
    )
    with builder(line, shard_bytes=1, anchors=NEVER) as building:
        built = building.run(force=True)
        again = building.run(force=True)
    assert set(built.dropped) == expected_spans(line)
    assert not present_spans(line.store)
    assert not orphans(line.store)
    assert (again.dropped, again.bytes_read) == ((), 0)


@pytest.mark.parametrize("boundary", [3, 8])
def test_only_retained_versions_are_built_on(boundary: int) -> None:
    line = write_line(steady(12), anchors=AnchorPolicy(every=boundary, outweigh=None))
    retain(line.store, boundary)
    for number in range(boundary):
        line.store.delete(keys.version_key(number))
    with builder(line) as building:
        built = building.run(force=True)
    assert not built.problems
    assert present_spans(line.store) == {span for span in expected_spans(line) if span.base >= boundary}
    Inspection(line).check()
