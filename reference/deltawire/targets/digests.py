"""State digests of whole tensors, wherever they are (SPEC.md section 10)."""

from __future__ import annotations

from deltawire.format.tensors import Tensor
from deltawire.targets.base import Held, Target, TensorBits

_RUN = 1 << 22


def state_digest_of(bits: TensorBits, tensor: Tensor) -> int:
    """One tensor's share of the state digest, a run of elements at a time (DIG-2)."""
    total = 0
    for start in range(0, tensor.elements, _RUN):
        total += bits.digest(start, min(start + _RUN, tensor.elements), tensor.seed)
    return total & ((1 << 64) - 1)


def digest_held(target: Target, held: Held) -> int:
    """Digest of all that a target holds, element by element. DIG-6"""
    return sum(state_digest_of(target.bits(tensor), tensor) for tensor in held.tensors) & ((1 << 64) - 1)
