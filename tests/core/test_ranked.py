"""The codec ``ranked``: held to a plain reading of SPEC.md, on real and on hostile streams."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from deltawire.codecs.base import BoxChange
from deltawire.codecs.registry import CODECS
from deltawire.errors import MalformedRowError
from deltawire.format.dtypes import DTYPES, Bits, Dtype
from deltawire.kernels import oracle, subsets
from deltawire.kernels.levels import MAX_CLASSES, count_classes, level_counts
from deltawire.kernels.ranked import _read, encode_ranked
from deltawire.kernels.subsets import PADDING
from tests.core.test_codecs import HeldBase
from tests.strategies import CHANGES, bit_arrays, dtypes, next_bits

RANKED = CODECS["ranked"]
Streams = dict[str, np.ndarray[tuple[int], np.dtype[np.uint8]]]


@st.composite
def boxes(draw: st.DrawFn, *, max_size: int = 700) -> tuple[Dtype, Bits, Bits]:
    """A box of floats or others before and after a change; around the size of blocks and beyond."""
    dtype = draw(dtypes())
    old = draw(bit_arrays(dtype, draw(st.integers(1, max_size))))
    new = draw(next_bits(old, dtype, tuple(kind for kind in CHANGES if kind != "none")))
    return dtype, old, ~old if np.array_equal(old, new) else new


def encoded(old: Bits, new: Bits, dtype: Dtype) -> Streams:
    return RANKED.encode(BoxChange(old, new, oracle.find_changes(old, new)), dtype)


@given(boxes())
def test_a_plain_reader_finds_the_same(box: tuple[Dtype, Bits, Bits]) -> None:
    dtype, old, new = box
    streams = encoded(old, new, dtype)
    where = np.flatnonzero(old != new)
    found = oracle.decode_ranked(old, dtype, streams["classes"], streams["items"])
    assert found == {int(position): int(new[position]) for position in where}


@st.composite
def cuts(draw: st.DrawFn) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    later = draw(st.sets(st.integers(1, 255), max_size=MAX_CLASSES - 1))
    return np.array([0, *sorted(later)], np.uint8)


@given(boxes(), cuts())
def test_any_cut_into_classes_will_do(box: tuple[Dtype, Bits, Bits], starts: np.ndarray) -> None:
    dtype, old, new = box
    changes = oracle.find_changes(old, new)
    codes, items = encode_ranked(old, changes.positions, changes.old, changes.new, starts)
    ends = np.append(starts[1:] - np.uint8(1), np.uint8(255))
    classes = np.concatenate([np.array([starts.size], np.uint8), ends, codes])
    patch = RANKED.decode({"classes": classes, "items": items}, dtype, old.size, len(changes.positions), HeldBase(old))
    assert patch.positions is not None
    assert np.array_equal(patch.positions, changes.positions)
    assert np.array_equal(patch.bits, changes.new)
    assert patch.old is not None
    assert np.array_equal(patch.old, changes.old)


@given(boxes(max_size=300), st.data())
def test_what_it_refuses_is_what_a_plain_reader_refuses(box: tuple[Dtype, Bits, Bits], data: st.DataObject) -> None:
    # One byte of a stream is another, or is not there: often still a row, and then of the same meaning to both.
    dtype, old, new = box
    streams = encoded(old, new, dtype)
    name = data.draw(st.sampled_from([name for name, stream in streams.items() if len(stream)]))
    place = data.draw(st.integers(0, len(streams[name]) - 1))
    if data.draw(st.booleans()):
        streams[name] = np.delete(streams[name], place)
    else:
        streams[name] = streams[name].copy()
        streams[name][place] ^= data.draw(st.integers(1, 255))
    try:
        found = oracle.decode_ranked(old, dtype, streams["classes"], streams["items"])
    except (ValueError, IndexError):
        found = {}
    changed = max(len(found), 1)
    try:
        patch = RANKED.decode(streams, dtype, old.size, changed, HeldBase(old))
    except MalformedRowError:
        assert not found
    else:
        assert patch.positions is not None
        assert dict(zip(patch.positions.tolist(), patch.bits.tolist(), strict=True)) == found


@given(st.binary(max_size=60), st.binary(max_size=60), boxes(max_size=200), st.data())
def test_noise_is_refused_or_read_as_a_plain_reader_reads_it(
    noise: bytes, more: bytes, box: tuple[Dtype, Bits, Bits], data: st.DataObject
) -> None:
    dtype, old, _ = box
    count = data.draw(st.integers(1, 3))
    ends = sorted(data.draw(st.sets(st.integers(0, 254), min_size=count - 1, max_size=count - 1)))
    classes = np.frombuffer(bytes([count, *ends, 255]) + noise, np.uint8)
    streams = {"classes": classes, "items": np.frombuffer(more, np.uint8)}
    try:
        found = oracle.decode_ranked(old, dtype, classes, streams["items"])
    except ValueError:
        found = {}
    try:
        patch = RANKED.decode(streams, dtype, old.size, max(len(found), 1), HeldBase(old))
    except MalformedRowError:
        assert not found
    else:
        assert patch.positions is not None
        assert dict(zip(patch.positions.tolist(), patch.bits.tolist(), strict=True)) == found


@given(st.data(), st.integers(1, 2000))
@example(None, 70_000)
def test_subsets_come_back_in_the_fewest_bits(data: st.DataObject | None, total: int) -> None:
    chosen = [0, 69_999] if data is None else sorted(data.draw(st.sets(st.integers(0, total - 1), max_size=total)))
    items = np.array(chosen, np.uint32)
    room, gaps = np.zeros(total // 8 + 200, np.uint8), np.empty(total + 2, np.int64)
    start = 0 if data is None else data.draw(st.integers(0, 20))
    code, end = subsets.write_subset(items, items.size, total, gaps, room, start)
    bits = oracle.BitReader(room)
    bits.take(start)
    assert oracle.read_subset(code, total, bits) == chosen
    assert end - start <= total, "a bitmap would have been shorter"
    found = np.empty(items.size, np.uint32)
    count, after = subsets.read_subset(code, total, room, start, end, found)
    assert (count, after) == (items.size, end)
    assert found.tolist() == chosen


@pytest.mark.parametrize("width", [1, 2, 4, 8])
def test_levels_and_classes_are_counted(width: int) -> None:
    rng = np.random.default_rng(width)
    bits = rng.integers(0, 1 << 63, 5000, np.uint64).astype(f"<u{width}")
    magnitudes = bits & bits.dtype.type((1 << (8 * width - 1)) - 1)
    levels = (magnitudes >> bits.dtype.type(max(8 * width - 9, 0))).astype(int)
    assert level_counts(bits).tolist() == np.bincount(levels, minlength=256).tolist()
    starts = np.array([0, 3, 64, 65, 127], np.uint8)
    expected = np.bincount(np.digitize(levels, starts) - 1, minlength=5)
    assert count_classes(bits, starts).sizes.tolist() == expected.tolist()


@pytest.mark.parametrize("codes", [[1], [96], [96, 64], [96, 64, 128], [96, 96, 96, 5], [128, 64, 64, 64]])
def test_memory_of_what_is_refused_is_let_go(codes: list[int]) -> None:
    # An error that passes from one compiled function to the next would keep it for ever.
    old = np.zeros(1000, np.uint16)
    ranks, values = np.empty(1000, np.uint32), np.empty(1000, np.uint64)
    marks = [np.empty(1000, np.bool_) for _ in range(2)]
    sizes, ends, data = np.array([old.size]), np.empty(1, np.int64), np.zeros(PADDING, np.uint8)
    read: Any = _read
    assert not read(np.array(codes, np.uint8), sizes, data, 0, 15, ranks, ends, *marks, values)
    kept = [weakref.ref(array) for array in (ranks, values, *marks, data)]
    del ranks, values, marks, data
    assert [reference() for reference in kept] == [None] * len(kept)


def test_a_training_step_takes_less_than_gap() -> None:
    # Weights of which the small ones change nearly always and the large ones hardly ever.
    rng = np.random.default_rng(0)
    old = (rng.standard_normal(1 << 20).astype(np.float32) * 0.02).view(np.uint32).astype(np.uint64) >> 16
    bits = old.astype(np.uint16)
    chance = 1 - np.exp(-0.3 * 2.0 ** (115 - (bits >> 7 & 255).astype(float)))
    moved = rng.random(bits.size) < chance
    new = bits + np.where(moved, rng.choice(np.array([1, 0xFFFF], np.uint16), bits.size), 0).astype(np.uint16)
    change = BoxChange(bits, new, oracle.find_changes(bits, new))
    ranked = sum(len(stream) for stream in RANKED.encode(change, DTYPES["BF16"]).values())
    exponents = bits >> 7 & 255
    entropy = 0.0
    for exponent in np.unique(exponents):
        share = moved[exponents == exponent].mean()
        if 0 < share < 1:
            own = -(share * np.log2(share) + (1 - share) * np.log2(1 - share))
            entropy += own * np.count_nonzero(exponents == exponent)
    least = (entropy + np.count_nonzero(moved)) / 8  # a sign each
    assert least < ranked < 1.03 * least
