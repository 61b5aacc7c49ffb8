"""Codecs: every change comes back bit for bit, and every stream that is not exactly right is refused."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltawire.codecs.base import Base, BoxChange, Codec, Patch, Positions, Stream
from deltawire.codecs.registry import CODECS, codec_of
from deltawire.errors import MalformedRowError, UnsupportedCodecError
from deltawire.format.dtypes import DTYPES, Bits, Dtype
from deltawire.kernels.oracle import changed_positions, find_changes
from tests.core.refusal import refusal
from tests.strategies import CHANGES, bit_arrays, dtypes, next_bits, special_bits

codecs = st.sampled_from(tuple(CODECS.values()))


class HeldBase(Base):
    """Old bits in memory, and a note of what was asked of them."""

    def __init__(self, bits: Bits) -> None:
        self.bits = bits

    def gather(self, positions: Positions | None) -> Bits:
        return self.bits if positions is None else self.bits[positions]


def encode(codec: Codec, old: Bits, new: Bits, dtype: Dtype) -> dict[str, Stream]:
    streams = codec.encode(BoxChange(old, new, find_changes(old, new)), dtype)
    assert tuple(streams) == codec.streams(dtype)
    assert all(stream.dtype == np.uint8 and stream.ndim == 1 for stream in streams.values())
    return streams


def decode(codec: Codec, streams: dict[str, Stream], old: Bits, dtype: Dtype, changed: int) -> Patch:
    return codec.decode(streams, dtype, old.size, changed, HeldBase(old) if codec.needs_base else None)


def patched(old: Bits, patch: Patch) -> Bits:
    new = old.copy()
    new[... if patch.positions is None else patch.positions] = patch.bits
    return new


@st.composite
def rows(draw: st.DrawFn, *, max_size: int = 400) -> tuple[Codec, Dtype, Bits, Bits]:
    """A codec, and a box in which something changed."""
    dtype = draw(dtypes())
    old = draw(bit_arrays(dtype, draw(st.integers(1, max_size))))
    new = draw(next_bits(old, dtype, tuple(kind for kind in CHANGES if kind != "none")))
    if np.array_equal(old, new):
        new = ~old
    return draw(codecs), dtype, old, new


@given(rows())
def test_changes_come_back(row: tuple[Codec, Dtype, Bits, Bits]) -> None:
    codec, dtype, old, new = row
    before = old.copy()
    patch = decode(codec, encode(codec, old, new, dtype), old, dtype, len(changed_positions(old, new)))
    assert np.array_equal(old, before), "decoding wrote into the base"
    assert patch.bits.dtype == dtype.storage
    assert np.array_equal(patched(old, patch), new)
    if patch.positions is not None:
        assert np.array_equal(patch.positions, changed_positions(old, new))


@pytest.mark.parametrize("codec", CODECS.values(), ids=lambda codec: codec.name)
@pytest.mark.parametrize("dtype", DTYPES.values(), ids=lambda dtype: dtype.name)
def test_extremes_of_every_dtype(codec: Codec, dtype: Dtype) -> None:
    # Every special pattern becomes every other: signs, NaNs, infinities, and differences of half the range.
    special = np.array(special_bits(dtype), dtype.storage)
    old, new = (axis.reshape(-1) for axis in np.meshgrid(special, special))
    patch = decode(codec, encode(codec, old, new, dtype), old, dtype, len(changed_positions(old, new)))
    assert np.array_equal(patched(old, patch), new)


@pytest.mark.parametrize("codec", CODECS.values(), ids=lambda codec: codec.name)
@pytest.mark.parametrize("places", [[0], [254], [255], [256], [0, 255, 511, 1023], [70_000], [99_999], [0, 99_999]])
def test_positions_around_the_escape(codec: Codec, places: list[int]) -> None:
    dtype = DTYPES["BF16"]
    old = np.full(100_000, 0x3C00, np.uint16)
    new = old.copy()
    new[places] += np.uint16(1)
    patch = decode(codec, encode(codec, old, new, dtype), old, dtype, len(places))
    assert np.array_equal(patched(old, patch), new)


def test_ties_take_the_one_code_there_is() -> None:
    # VAL-3: half the range away is reached only downwards, so that a difference has one code.
    dtype = DTYPES["U8"]
    old, new = np.array([0, 128], np.uint8), np.array([128, 0], np.uint8)
    streams = encode(CODECS["gap"], old, new, dtype)
    assert streams["signs"].tolist() == [3]
    assert streams["diff_0"].tolist() == [127, 127]
    streams["signs"] = np.array([2], np.uint8)
    with pytest.raises(MalformedRowError):
        decode(CODECS["gap"], streams, old, dtype, 2)


@given(rows(), st.data())
def test_any_change_of_length_is_refused(row: tuple[Codec, Dtype, Bits, Bits], data: st.DataObject) -> None:
    codec, dtype, old, new = row
    changed = len(changed_positions(old, new))
    streams = encode(codec, old, new, dtype)
    name = data.draw(st.sampled_from(tuple(streams)))
    whole = streams[name]
    longer = st.binary(min_size=1, max_size=9).map(lambda more: np.concatenate([whole, np.frombuffer(more, np.uint8)]))
    shorter = st.integers(0, max(len(whole) - 1, 0)).map(lambda keep: whole[:keep])
    other = data.draw(st.one_of(shorter, longer) if len(whole) else longer)
    with pytest.raises(MalformedRowError):
        decode(codec, streams | {name: other}, old, dtype, changed)


@given(rows(), st.data())
def test_any_other_count_is_refused(row: tuple[Codec, Dtype, Bits, Bits], data: st.DataObject) -> None:
    codec, dtype, old, new = row
    changed = len(changed_positions(old, new))
    if codec.name == "dense":  # its streams do not depend on the count; whoever stages the row compares it
        return
    wrong = data.draw(st.integers(0, 2 * changed + 3).filter(lambda count: count != changed))
    with pytest.raises(MalformedRowError):
        decode(codec, encode(codec, old, new, dtype), old, dtype, wrong)


@given(rows(), st.data())
def test_damage_is_refused_or_harmless(row: tuple[Codec, Dtype, Bits, Bits], data: st.DataObject) -> None:
    # Any bytes at all either are refused or decode within the box: nothing else comes out.
    codec, dtype, old, new = row
    changed = len(changed_positions(old, new))
    streams = encode(codec, old, new, dtype)
    name = data.draw(st.sampled_from(tuple(streams)))
    broken = np.frombuffer(data.draw(st.binary(max_size=2 * len(streams[name]) + 2)), np.uint8)
    try:
        patch = decode(codec, streams | {name: broken}, old, dtype, changed)
    except MalformedRowError:
        return
    if patch.positions is None:
        assert patch.bits.size == old.size
        return
    assert len(patch.positions) == len(patch.bits) == changed
    ascending = patch.positions.astype(np.int64)
    assert (np.diff(ascending) > 0).all()
    assert ascending[0] >= 0
    assert ascending[-1] < old.size


SMALL = np.arange(20, dtype=np.uint16)
BF16 = DTYPES["BF16"]


def gap_streams(**other: list[int]) -> dict[str, Stream]:
    """Three changes in a box of 20, at 0, 5 and 19; with some streams replaced."""
    good = {"positions": [0, 4, 13], "signs": [0b101], "diff_0": [0, 1, 2], "diff_1": [0, 0, 0]}
    return {name: np.array(values, np.uint8) for name, values in (good | other).items()}


def test_the_small_row_is_good() -> None:
    patch = decode(CODECS["gap"], gap_streams(), SMALL, BF16, 3)
    assert patch.positions is not None
    assert patch.positions.tolist() == [0, 5, 19]
    # 0 goes down past -0.0, 5 goes up by two, 19 down by three.
    assert patch.bits.tolist() == [0x8000, 7, 16]


@pytest.mark.parametrize(
    "other",
    [
        {"positions": [0, 4, 14]},  # one past the end
        {"positions": [0, 4, 255, 255]},  # an escape that is never finished
        {"positions": [0, 4, 13, 255]},  # an escape after the last
        {"positions": [0, 4, 255]},  # an escape in place of the last
        {"positions": [255, 0, 4]},  # far past the end
        {"positions": [0, 4, 13, 0]},  # one more, past the end
        {"positions": [0, 4]},
        {"positions": []},
        {"signs": [0b1000]},  # padding bits are zero
        {"signs": [0b10000000]},
        {"signs": []},
        {"signs": [0, 0]},
        {"diff_1": [0, 0, 0x80]},  # a magnitude above half the range
        {"diff_1": [0, 0xFF, 0]},
        {"diff_0": [0, 0xFF, 0], "diff_1": [0, 0x7F, 0]},  # exactly half the range, upwards
        {"diff_0": [0, 1]},
        {"diff_1": [0, 0, 0, 0]},
    ],
)
def test_malformed_gap_rows(other: dict[str, list[int]]) -> None:
    with pytest.raises(MalformedRowError):
        decode(CODECS["gap"], gap_streams(**other), SMALL, BF16, 3)


def test_half_the_range_downwards_is_good() -> None:
    patch = decode(CODECS["gap"], gap_streams(diff_0=[0xFF, 1, 2], diff_1=[0x7F, 0, 0]), SMALL, BF16, 3)
    assert patch.bits.tolist() == [0xFFFF, 7, 16]


@pytest.mark.parametrize("name", ["U8", "F8_E4M3", "BF16", "I32", "F64", "C64", "U64"])
@pytest.mark.parametrize("sign", [0, 1])
def test_the_largest_magnitudes_of_every_width(name: str, sign: int) -> None:
    # VAL-3: half the range downwards is the last code; at 64 bits one more must not wrap around.
    dtype = DTYPES[name]
    half = 1 << (8 * dtype.width - 1)
    for magnitude in (half - 2, half - 1, half, 2 * half - 2, 2 * half - 1):
        planes = {f"diff_{p}": np.array([magnitude >> (8 * p) & 255], np.uint8) for p in range(dtype.width)}
        streams = {"positions": np.array([0], np.uint8), "signs": np.array([sign], np.uint8)} | planes
        good = magnitude < half - 1 + sign
        code = refusal(partial(decode, CODECS["gap"], streams, np.zeros(1, dtype.storage), dtype, 1))
        assert code == (None if good else "malformed_row")


@pytest.mark.parametrize("positions", [[0, 4, 14], [0, 4, 255, 255], [0, 4, 13, 255], [0, 4], []])
def test_malformed_gap_set_rows(positions: list[int]) -> None:
    streams = {"positions": np.array(positions, np.uint8)} | {f"value_{p}": np.zeros(3, np.uint8) for p in range(2)}
    with pytest.raises(MalformedRowError):
        decode(CODECS["gap-set"], streams, SMALL, BF16, 3)


def test_a_long_run_of_escapes_costs_nothing() -> None:
    # A terabyte away, in a stream that is short: refused by arithmetic, not by counting there. LIM-3
    streams = gap_streams(positions=[255] * 100)
    with pytest.raises(MalformedRowError):
        decode(CODECS["gap"], streams, SMALL, BF16, 3)


def test_counts_allocate_nothing_that_the_streams_do_not_hold() -> None:
    # LIM-3: a count of 2^31 - 1 in a row of a few bytes.
    for name in ("gap", "gap-set"):
        streams = gap_streams(value_0=[0] * 3, value_1=[0] * 3)
        with pytest.raises(MalformedRowError):
            CODECS[name].decode(streams, BF16, 2**31 - 1, 2**31 - 1, HeldBase(SMALL))


def test_gap_and_ranked_need_a_base_and_the_others_do_not() -> None:
    with pytest.raises(MalformedRowError):
        CODECS["gap"].decode(gap_streams(), BF16, 20, 3, None)
    with pytest.raises(MalformedRowError):
        CODECS["ranked"].decode({name: np.zeros(3, np.uint8) for name in ("classes", "items")}, BF16, 20, 3, None)
    assert {name for name, codec in CODECS.items() if codec.needs_base} == {"gap", "ranked"}


@pytest.mark.parametrize("name", ["", "GAP", "gap ", "ranked-9", "x" * 10_000, "gap\0"])
def test_unknown_codecs(name: str) -> None:
    with pytest.raises(UnsupportedCodecError) as raised:
        codec_of(name)
    assert len(str(raised.value)) < 200


def test_a_step_costs_about_a_byte() -> None:
    # What the codec is for: ULP steps of 1 % of a tensor take one byte of position, a bit of sign, and zeros.
    rng = np.random.default_rng(0)
    old = (rng.standard_normal(1 << 16) * 0.02).astype(np.float32).view(np.uint32) >> np.uint32(16)
    bits = old.astype(np.uint16)
    new = bits.copy()
    where = rng.choice(bits.size, bits.size // 100, replace=False)
    new[where] += np.uint16(1)
    streams = encode(CODECS["gap"], bits, new, BF16)
    changed = len(where)
    assert len(streams["positions"]) <= changed + bits.size // 255
    assert len(streams["signs"]) == math.ceil(changed / 8)
    assert not streams["diff_0"].any()
    assert not streams["diff_1"].any()
