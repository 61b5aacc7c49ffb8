"""The dtype registry is safetensors'; sub-byte types are bytes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open

from deltawire.errors import MalformedRecordError, UnsupportedDtypeError
from deltawire.format.dtypes import DTYPES, dtype_of, storage_shape

BITS = {
    "BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32,
    "C64": 64, "F64": 64, "I64": 64, "U64": 64,
}  # fmt: skip
"""Every dtype of safetensors 0.8 and its width, from that library's own table."""
SIGNED_FLOATS = {"F8_E5M2", "F8_E4M3", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "F16", "BF16", "F32", "F64"}


def test_registry() -> None:
    assert {name: dtype.bits for name, dtype in DTYPES.items()} == BITS
    assert {name for name, dtype in DTYPES.items() if dtype.order == "float"} == SIGNED_FLOATS
    assert {name for name, dtype in DTYPES.items() if dtype.packed} == {"F4", "F6_E2M3", "F6_E3M2"}
    for name, dtype in DTYPES.items():
        assert dtype.name == name
        assert dtype is dtype_of(name)
        assert dtype.width == max(BITS[name] // 8, 1)
        assert dtype.storage.itemsize == dtype.width
        assert dtype.storage.kind == "u"
        assert dtype.storage.newbyteorder("<") == dtype.storage


@pytest.mark.parametrize("name", BITS)
def test_safetensors_knows_every_dtype_at_this_width(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    # 24 elements fill whole bytes at every width; the library refuses a header whose sizes do not agree with its own.
    size = 24 * BITS[name] // 8
    header = f'{{"t":{{"dtype":"{name}","shape":[2,12],"data_offsets":[0,{size}]}}}}'.encode()
    path = tmp_path_factory.mktemp("dtype") / "t.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes(size))
    with safe_open(path, framework="numpy") as file:
        assert file.get_slice("t").get_shape() == [2, 12]
        assert file.get_slice("t").get_dtype() == name


@pytest.mark.parametrize("name", ["", "bf16", "BF16 ", "F4_E2M1", "F128", "I4", "BF16\0", "F" * 10_000, "\ud800"])
def test_unknown_dtypes(name: str) -> None:
    with pytest.raises(UnsupportedDtypeError) as raised:
        dtype_of(name)
    assert len(str(raised.value).encode()) < 200


@given(st.sampled_from(sorted(BITS)), st.lists(st.integers(0, 9), max_size=4))
def test_storage_shape_counts_stored_elements(name: str, extents: list[int]) -> None:
    dtype, shape = DTYPES[name], tuple(extents)
    bits = math.prod(shape) * dtype.bits
    if not dtype.packed:
        assert storage_shape(dtype, shape) == shape
    elif bits % 8:
        with pytest.raises(MalformedRecordError):
            storage_shape(dtype, shape)
    else:
        assert storage_shape(dtype, shape) == (bits // 8,)
    if bits % 8 == 0:
        assert math.prod(storage_shape(dtype, shape)) * dtype.width * 8 == bits


def test_storage_shapes_by_hand() -> None:
    assert storage_shape(DTYPES["F4"], (3, 8)) == (12,)
    assert storage_shape(DTYPES["F6_E2M3"], (4,)) == (3,)
    assert storage_shape(DTYPES["F4"], (0, 7)) == (0,)
    assert storage_shape(DTYPES["BF16"], ()) == ()
    for name, shape in (("F4", ()), ("F4", (3, 3)), ("F6_E3M2", (2,)), ("F6_E3M2", ())):
        with pytest.raises(MalformedRecordError):
            storage_shape(DTYPES[name], shape)


def test_storage_is_little_endian_bits() -> None:
    assert np.array([1.0], "<f4").view(DTYPES["F32"].storage).tobytes() == b"\x00\x00\x80\x3f"
