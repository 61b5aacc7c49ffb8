"""What can be published: torch tensors, NumPy arrays, or safetensors files on disk."""

from __future__ import annotations

import json
import os
from collections.abc import Hashable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from deltawire.errors import InvalidStateError, MissingDependencyError
from deltawire.format.dtypes import Bits, dtype_of
from deltawire.limits import Limits
from deltawire.producer.source import Source, find_aliases
from deltawire.snapshots.header import Entry
from deltawire.snapshots.mapping import MappedFile

StateLike = Any
"""A mapping of torch tensors or NumPy arrays, a torch module, or the path of a safetensors file or directory."""

NUMPY_NAMES = {
    "bool": "BOOL", "int8": "I8", "uint8": "U8", "int16": "I16", "uint16": "U16", "int32": "I32", "uint32": "U32",
    "int64": "I64", "uint64": "U64", "float16": "F16", "float32": "F32", "float64": "F64", "complex64": "C64",
    "bfloat16": "BF16", "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2", "float8_e4m3fnuz": "F8_E4M3FNUZ",
    "float8_e5m2fnuz": "F8_E5M2FNUZ", "float8_e8m0fnu": "F8_E8M0",
}  # fmt: skip
"""Registry names of NumPy's dtypes and those of the package ml_dtypes."""


def open_source(state: StateLike, *, dtypes: Mapping[str, str], limits: Limits, device_base: bool = True) -> Source:
    """Wrap what the caller has.

    Args:
        state: see ``StateLike``.
        dtypes: registry dtypes of NumPy arrays that hold bit patterns, by tensor name, such as BF16 as uint16.
        limits: for files.
        device_base: whether torch tensors on an accelerator are compared there, with a base that is kept there.

    Raises:
        InvalidStateError: it is nothing that can be published.
    """
    if isinstance(state, Source):
        return state
    if isinstance(state, (str, os.PathLike)):
        return FilesSource(Path(state), limits=limits)
    if isinstance(state, Mapping) and state and all(isinstance(value, np.ndarray) for value in state.values()):
        return ArraysSource(state, dtypes=dtypes)
    if isinstance(state, Mapping) or hasattr(state, "state_dict"):
        try:
            from deltawire.producer.torch_source import TorchSource  # noqa: PLC0415 - needs torch
        except MissingDependencyError:
            if hasattr(state, "state_dict"):
                raise
            raise InvalidStateError("the state is empty, or not a mapping of arrays") from None
        return TorchSource(state, device_base=device_base)
    raise InvalidStateError(f"a {type(state).__name__} cannot be published")


_STORAGE = {width: np.dtype(f"<u{width}") for width in (1, 2, 4, 8)}


class ArraysSource(Source):
    """NumPy arrays by name; arrays that share their memory are aliases."""

    def __init__(self, arrays: Mapping[str, npt.NDArray[np.generic]], *, dtypes: Mapping[str, str]) -> None:
        self._arrays = arrays
        self.aliases = find_aliases(arrays, _place)
        kinds = {name: _dtype_name(name, arrays[name], dtypes) for name in arrays if name not in self.aliases}
        self.entries = tuple((name, kind, _logical_shape(name, arrays[name], kind)) for name, kind in kinds.items())

    def bits(self, name: str) -> Bits:
        array = self._arrays[name]
        if not array.flags.c_contiguous or array.dtype.newbyteorder("<") != array.dtype:  # DTY-4
            array = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        return array.reshape(-1).view(_STORAGE[array.itemsize])


def _place(array: npt.NDArray[np.generic]) -> Hashable:
    if not array.size:
        return None
    return array.__array_interface__["data"][0], array.shape, array.strides, array.dtype


def _dtype_name(name: str, array: npt.NDArray[np.generic], dtypes: Mapping[str, str]) -> str:
    known = dtypes.get(name) or NUMPY_NAMES.get(array.dtype.name)
    if known is None:
        raise InvalidStateError(f"{name!r} has the NumPy type {array.dtype}, which has no name in safetensors")
    if dtype_of(known).width != array.itemsize:
        raise InvalidStateError(f"{name!r} has elements of {array.itemsize} bytes, which cannot be {known}")
    return known


def _logical_shape(name: str, array: npt.NDArray[np.generic], kind: str) -> tuple[int, ...]:
    """Shape in elements; those of a sub-byte dtype are packed along the array's last dimension (DTY-3)."""
    dtype = dtype_of(kind)
    if not dtype.packed:
        return array.shape
    if not array.shape or array.shape[-1] * 8 % dtype.bits:
        raise InvalidStateError(f"{name!r}: rows of bytes of shape {array.shape} do not hold whole {kind} elements")
    return (*array.shape[:-1], array.shape[-1] * 8 // dtype.bits)


class FilesSource(Source):
    """A safetensors file, or a directory of them, mapped into memory."""

    def __init__(self, path: Path, *, limits: Limits) -> None:
        self._places: dict[str, tuple[MappedFile, Entry]] = {}
        self.files = tuple(self._files(path))
        """The safetensors files."""
        for file in self.files:
            mapped = MappedFile(file, limits=limits)
            for entry in mapped.header.entries:
                if entry.name in self._places:
                    raise InvalidStateError(f"{entry.name!r} is in two files of {path}")
                self._places[entry.name] = mapped, entry
        self.entries = tuple((name, entry.dtype, entry.shape) for name, (_, entry) in self._places.items())
        self.aliases = {}

    def bits(self, name: str) -> Bits:
        file, entry = self._places[name]
        return file.bits(entry)

    @staticmethod
    def _files(path: Path) -> Iterator[Path]:
        if path.is_file():
            yield path
            return
        if not path.exists():
            raise InvalidStateError(f"{path} does not exist")
        if not path.is_dir():
            raise InvalidStateError(f"{path} is neither a safetensors file nor a directory")
        index = path / "model.safetensors.index.json"
        if index.is_file():
            # Only what the index names: a directory may hold other weights, such as a consolidated copy.
            try:
                names = sorted(set(json.loads(index.read_bytes())["weight_map"].values()))
                found = [path / Path(name).name for name in names]
            except (ValueError, KeyError, TypeError, AttributeError):
                raise InvalidStateError(f"{index} is not a safetensors index") from None
        else:
            found = sorted(path.glob("*.safetensors"))
        if not found:
            raise InvalidStateError(f"{path} holds no safetensors files")
        for file in found:
            if not file.is_file():
                raise InvalidStateError(f"{index} names {file.name}, which is not there")
        yield from found


AUXILIARY = (
    "config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
    "added_tokens.json", "vocab.txt", "vocab.json", "merges.txt", "tokenizer.model", "chat_template.jinja",
    "preprocessor_config.json", "modules.json", "sentence_bert_config.json", "config_sentence_transformers.json",
)  # fmt: skip


def auxiliary_files(path: Path) -> dict[str, bytes]:
    """Config, tokenizer and chat template of a Hugging Face checkpoint directory, by name."""
    return {name: (path / name).read_bytes() for name in AUXILIARY if (path / name).is_file()}
