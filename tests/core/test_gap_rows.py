"""The kernel that reads a ``gap`` row in one pass says what the separate steps say, of good rows and of any bytes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltawire.codecs.base import Base, BoxChange, Patch, Positions, Window
from deltawire.codecs.gap import GapCodec
from deltawire.errors import MalformedRowError
from deltawire.format.dtypes import DTYPES, Bits, Dtype
from deltawire.kernels import oracle
from deltawire.kernels.access import AHEAD, put, take
from deltawire.kernels.gap_rows import GapRow, decode_row
from deltawire.kernels.scan import Room, find_changes
from tests.strategies import WIDTHS, bit_arrays, dtypes, next_bits

U64 = st.integers(0, 2**64 - 1)
Bytes8 = npt.NDArray[np.uint8]
BF16 = DTYPES["BF16"]


class WindowBase(Base):
    """Old bits that a codec may look at where they are."""

    def __init__(self, bits: Bits, *, seed: int = 0, first: int = 0, shown: bool = True) -> None:
        self.bits, self.seed, self.first, self.shown = bits, seed, first, shown

    def gather(self, positions: Positions | None) -> Bits:
        return self.bits if positions is None else self.bits[positions]

    @property
    def window(self) -> Window | None:
        return Window(self.bits, self.seed, self.first) if self.shown else None


@st.composite
def boxes(draw: st.DrawFn) -> tuple[Dtype, Bits, Bits]:
    """A box before and after: small and of any kind, or with more changes than are worked on at a time."""
    dtype = draw(dtypes())
    if draw(st.booleans()):
        old = draw(bit_arrays(dtype, draw(st.integers(1, 300))))
        new = draw(next_bits(old, dtype))
    else:
        rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
        old = np.frombuffer(rng.bytes(draw(st.integers(1, 6000)) * dtype.width), dtype.storage)
        noise = np.frombuffer(rng.bytes(old.nbytes), dtype.storage)
        new = np.where(rng.random(old.size) < draw(st.sampled_from([0.001, 0.03, 0.2, 1.0])), noise, old)
    return dtype, old, (new if (old != new).any() else ~old)


@given(boxes(), U64, st.integers(0, 2**44))
def test_equals_the_oracle(box: tuple[Dtype, Bits, Bits], seed: int, first: int) -> None:
    dtype, old, new = box
    old.flags.writeable = False
    changes = oracle.find_changes(old, new)
    gaps = oracle.encode_gaps(changes.positions)
    signs, planes = oracle.encode_differences(changes.old, changes.new, dtype)
    row = decode_row(old, gaps, signs, tuple(planes), dtype, seed=seed, first=first)
    assert row is not None
    assert np.array_equal(row.positions, changes.positions)
    assert np.array_equal(row.old, changes.old)
    assert np.array_equal(row.new, changes.new)
    assert row.new.dtype == dtype.storage
    indices = changes.positions.astype(np.uint64) + np.uint64(first)
    assert row.before == oracle.digest_at(changes.old, indices, seed)
    assert row.after == oracle.digest_at(changes.new, indices, seed)


def outcome(streams: dict[str, Bytes8], dtype: Dtype, changed: int, base: Base, elements: int) -> Patch | str:
    try:
        return GapCodec().decode(streams, dtype, elements, changed, base)
    except MalformedRowError as error:
        return str(error)


@given(st.data(), dtypes(), st.integers(1, 4000))
def test_any_bytes_fare_as_on_the_long_way(data: st.DataObject, dtype: Dtype, elements: int) -> None:
    """A box of its own memory: what is read beyond it is most likely not there."""
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    old = np.frombuffer(rng.bytes(elements * dtype.width), dtype.storage).copy()
    size = data.draw(st.integers(1, 700))
    escapes = data.draw(st.sampled_from([0.0, 0.01, 0.5, 1.0]))
    gaps = np.where(rng.random(size) < escapes, 255, rng.integers(0, data.draw(st.integers(1, 255)), size))
    found = int((gaps != 255).sum())
    changed = max(found + data.draw(st.sampled_from([0, 0, 0, -1, 1])), 1)
    high = data.draw(st.sampled_from([1, 128, 256]))
    streams = {
        "positions": gaps.astype(np.uint8),
        "signs": np.packbits(rng.random(changed) < 0.5, bitorder="little"),
        **{f"diff_{plane}": rng.integers(0, high, changed).astype(np.uint8) for plane in range(dtype.width)},
    }
    short = outcome(streams, dtype, changed, WindowBase(old), elements)
    long = outcome(streams, dtype, changed, WindowBase(old, shown=False), elements)
    if isinstance(short, str) or isinstance(long, str):
        assert short == long
        return
    assert np.array_equal(short.positions, long.positions)  # type: ignore[arg-type]
    assert np.array_equal(short.bits, long.bits)
    assert short.digests is not None
    assert long.digests is None


def test_positions_far_beyond_the_box_are_not_read() -> None:
    old = np.zeros(1000, np.uint16)
    stream = np.full(1 << 16, 255, np.uint8)
    stream[-1] = 0
    one = np.zeros(1, np.uint8)
    assert decode_row(old, stream, one, (one, one), BF16, seed=0, first=0) is None
    streams = {"positions": stream, "signs": one, "diff_0": one, "diff_1": one}
    assert "positions" in str(outcome(streams, BF16, 1, WindowBase(old), old.size))


def test_codec_uses_the_window() -> None:
    rng = np.random.default_rng(0)
    old = rng.integers(0, 1 << 16, 5000, np.uint16)
    new = np.where(rng.random(old.size) < 0.05, old ^ 1, old).astype(np.uint16)
    changes = oracle.find_changes(old, new)
    streams = GapCodec().encode(BoxChange(old, new, changes), BF16)
    patch = GapCodec().decode(streams, BF16, old.size, len(changes.positions), WindowBase(old, seed=5, first=77))
    indices = changes.positions.astype(np.uint64) + np.uint64(77)
    assert patch.digests == tuple(oracle.digest_at(bits, indices, 5) for bits in (changes.old, changes.new))
    assert np.array_equal(patch.bits, changes.new)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("shift", [1, 2, 4])
def test_unaligned_box(width: int, shift: int) -> None:
    # A mapped file lies at whatever offset its header leaves.
    dtype = next(d for d in DTYPES.values() if d.width == width and d.order == "float")
    rng = np.random.default_rng(shift)
    old = np.frombuffer(rng.bytes(2000 * width), dtype.storage)
    room = np.zeros(old.nbytes + 8, np.uint8)
    moved = room[shift : shift + old.nbytes].view(dtype.storage)
    moved[:] = old
    changes = oracle.find_changes(old, np.where(rng.random(old.size) < 0.3, ~old, old))
    signs, planes = oracle.encode_differences(changes.old, changes.new, dtype)
    stream = oracle.encode_gaps(changes.positions)
    rows = [decode_row(flat, stream, signs, tuple(planes), dtype, seed=1, first=2) for flat in (old, moved)]
    assert all(isinstance(row, GapRow) for row in rows)
    aligned, unaligned = (row for row in rows if row is not None)
    assert np.array_equal(aligned.new, unaligned.new)
    assert (aligned.before, aligned.after) == (unaligned.before, unaligned.after)


@pytest.mark.parametrize("size", [0, 1, AHEAD - 1, AHEAD, AHEAD + 1, 3 * AHEAD])
@pytest.mark.parametrize("index", [np.uint32, np.uint64])
def test_access_around_the_distance_asked_ahead(size: int, index: type[np.unsignedinteger]) -> None:
    rng = np.random.default_rng(size)
    flat = rng.integers(0, 1 << 16, 5000, np.uint16)
    where = rng.permutation(flat.size)[:size].astype(index)
    assert np.array_equal(take(flat, where), flat[where])
    bits = rng.integers(0, 1 << 16, size, np.uint16)
    expected = flat.copy()
    expected[where] = bits
    put(flat, where, bits)
    assert np.array_equal(flat, expected)


def test_scan_of_an_array_that_is_written_to_meanwhile() -> None:
    """What the scan notes as the old bits lands in the array it compares, just ahead of where it looks again."""
    old = np.full(5000, 7, np.uint64)
    memory = np.arange(100, 5101, dtype=np.uint64)
    new = memory[:5000]
    room = Room(5000)
    room.old = memory[1:]
    found = find_changes(old, new, room)
    positions = found.positions.tolist()
    assert 0 < len(positions) < 5000
    assert positions == sorted(set(positions))
    assert 7 not in found.new.tolist(), "an element is listed that did not change"
    assert all(int(bits) == 100 + place for place, bits in zip(positions, found.new, strict=True))
