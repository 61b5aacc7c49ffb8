"""The state digest: composable, updated in O(changed), the same on every device; and how good its mixer is.

What the statistical tests claim and why the bounds are what they are:

- ``mix`` is a bijection of 64 bits (tested by inverting it). Two contributions are equal only if
  ``(seed + index * GOLDEN) ^ bits`` are, so collisions of single contributions can be ruled out by arithmetic, and are
  counted besides.
- Avalanche: over N samples, the share of samples in which flipping one input bit flips one output bit is 1/2 with a
  standard deviation of 0.5 / sqrt(N) for an ideal mixer. The bound is 6 standard deviations plus 0.005: with 11,008
  pairs of bits an ideal mixer exceeds 6 deviations with a probability of 2e-5, and a bias of 0.005 a bit costs nothing.
- Changes of a state: their digests' differences must be distinct and not zero. n ideal 64-bit numbers have an expected
  n^2 / 2^65 equal pairs: 3e-8 for a million, so one equal pair is a failure.
- Bit balance: each of the 64 bits of those differences is 1 in half of them, within 6 standard deviations plus 0.005.

All seeds are fixed, so these tests give the same answer in every run.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from deltawire import torch_bits, torch_digest
from deltawire.format.boxes import Box, flat_indices, flat_range, split
from deltawire.format.dtypes import DTYPES, Bits, Dtype
from deltawire.format.tensors import Tensor, digest_seed
from deltawire.kernels import oracle
from deltawire.kernels.digest import GOLDEN, digest_at, digest_changes, digest_range
from deltawire.targets.arrays import NumpyBits
from deltawire.targets.digests import state_digest_of
from deltawire.targets.torch_access import TorchBits
from tests.strategies import bit_arrays, changed_pairs, dtypes, next_states, shapes, states

U64 = npt.NDArray[np.uint64]
MASK = (1 << 64) - 1
ZERO = np.uint64(0)


def digest(bits: Bits, seed: int, start: int = 0) -> int:
    return int(digest_range(bits, np.uint64(seed), np.uint64(start)))


def test_definition_by_plain_integers() -> None:
    # DIG-1 and DIG-2 once more, with nothing but Python's integers.
    shape, bits = (2, 2), [0, 1, 0x3F80, 0xFFFF]
    encoded = b"w\0BF16\0" + b"".join(extent.to_bytes(8, "little") for extent in shape)
    seed = int.from_bytes(hashlib.sha256(encoded).digest()[:8], "little")
    assert digest_seed("w", "BF16", shape) == seed
    total = 0
    for index, value in enumerate(bits):
        x = ((seed + index * 0x9E3779B97F4A7C15) & MASK) ^ value
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
        total += x ^ (x >> 31)
    assert digest(np.array(bits, np.uint16), seed) == total & MASK


def test_seeds_tell_names_dtypes_and_shapes_apart() -> None:
    names = ("w", "w\0BF16", "layers.0.w", "layers.1.w", "")
    shapes_ = ((), (0,), (1,), (6,), (2, 3), (3, 2), (1, 6), (6, 1))
    seeds = [digest_seed(n, d, s) for n, d, s in itertools.product(names, ("BF16", "F16", "U16"), shapes_)]
    assert len(set(seeds)) == len(seeds)


@given(st.data(), dtypes(), st.integers(0, MASK), st.integers(1, 200))
def test_boxes_of_any_split_add_up(data: st.DataObject, dtype: Dtype, seed: int, most: int) -> None:
    shape = data.draw(shapes(max_side=7))
    bits = data.draw(bit_arrays(dtype, math.prod(shape)))
    total = 0
    for box in split(shape, most):
        place = flat_range(box, shape)
        assert place is not None
        total += digest(bits[place[0] : place[0] + place[1]], seed, place[0])
    assert total & MASK == digest(bits, seed)


@given(st.data(), dtypes(), st.integers(0, MASK), st.integers(1, 5))
def test_ranks_add_up_however_elements_are_dealt(data: st.DataObject, dtype: Dtype, seed: int, ranks: int) -> None:
    bits = data.draw(bit_arrays(dtype, data.draw(st.integers(0, 300))))
    owner = np.random.default_rng(data.draw(st.integers(0, 999))).integers(0, ranks, bits.size)
    shares = []
    for rank in range(ranks):
        where = np.flatnonzero(owner == rank).astype(np.uint32)
        shares.append(int(digest_at(bits[where], where, np.uint64(seed), ZERO)))
    assert sum(shares) & MASK == digest(bits, seed)


def test_columns_of_a_matrix_add_up() -> None:
    # A tensor-parallel rank owns columns, which are not contiguous.
    bits = np.arange(6 * 10, dtype=np.uint16)
    total = 0
    for first in range(0, 10, 5):
        box = Box((0, first), (6, 5))
        where = flat_indices(box, (6, 10), np.arange(30, dtype=np.uint32))
        total += int(digest_at(bits[where], where, np.uint64(9), ZERO))
    assert total & MASK == digest(bits, 9)


@given(st.data(), dtypes(), st.integers(0, MASK), st.integers(0, 2**40))
def test_update_costs_what_changed(data: st.DataObject, dtype: Dtype, seed: int, start: int) -> None:
    old, new = data.draw(changed_pairs(dtype))
    where = oracle.changed_positions(old, new)
    before, after = digest_changes(old[where], new[where], where, np.uint64(seed), np.uint64(start))
    assert (digest(old, seed, start) + int(after) - int(before)) & MASK == digest(new, seed, start)


@given(st.data())
def test_whole_states(data: st.DataObject) -> None:
    state = data.draw(states())
    follows = data.draw(next_states(state))
    for each in (state, follows):
        for tensor in each.table().tensors:
            bits = each.bits[tensor.name]
            expected = oracle.digest_at(bits, np.arange(bits.size, dtype=np.uint64), tensor.seed)
            assert state_digest_of(NumpyBits(bits), tensor) == expected


@pytest.mark.parametrize(("kind", "name"), torch_bits.DTYPE_NAMES.items(), ids=str)
@pytest.mark.parametrize("run", [1 << 22, 7])
def test_torch_equals_numpy(kind: torch.dtype, name: str, run: int) -> None:
    dtype = DTYPES[name]
    rng = np.random.default_rng(5)
    for size in (0, 1, 8, 333):
        bits = np.frombuffer(rng.bytes(size * dtype.width), dtype.storage).copy()
        if kind is torch.bool:
            bits &= 1
        raw = torch.from_numpy(bits.view(np.uint8).copy())
        tensor = raw.view(kind) if size else torch.empty(0, dtype=kind)
        info = Tensor(0, "w", dtype, torch_bits.logical_shape(tensor), (size,))
        assert torch_digest.digest(tensor, info, run=run) == digest(bits, info.seed)
        assert state_digest_of(TorchBits(torch_bits.flat_bits(tensor)), info) == digest(bits, info.seed)


# What the mixer is worth.


def contributions(seeds: U64, indices: U64, bits: U64) -> U64:
    return oracle.mix((seeds + indices * GOLDEN) ^ bits)


def unmix(x: U64) -> U64:
    """The inverse of ``mix``: xorshifts undone by repetition, multiplications by modular inverses."""

    def unshift(y: U64, by: int) -> U64:
        found = y
        for _ in range(64 // by + 1):
            found = y ^ (found >> np.uint64(by))
        return found

    x = unshift(x, 31) * np.uint64(pow(0x94D049BB133111EB, -1, 1 << 64))
    x = unshift(x, 27) * np.uint64(pow(0xBF58476D1CE4E5B9, -1, 1 << 64))
    return unshift(x, 30)


def random_u64(rng: np.random.Generator, size: int) -> U64:
    return rng.integers(0, 1 << 64, size, np.uint64)


def test_mixer_is_a_bijection() -> None:
    rng = np.random.default_rng(0)
    small = np.arange(100_000, dtype=np.uint64)
    x = np.concatenate([random_u64(rng, 1_000_000), small, ~small])
    assert np.array_equal(unmix(oracle.mix(x)), x)
    assert np.array_equal(oracle.mix(unmix(x)), x)


SAMPLES = 1 << 14
AVALANCHE = 6 * 0.5 / math.sqrt(SAMPLES) + 0.005


def worst_bias(inputs: tuple[U64, U64, U64], which: int, bits: int) -> float:
    """Largest distance from 1/2, over input bits of one input and all output bits, of how often one flips the other."""
    base = contributions(*inputs)
    worst = 0.0
    for bit in range(bits):
        flipped = list(inputs)
        flipped[which] = inputs[which] ^ np.uint64(1 << bit)
        changed = np.ascontiguousarray(base ^ contributions(*flipped))
        share = np.unpackbits(changed.view(np.uint8).reshape(-1, 8), axis=1).mean(axis=0)
        worst = max(worst, float(np.abs(share - 0.5).max()))
    return worst


def random_inputs() -> tuple[U64, U64, U64]:
    rng = np.random.default_rng(1)
    return random_u64(rng, SAMPLES), random_u64(rng, SAMPLES) >> np.uint64(20), random_u64(rng, SAMPLES)


def weight_like_inputs() -> tuple[U64, U64, U64]:
    """One tensor, consecutive indices, BF16 weights: the least random that inputs are in practice."""
    rng = np.random.default_rng(2)
    weights = (rng.standard_normal(SAMPLES) * 0.02).astype(np.float32).view(np.uint32) >> np.uint32(16)
    seed = digest_seed("model.layers.0.mlp.up_proj.weight", "BF16", (128, 128))
    return np.full(SAMPLES, seed, np.uint64), np.arange(SAMPLES, dtype=np.uint64), weights.astype(np.uint64)


@pytest.mark.parametrize("make", [random_inputs, weight_like_inputs])
@pytest.mark.parametrize(("which", "bits"), [(0, 64), (1, 44), (2, 64)], ids=["seed", "index", "bits"])
def test_avalanche(make: Callable[[], tuple[U64, U64, U64]], which: int, bits: int) -> None:
    # 44 bits of index: a tensor has at most 2^44 bytes.
    assert worst_bias(make(), which, bits) < AVALANCHE


def test_avalanche_test_can_fail() -> None:
    # A multiplication alone never lets a high bit reach a low one.
    rng = np.random.default_rng(3)
    x = random_u64(rng, SAMPLES)
    changed = np.ascontiguousarray((x * GOLDEN) ^ ((x ^ np.uint64(1 << 63)) * GOLDEN))
    share = np.unpackbits(changed.view(np.uint8).reshape(-1, 8), axis=1).mean(axis=0)
    assert np.abs(share - 0.5).max() > AVALANCHE


def assert_distinct(found: U64, *, at_least: int) -> None:
    assert len(found) >= at_least
    found = np.sort(found)
    assert not (found[1:] == found[:-1]).any()
    assert found[0] != 0, "a change that the digest does not see"


def assert_balanced(found: U64) -> None:
    share = np.unpackbits(np.ascontiguousarray(found).view(np.uint8).reshape(-1, 8), axis=1).mean(axis=0)
    assert np.abs(share - 0.5).max() < 6 * 0.5 / math.sqrt(len(found)) + 0.005


def seeds_of(count: int) -> list[int]:
    return [digest_seed(f"model.layers.{i}.mlp.up_proj.weight", "BF16", (4096, 4096)) for i in range(count)]


def test_no_collision_among_all_values_at_many_indices() -> None:
    # Consecutive indices, far ones, and Fibonacci numbers: where multiples of the golden ratio come closest together.
    fibonacci = [1, 2]
    while fibonacci[-1] < 1 << 43:
        fibonacci.append(fibonacci[-1] + fibonacci[-2])
    indices = np.array(sorted({*range(40), *fibonacci, *(1 << k for k in range(44))}), np.uint64)
    keys = np.uint64(seeds_of(1)[0]) + indices * GOLDEN
    assert_distinct(oracle.mix((keys[:, None] ^ np.arange(1 << 16, dtype=np.uint64)).reshape(-1)), at_least=7_000_000)


def test_indices_of_one_tensor_never_meet_for_16_bits() -> None:
    # Keys of two indices differ in more than their low 16 bits as long as no multiple k * GOLDEN, 0 < k < 2^44, is
    # within 2^16 of 0 modulo 2^64. The closest ones are at the denominators of the convergents of GOLDEN / 2^64.
    a, b = 1 << 64, int(GOLDEN)
    h_before, h = 0, 1
    closest = []
    while b and h < 1 << 44:
        distance = min(h * int(GOLDEN) % (1 << 64), -h * int(GOLDEN) % (1 << 64))
        closest.append(distance)
        quotient, (a, b) = a // b, (b, a % b)
        h_before, h = h, quotient * h + h_before
    assert len(closest) > 40
    assert min(closest) > 1 << 16


def change(seed: int, at: npt.NDArray[np.int64], old: U64, new: U64) -> U64:
    """Differences of digests for rows of changed elements: shape (changes, elements) each."""
    key = np.uint64(seed) + at.astype(np.uint64) * GOLDEN
    found: U64 = (oracle.mix(key ^ new) - oracle.mix(key ^ old)).sum(axis=1, dtype=np.uint64)
    return found


def pairs_of(size: int) -> npt.NDArray[np.int64]:
    return np.array(list(itertools.combinations(range(size), 2)), np.int64)


def test_swaps_of_two_elements() -> None:
    at = pairs_of(1000)
    for old in ((0x3F80, 0xBF80), (0, 1), (0, 0x8000), (0x3C00, 0x3C01)):
        before = np.tile(np.array(old, np.uint64), (len(at), 1))
        found = change(seeds_of(1)[0], at, before, before[:, ::-1])
        assert_distinct(found, at_least=499_500)
        assert_balanced(found)


def test_steps_that_cancel_in_a_plain_sum() -> None:
    # +1 here, -1 there: invisible to a sum of the values; equal flips in both: invisible to their XOR.
    at = pairs_of(1000)
    value = np.full((len(at), 2), 0x3C05, np.uint64)
    apart = change(seeds_of(1)[0], at, value, value + np.array([1, MASK], np.uint64))
    together = change(seeds_of(1)[0], at, value, value ^ np.uint64(1))
    back = change(seeds_of(1)[0], at, value, value + np.array([MASK, 1], np.uint64))
    found = np.concatenate([apart, together, back])
    assert_distinct(found, at_least=1_498_500)
    assert_balanced(found)


def test_same_change_at_every_index_and_in_every_tensor() -> None:
    # One change of value at 20,000 indices of 50 tensors with names such as models have.
    at = np.arange(20_000)[:, None]
    old, new = np.full(at.shape, 0x3C00, np.uint64), np.full(at.shape, 0x3C01, np.uint64)
    found = np.concatenate([change(seed, at, old, new) for seed in seeds_of(50)])
    assert_distinct(found, at_least=1_000_000)
    assert_balanced(found)


def test_every_change_of_value_at_one_index() -> None:
    old, new = (side.reshape(-1, 1) for side in np.meshgrid(np.arange(1024), np.arange(1024, 2048)))
    found = change(seeds_of(1)[0], np.zeros_like(old), old.astype(np.uint64), new.astype(np.uint64))
    assert_distinct(found, at_least=1 << 20)
    assert_balanced(found)


@pytest.mark.parametrize("width", [1, 2, 4, 8])
def test_shifts_and_permutations_of_a_tensor(width: int) -> None:
    rng = np.random.default_rng(width)
    bits = np.frombuffer(rng.bytes(256 * width), f"<u{width}")
    seen = [digest(np.roll(bits, by), 11) for by in range(256)]
    seen += [digest(rng.permutation(bits), 11) for _ in range(2000)]
    small = bits[:7] if width > 1 else np.arange(7, dtype=np.uint8)
    seen += [digest(np.array(order, bits.dtype), 12) for order in itertools.permutations(small.tolist())]
    assert_distinct(np.array(seen, np.uint64), at_least=256 + 2000 + math.factorial(7))
    assert_balanced(np.array(seen, np.uint64))


def test_constant_tensors() -> None:
    # All zeros, all ones, and a constant of every value, at several lengths: fills and truncations show.
    seen = [digest(np.full(size, value, np.uint16), 13) for size in range(1, 40) for value in range(0, 65536, 257)]
    assert_distinct(np.array(seen, np.uint64), at_least=39 * 256)
    assert_balanced(np.array(seen, np.uint64))


def test_elements_of_64_bits() -> None:
    # Here an element is as wide as the mixer: flips of every pair of bits, swaps, and steps that cancel.
    rng = np.random.default_rng(4)
    flips = np.array([1 << a | 1 << b for a in range(64) for b in range(a)], np.uint64)
    value = random_u64(rng, 200)
    old = np.repeat(value, len(flips))[:, None]
    found = [change(17, np.repeat(np.arange(200), len(flips))[:, None], old, old ^ np.tile(flips, 200)[:, None])]
    at = pairs_of(300)
    held = random_u64(rng, 300)[at]
    found += [change(17, at, held, held[:, ::-1]), change(17, at, held, held + np.array([1, MASK], np.uint64))]
    assert_distinct(np.concatenate(found), at_least=400_000)
    assert_balanced(np.concatenate(found))


def test_runs_of_changes_are_balanced() -> None:
    # Sums of many contributions, as real deltas have: 20,000 deltas of 8 to 64 steps each.
    rng = np.random.default_rng(6)
    found = np.empty(20_000, np.uint64)
    old = np.frombuffer(rng.bytes(2 * 4096), np.uint16)
    for k in range(len(found)):
        where = np.sort(rng.choice(4096, int(rng.integers(8, 65)), replace=False)).astype(np.uint32)
        before = digest_at(old[where], where, np.uint64(19), ZERO)
        found[k] = (int(digest_at(old[where] + np.uint16(1), where, np.uint64(19), ZERO)) - int(before)) & MASK
    assert_distinct(found, at_least=20_000)
    assert_balanced(found)
