"""A state as NumPy arrays: the follower's own, or a dict that the caller holds."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from deltawire.errors import TargetMismatchError
from deltawire.format.dtypes import Bits, Dtype
from deltawire.format.tensors import Tensor, TensorTable
from deltawire.kernels.access import put, take
from deltawire.targets.base import (
    Held,
    Indices,
    InMemoryTarget,
    TensorBits,
    check_apart,
    exchange_in_memory,
)

Array = npt.NDArray[np.generic]

_NUMPY_TYPES = {
    "BOOL": np.bool_, "I8": np.int8, "I16": np.int16, "I32": np.int32, "I64": np.int64,
    "F16": np.float16, "F32": np.float32, "F64": np.float64, "C64": np.complex64,
}  # fmt: skip


def numpy_type(dtype: Dtype) -> np.dtype[np.generic]:
    """The NumPy type of a dtype; unsigned bit patterns where NumPy has none, as for BF16 and the 8-bit floats."""
    return np.dtype(_NUMPY_TYPES.get(dtype.name, dtype.storage))


class NumpyBits(TensorBits):
    """Elements in a flat array of unsigned integers."""

    concurrent = True

    def __init__(self, flat: Bits) -> None:
        self.flat = flat

    @property
    def in_memory(self) -> Bits:
        return self.flat

    def gather(self, where: Indices | slice) -> Bits:
        return self.flat[where] if isinstance(where, slice) else take(self.flat, where)

    def scatter(self, where: Indices | slice, bits: Bits) -> None:
        if isinstance(where, slice):
            self.flat[where] = bits
        else:
            put(self.flat, where, bits)


class ArraysTarget(InMemoryTarget):
    """Arrays by name. Given ones are changed in place; otherwise they are made when the first state arrives.

    A snapshot that would overwrite something goes through a temporary file first, so that no second copy of the model
    is in memory and the old contents stay until the new ones are verified. With ``spool`` the first state lies in such
    a file too, and stays there.
    """

    def __init__(self, arrays: Mapping[str, Array] | None = None, *, spool: bool = False) -> None:
        super().__init__()
        self._given = arrays
        self._spool = spool
        self._arrays: dict[str, Array] = {}
        self._bits: dict[str, NumpyBits] = {}
        self._incoming: dict[str, NumpyBits] | None = None
        self._selected: tuple[Tensor, ...] = ()

    @property
    def arrays(self) -> Mapping[str, Array]:
        """The state by tensor name, aliases included as the same arrays; empty while nothing complete is there."""
        return self._arrays if self._held is not None else {}

    def bits(self, tensor: Tensor) -> NumpyBits:
        return (self._bits if self._incoming is None else self._incoming)[tensor.name]

    def begin_snapshot(self, table: TensorTable, selected: Sequence[Tensor]) -> None:
        self._selected = tuple(selected)
        if self._given is not None:
            _check_given(self._given, table, selected)
        if self._given is None and self._held is None and not self._spool:
            self._incoming = {tensor.name: NumpyBits(_in_memory(tensor)) for tensor in selected}
        else:
            self._incoming = spooled(selected)

    def end_snapshot(self, held: Held) -> None:
        incoming = self._incoming
        assert incoming is not None  # noqa: S101 - begin_snapshot came first
        self._incoming = None
        bits = incoming
        if self._given is not None or self._held is not None:
            bits = {tensor.name: NumpyBits(self._own(tensor)) for tensor in self._selected}
            before, self._held = self._held, None  # nothing complete is there for the moment
            states = ((own, incoming[name].flat) for name, own in bits.items())
            if failure := exchange_in_memory(states, keep=before is not None):
                self._held = before
                raise failure
        self._bits = bits
        self._arrays = {tensor.name: self._shaped(tensor) for tensor in self._selected}
        self._arrays |= {
            alias: self._arrays[name] for alias, name in held.table.aliases.items() if name in self._arrays
        }
        self._held = held

    def abort_snapshot(self) -> None:
        self._incoming = None

    def _own(self, tensor: Tensor) -> Bits:
        """The place in memory for a tensor: the caller's, ours if it still fits, or a new one."""
        if self._given is not None:
            return self._given[tensor.name].reshape(-1).view(tensor.dtype.storage)
        before = self._bits.get(tensor.name)
        if before is not None and (before.flat.size, before.flat.dtype) == (tensor.elements, tensor.dtype.storage):
            return before.flat
        return _in_memory(tensor)

    def _shaped(self, tensor: Tensor) -> Array:
        if self._given is not None:
            return self._given[tensor.name]
        flat = self._bits[tensor.name].flat.view(numpy_type(tensor.dtype))
        return flat.reshape(tensor.storage_shape)


def _check_given(arrays: Mapping[str, Array], table: TensorTable, selected: Sequence[Tensor]) -> None:
    for alias, name in table.aliases.items():
        if alias in arrays and name in arrays and not _address(arrays[alias]) == _address(arrays[name]):
            raise TargetMismatchError(f"{[name, alias]} are one tensor in the stream, but not in the target")
    for tensor in selected:
        array = arrays.get(tensor.name)
        if array is None:
            raise TargetMismatchError(f"the target has no tensor {tensor.name!r}")
        # A sub-byte tensor is held as its bytes, in whatever shape.
        fits = array.nbytes == tensor.bytes if tensor.dtype.packed else array.shape == tensor.shape
        native = array.dtype.newbyteorder("<") == array.dtype
        if not fits or not native or array.itemsize != tensor.dtype.width:
            have = f"{array.dtype} {list(array.shape)}"
            want = f"{tensor.dtype.name} {list(tensor.shape)}"
            raise TargetMismatchError(f"the target's {tensor.name!r} is {have}, the stream's is {want}")
        if not array.flags.c_contiguous or not array.flags.writeable:
            raise TargetMismatchError(f"the target's {tensor.name!r} is not a contiguous, writable array")
    chosen = {tensor.name: arrays[tensor.name] for tensor in selected}
    check_apart((_address(array), array.nbytes, name) for name, array in chosen.items())


def _address(array: Array) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


def _in_memory(tensor: Tensor) -> Bits:
    return np.empty(tensor.elements, tensor.dtype.storage)


def spooled(tensors: Sequence[Tensor]) -> dict[str, NumpyBits]:
    """Room for tensors, by name, in one temporary file that has no name."""
    places, end = {}, 0
    for tensor in tensors:
        places[tensor.name] = slice(end, end + tensor.bytes), tensor.dtype.storage
        end += -(-tensor.bytes // 8) * 8  # so that each begins at a multiple of its width
    with tempfile.TemporaryFile() as spool:  # the mapping outlives the file's name and handle
        if end:
            os.posix_fallocate(spool.fileno(), 0, end)  # a full disk is an error here, and a crash on access
        room = np.asarray(np.memmap(spool, np.uint8, "r+", shape=(end,))) if end else np.empty(0, np.uint8)
    return {name: NumpyBits(room[place].view(storage)) for name, (place, storage) in places.items()}
