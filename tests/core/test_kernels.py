"""Every compiled kernel equals its oracle in plain NumPy."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from deltawire.format.dtypes import DTYPES, Bits, Dtype
from deltawire.kernels import gaps, oracle, values
from deltawire.kernels.access import put, take
from deltawire.kernels.digest import digest_at, digest_changes, digest_range
from deltawire.kernels.scan import Room, find_changes
from tests.strategies import WIDTHS, bit_arrays, changed_pairs, dtypes, next_bits

U64 = st.integers(0, 2**64 - 1)
BY_WIDTH = {width: next(d for d in DTYPES.values() if d.width == width and not d.packed) for width in WIDTHS}


def unaligned(array: Bits, shift: int) -> Bits:
    """The same elements at an address that is ``shift`` bytes off."""
    room = np.zeros(array.nbytes + 16, np.uint8)
    moved = room[shift : shift + array.nbytes].view(array.dtype)
    moved[:] = array
    return moved


def scan(old: Bits, new: Bits) -> npt.NDArray[np.uint32]:
    # The room is filled with rubbish and exactly as large as promised.
    room = Room(old.size)
    for place in (room.positions, room.old, room.new):
        place.fill(0xDEADBEEF)
    found = find_changes(old, new, room)
    assert np.array_equal(found.old, old[found.positions])
    assert np.array_equal(found.new, new[found.positions])
    assert found.old.dtype == found.new.dtype == old.dtype
    return found.positions


@given(st.data(), dtypes())
def test_scan_equals_oracle(data: st.DataObject, dtype: Dtype) -> None:
    old, new = data.draw(changed_pairs(dtype))
    found = scan(old, new)
    assert found.dtype == np.uint32
    assert np.array_equal(found, oracle.changed_positions(old, new))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 1023, 1024, 1025, 8191, 8192, 8193, 16385])
def test_scan_at_word_and_run_boundaries(width: int, size: int) -> None:
    rng = np.random.default_rng(size)
    old = np.frombuffer(rng.bytes(size * width), f"<u{width}")
    for share in (0.0, 0.001, 0.5, 1.0):
        new = np.where(rng.random(size) < share, ~old, old)
        assert np.array_equal(scan(old, new), oracle.changed_positions(old, new))
    for place in {0, size // 2, size - 1} if size else set():
        new = old.copy()
        new[place] ^= np.array(1 << (8 * width - 1), old.dtype)
        assert scan(old, new).tolist() == [place]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("shift", range(8))
def test_scan_of_unaligned_arrays(width: int, shift: int) -> None:
    # Arrays mapped from a file lie at whatever offset the header leaves them.
    rng = np.random.default_rng(shift)
    old = np.frombuffer(rng.bytes(301 * width), f"<u{width}")
    new = np.where(rng.random(301) < 0.1, ~old, old)
    expected = oracle.changed_positions(old, new)
    assert np.array_equal(scan(unaligned(old, shift), unaligned(new, shift)), expected)
    assert np.array_equal(scan(unaligned(old, shift), new), expected)
    assert np.array_equal(scan(old, unaligned(new, shift)), expected)


def test_scan_compares_bits_not_numbers() -> None:
    nan, other_nan = 0x7FC00000, 0x7FC00001
    old = np.array([nan, nan, 0, 0x3F800000], np.uint32)
    new = np.array([nan, other_nan, 0x80000000, 0x3F800000], np.uint32)
    assert scan(old, new).tolist() == [1, 2]  # equal NaNs are equal, 0.0 and -0.0 are not


@st.composite
def positions(draw: st.DrawFn) -> tuple[npt.NDArray[np.uint32], int]:
    """Ascending positions with gaps around the escape, and the number of elements of their box."""
    steps = draw(
        st.lists(
            st.one_of(st.integers(0, 3), st.sampled_from([253, 254, 255, 256, 509, 510, 511, 765, 100_000])),
            max_size=60,
        )
    )
    found = np.cumsum(np.array(steps, np.int64) + 1) - 1
    elements = (int(found[-1]) + 1 if len(found) else 0) + draw(st.sampled_from([0, 1, 254, 255, 256, 1000]))
    return found.astype(np.uint32), elements


@given(positions())
@example((np.empty(0, np.uint32), 0))
@example((np.array([2**31 - 2], np.uint32), 2**31 - 1))
def test_gaps_equal_oracle_and_come_back(drawn: tuple[npt.NDArray[np.uint32], int]) -> None:
    found, elements = drawn
    stream = gaps.encode_gaps(found, elements)
    assert len(stream) <= gaps.max_gap_bytes(len(found), elements)
    if not len(found) or int(found[-1]) < 10_000_000:
        assert np.array_equal(stream, oracle.encode_gaps(found))
    decoded = gaps.decode_gaps(stream, elements, len(found))
    assert decoded is not None
    assert np.array_equal(decoded, found)


@given(
    st.lists(st.one_of(st.integers(0, 3), st.sampled_from([254, 255])), max_size=40),
    st.integers(0, 3000),
    st.integers(-2, 2),
)
def test_decoding_any_bytes_equals_oracle(stream: list[int], elements: int, off: int) -> None:
    data = np.array(stream, np.uint8)
    changed = max(sum(byte != 255 for byte in stream) + off, 0)
    found, expected = gaps.decode_gaps(data, elements, changed), oracle.decode_gaps(data, elements, changed)
    assert (found is None) == (expected is None)
    if found is not None and expected is not None:
        assert np.array_equal(found, expected)


@given(st.data(), dtypes())
def test_differences_equal_oracle_and_come_back(data: st.DataObject, dtype: Dtype) -> None:
    old, new = data.draw(changed_pairs(dtype, max_size=200))
    where = oracle.changed_positions(old, new)
    signs, planes = values.encode_differences(old[where], new[where], dtype)
    expected_signs, expected_planes = oracle.encode_differences(old[where], new[where], dtype)
    assert np.array_equal(signs, expected_signs)
    assert np.array_equal(planes, expected_planes)
    decoded = values.decode_differences(old[where], signs, planes, dtype)
    assert decoded is not None
    assert np.array_equal(decoded, new[where])


@pytest.mark.parametrize("name", [name for name, dtype in DTYPES.items() if dtype.width == 1])
def test_every_difference_of_eight_bits(name: str) -> None:
    # All 65280 pairs: the code is total, and a pair has one code.
    dtype = DTYPES[name]
    old, new = (axis.reshape(-1).astype(np.uint8) for axis in np.meshgrid(np.arange(256), np.arange(256)))
    where = oracle.changed_positions(old, new)
    signs, planes = values.encode_differences(old[where], new[where], dtype)
    assert planes.max() == 127
    decoded = values.decode_differences(old[where], signs, planes, dtype)
    assert decoded is not None
    assert np.array_equal(decoded, new[where])
    codes = np.unpackbits(signs, count=len(where), bitorder="little").astype(int) * 256 + planes[0]
    per_old = {value: codes[old[where] == value] for value in range(256)}
    assert all(len(set(found.tolist())) == 255 for found in per_old.values())


@pytest.mark.parametrize("name", ["BF16", "F16", "I16", "U16", "F32", "F64", "C64", "I8", "F8_E4M3"])
def test_neighbours_are_one_apart(name: str) -> None:
    # VAL-2: -0.0 is just below 0.0, and both signs count away from zero.
    dtype = DTYPES[name]
    top = 1 << (8 * dtype.width - 1)
    if dtype.order == "float":
        pairs = [(top, 0), (top + 1, top), (0, 1), (5, 6), (top + 6, top + 5)]
    else:
        pairs = [(2 * top - 1, 0), (0, 1), (top - 1, top), (5, 6)]
    old, new = (np.array(side, dtype.storage) for side in zip(*pairs, strict=True))
    for before, after, negative in ((old, new, 0), (new, old, 1)):
        signs, planes = values.encode_differences(before, after, dtype)
        assert not planes.any()
        assert signs.tolist() == [negative * ((1 << len(pairs)) - 1)]


@given(st.data(), dtypes(), st.sampled_from([np.uint32, np.uint64]), st.integers(0, 7))
def test_access_equals_indexing(data: st.DataObject, dtype: Dtype, index: type[np.unsignedinteger], shift: int) -> None:
    old, new = data.draw(changed_pairs(dtype))
    old = unaligned(old, shift)
    where = oracle.changed_positions(old, new).astype(index)
    assert np.array_equal(take(old, where), old[where])
    expected = old.copy()
    expected[where] = new[where]
    put(old, where, new[where])
    assert np.array_equal(old, expected)


@given(st.data(), dtypes())
def test_planes_come_back(data: st.DataObject, dtype: Dtype) -> None:
    bits = data.draw(bit_arrays(dtype, data.draw(st.integers(0, 50))))
    planes = values.split_planes(bits)
    assert planes.shape == (dtype.width, bits.size)
    assert all(int(planes[p, i]) == int(bits[i]) >> (8 * p) & 255 for p in range(dtype.width) for i in range(bits.size))
    assert np.array_equal(values.join_planes(planes, dtype), bits)
    # A single plane needs no reordering, and yet must not be the room of a scan that goes on.
    assert not np.shares_memory(planes, bits)


@given(st.data(), dtypes(), U64, st.one_of(st.integers(0, 2**40), st.just(2**44 - 1)))
def test_digests_equal_oracle(data: st.DataObject, dtype: Dtype, seed: int, start: int) -> None:
    old = data.draw(bit_arrays(dtype, data.draw(st.integers(0, 100))))
    new = data.draw(next_bits(old, dtype))
    indices = np.arange(old.size, dtype=np.uint64) + np.uint64(start)
    np_seed, np_start = np.uint64(seed), np.uint64(start)
    assert int(digest_range(old, np_seed, np_start)) == oracle.digest_at(old, indices, seed)
    where = oracle.changed_positions(old, new)
    assert int(digest_at(old[where], where, np_seed, np_start)) == oracle.digest_at(old[where], indices[where], seed)
    before, after = digest_changes(old[where], new[where], where, np_seed, np_start)
    assert int(before) == oracle.digest_at(old[where], indices[where], seed)
    assert int(after) == oracle.digest_at(new[where], indices[where], seed)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("shift", [1, 2, 4])
def test_digest_and_differences_of_unaligned_arrays(width: int, shift: int) -> None:
    rng = np.random.default_rng(width)
    dtype = BY_WIDTH[width]
    old = np.frombuffer(rng.bytes(99 * width), dtype.storage)
    new = np.where(rng.random(99) < 0.3, ~old, old)
    where = oracle.changed_positions(old, new)
    olds, news = old[where], new[where]
    moved_old, moved_new = unaligned(olds, shift), unaligned(news, shift)
    seed, start = np.uint64(7), np.uint64(3)
    assert digest_range(moved_old, seed, start) == digest_range(olds, seed, start)
    assert digest_changes(moved_old, moved_new, where, seed, start) == digest_changes(olds, news, where, seed, start)
    found = values.encode_differences(moved_old, moved_new, dtype)
    expected = oracle.encode_differences(olds, news, dtype)
    assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))
