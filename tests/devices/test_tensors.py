"""Reading runs of tensors of any strides, and carrying bits between a device and the CPU."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from deltawire.format.dtypes import DTYPES, Dtype
from deltawire.format.tensors import Tensor
from deltawire.kernels import oracle
from deltawire.kernels.digest import digest_changes, digest_range
from deltawire.torch_bits import copy_run, fetch_together, from_numpy, strided_bits, to_numpy
from deltawire.torch_digest import digest, digest_moved
from deltawire.torch_digest import digest_range as torch_digest_range
from tests.devices.layouts import KINDS, LAYOUTS, laid_out
from tests.strategies import bit_arrays, changed_pairs, dtypes, shapes

MASK = (1 << 64) - 1


@given(shapes(max_side=5), st.sampled_from(LAYOUTS), st.data())
def test_a_run_of_a_tensor_of_any_strides(shape: tuple[int, ...], layout: str, data: st.DataObject) -> None:
    every = np.arange(math.prod(shape), dtype=np.int16)
    tensor = laid_out(torch.from_numpy(every.copy()).reshape(shape), layout)
    start = data.draw(st.integers(0, every.size))
    stop = data.draw(st.integers(start, every.size))
    found = copy_run(tensor, start, stop)
    assert found.tolist() == every[start:stop].tolist()
    found += 1
    assert tensor.reshape(-1).tolist() == every.tolist(), "it is a copy"


@given(st.lists(st.sampled_from([1, 2, 4, 8]), min_size=1, max_size=5), st.data())
def test_several_arrays_come_at_once(widths: list[int], data: st.DataObject) -> None:
    arrays = [
        data.draw(bit_arrays(DTYPES[{1: "U8", 2: "U16", 4: "U32", 8: "U64"}[width]], data.draw(st.integers(1, 9))))
        for width in widths
    ]
    found = fetch_together(*(from_numpy(array.copy()) for array in arrays))
    for array, came in zip(arrays, found, strict=True):
        assert came.dtype == array.dtype
        assert came.tobytes() == array.tobytes()
        assert came.flags.aligned


def test_arrays_that_are_read_only_are_copied() -> None:
    array = np.frombuffer(b"\1\2\3\4", np.uint16)
    from_numpy(array)[0] = 7
    assert array.tobytes() == b"\1\2\3\4"
    own = array.copy()
    from_numpy(own)[0] = 7
    assert own[0] == 7


@given(st.data(), dtypes(), st.integers(0, MASK), st.integers(0, 2**40))
def test_digests_of_runs_and_changes(data: st.DataObject, dtype: Dtype, seed: int, start: int) -> None:
    old, new = data.draw(changed_pairs(dtype))
    run = data.draw(st.sampled_from([1, 7, 1 << 20]))
    found = int(torch_digest_range(from_numpy(new), seed, start, run=run)) & MASK
    assert found == int(digest_range(new, np.uint64(seed), np.uint64(start)))
    where = oracle.changed_positions(old, new)
    before, after = digest_changes(old[where], new[where], where, np.uint64(seed), np.uint64(start))
    places = torch.from_numpy(where.astype(np.int64))
    moved = digest_moved(from_numpy(old[where]), from_numpy(new[where]), places, seed, start)
    assert int(moved) & MASK == (int(after) - int(before)) & MASK


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["BF16", "F8_E5M2", "F32", "C64", "BOOL", "F4"])
def test_digests_of_tensors_of_any_strides(name: str, layout: str) -> None:
    dtype = DTYPES[name]
    raw = np.frombuffer(np.random.default_rng(0).bytes(6 * 10 * dtype.width), dtype.storage).copy()
    raw &= np.array(1 if name == "BOOL" else -1 % (1 << (8 * dtype.width)), raw.dtype)
    tensor = laid_out(from_numpy(raw.copy()).reshape(6, 10), layout).view(KINDS[name])
    assert to_numpy(copy_run(strided_bits(tensor), 0, raw.size)).tobytes() == raw.tobytes()
    info = Tensor(0, "w", dtype, (6, 20 if name == "F4" else 10), (60,) if name == "F4" else (6, 10))
    for run in (7, 1 << 20):
        assert digest(tensor, info, run=run) == int(digest_range(raw, np.uint64(info.seed), np.uint64(0)))
