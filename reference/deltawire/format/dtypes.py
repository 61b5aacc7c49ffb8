"""Element types: every dtype of safetensors 0.8, as little-endian bit patterns (SPEC.md section 7.2)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from deltawire.errors import FormatError, MalformedRecordError, UnsupportedDtypeError

Bits = npt.NDArray[np.unsignedinteger]
"""Elements as unsigned integers of their own width: bit patterns, never numbers."""


@dataclass(frozen=True, slots=True)
class Dtype:
    """One entry of the dtype registry."""

    name: str
    """The name that safetensors gives it."""
    bits: int
    """Width of one logical element."""
    order: Literal["float", "integer"]
    """How bit patterns map to ordered integers in ``diff`` streams (VAL-2)."""

    @property
    def width(self) -> int:
        """Bytes of one stored element; a sub-byte type is stored as whole bytes (DTY-3)."""
        return max(self.bits // 8, 1)

    @property
    def packed(self) -> bool:
        """Whether several logical elements share a byte."""
        return self.bits < 8

    @property
    def storage(self) -> np.dtype[np.unsignedinteger]:
        """The NumPy type that holds one stored element: little-endian, unsigned, ``width`` bytes."""
        return np.dtype(f"<u{self.width}")


_FLOATS = {
    "F8_E5M2": 8, "F8_E4M3": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8,
    "F16": 16, "BF16": 16, "F32": 32, "F64": 64,
}  # fmt: skip
# C64 is a pair of F32: no sign-magnitude order fits it, so it counts as an integer. F8_E8M0 has no sign bit. DTY-2
_INTEGERS = {
    "BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "F8_E8M0": 8, "U8": 8, "I8": 8,
    "I16": 16, "U16": 16, "I32": 32, "U32": 32, "C64": 64, "I64": 64, "U64": 64,
}  # fmt: skip

DTYPES: dict[str, Dtype] = {
    **{name: Dtype(name, bits, "integer") for name, bits in _INTEGERS.items()},
    **{name: Dtype(name, bits, "float") for name, bits in _FLOATS.items()},
}
"""The dtype registry of SPEC.md section 16.2."""


def dtype_of(name: str) -> Dtype:
    """Look up a dtype by its safetensors name.

    Raises:
        UnsupportedDtypeError: it is not in the registry.
    """
    try:
        return DTYPES[name]
    except KeyError:
        raise UnsupportedDtypeError(f"dtype {name[:40]!r} is not in the registry") from None


def storage_shape(dtype: Dtype, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Shape in which boxes and element indices of a tensor are counted (DTY-3).

    That is ``shape`` itself, but for a sub-byte type one flat dimension of its bytes.

    Raises:
        FormatError: the elements of a sub-byte tensor do not fill whole bytes.
    """
    if not dtype.packed:
        return shape
    bits = math.prod(shape) * dtype.bits
    if bits % 8:
        raise packed_error(dtype, shape)
    return (bits // 8,)


def packed_error(dtype: Dtype, shape: tuple[int, ...]) -> FormatError:
    """Describe a sub-byte tensor that does not fill whole bytes."""
    return MalformedRecordError(f"a {dtype.name} tensor of shape {list(shape)} does not fill whole bytes")
