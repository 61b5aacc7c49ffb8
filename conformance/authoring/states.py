"""States to publish: tensors as bytes, and what an adapter must print for them."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from deltawire.format.dtypes import dtype_of, storage_shape
from deltawire.format.tensors import Tensor
from deltawire.kernels.oracle import digest_at
from deltawire_conformance.neutral import NeutralState, neutral_files, neutral_tensor

M64 = (1 << 64) - 1
Bits = npt.NDArray[np.unsignedinteger]


@dataclass(frozen=True)
class Values:
    """One tensor."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes

    @property
    def bits(self) -> Bits:
        """The stored elements, flat."""
        return np.frombuffer(self.data, dtype_of(self.dtype).storage)


@dataclass(frozen=True)
class State:
    """All tensors of a model, in the order of their table, with aliases and auxiliary files."""

    tensors: Mapping[str, Values]
    aliases: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)

    def table(self) -> list[Tensor]:
        """The tensors as the reference knows them."""
        return [
            Tensor(ordinal, name, dtype_of(v.dtype), v.shape, storage_shape(dtype_of(v.dtype), v.shape))
            for ordinal, (name, v) in enumerate(self.tensors.items())
        ]

    def digests(self) -> dict[str, int]:
        """Digest of each tensor (DIG-3)."""
        return {t.name: digest_of(t, self.tensors[t.name].bits) for t in self.table()}

    @property
    def digest(self) -> int:
        """The state digest."""
        return sum(self.digests().values()) & M64

    def with_bits(self, name: str, positions: Sequence[int], bits: Sequence[int]) -> State:
        """The same state with other bits at some flat indices of a tensor."""
        changed = self.tensors[name].bits.copy()
        changed[list(positions)] = np.array(bits, changed.dtype)
        return self.with_values(name, replace(self.tensors[name], data=changed.tobytes()))

    def with_values(self, name: str, values: Values) -> State:
        """The same state with another tensor under a name."""
        return replace(self, tensors={**self.tensors, name: values})

    def with_files(self, **files: bytes) -> State:
        """The same state with exactly these files; ``config_json`` stands for ``config.json``."""
        return replace(self, files={name.replace("_", ".", 1): data for name, data in files.items()})

    def neutral(self, version: int, *, only: Sequence[str] | None = None) -> NeutralState:
        """What an adapter prints that holds it, or some of its tensors."""
        names = list(self.tensors) if only is None else list(only)
        digests = self.digests()
        return NeutralState(
            version=version,
            state_digest=f"{sum(digests[name] for name in names) & M64:016x}",
            tensors={
                name: neutral_tensor(v.dtype, v.shape, v.data) for name, v in self.tensors.items() if name in names
            },
            files=neutral_files(self.files),
        )


def digest_of(tensor: Tensor, bits: Bits, indices: Bits | None = None) -> int:
    """Sum of contributions of elements (DIG-2), by the reference's plain arithmetic."""
    where = np.arange(bits.size, dtype=np.uint64) if indices is None else indices.astype(np.uint64)
    return digest_at(bits, where, tensor.seed) if bits.size else 0


def values(dtype: str, shape: Sequence[int], *, seed: str = "") -> Values:
    """A tensor of bits that look random and are the same everywhere; small numbers where the type is a float.

    Args:
        dtype: registry name.
        shape: logical shape.
        seed: tensors with another seed have other bits.
    """
    kind = dtype_of(dtype)
    size = math.prod(storage_shape(kind, tuple(shape))) * kind.width
    stream = hashlib.shake_256(f"{dtype} {list(shape)} {seed}".encode()).digest(size)
    if dtype == "BOOL":
        return Values(dtype, tuple(shape), bytes(byte & 1 for byte in stream))
    return Values(dtype, tuple(shape), stream)


def small_model(*, seed: str = "", files: Mapping[str, bytes] | None = None) -> State:
    """The state that most cases begin with: three tensors, two dtypes, an empty-handed bias and one file."""
    return State(
        {
            "embed.weight": values("BF16", (8, 6), seed=seed),
            "layers.0.mlp.weight": values("BF16", (6, 10), seed=seed),
            "norm.weight": values("F32", (7,), seed=seed),
        },
        files={"config.json": b'{"model_type":"tiny"}'} if files is None else dict(files),
    )


def trained(state: State, step: int, *, changes: int = 5) -> State:
    """The state after another step of training: some elements of each float tensor one bit pattern further."""
    result = state
    for ordinal, (name, v) in enumerate(state.tensors.items()):
        bits = v.bits
        if not bits.size:
            continue
        random = np.random.Generator(np.random.PCG64(step * 1009 + ordinal))
        positions = np.sort(random.choice(bits.size, min(changes, bits.size), replace=False))
        result = result.with_bits(name, positions.tolist(), (bits[positions] ^ bits.dtype.type(1)).tolist())
    return result
