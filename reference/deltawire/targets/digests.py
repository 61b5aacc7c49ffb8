"""State digests of whole tensors, wherever they are (SPEC.md section 10)."""

from __future__ import annotations

import numpy as np

from deltawire.format.tensors import Tensor
from deltawire.kernels.digest import digest_range
from deltawire.targets.base import Held, Target, TensorBits

_RUN = 1 << 22


def state_digest_of(bits: TensorBits, tensor: Tensor) -> int:
    """One tensor's share of the state digest, a run of elements at a time (DIG-2)."""
    total = 0
    for start in range(0, tensor.elements, _RUN):
        run = bits.gather(slice(start, min(start + _RUN, tensor.elements)))
        total += int(digest_range(run, np.uint64(tensor.seed), np.uint64(start)))
    return total & ((1 << 64) - 1)


def digest_held(target: Target, held: Held) -> int:
    """Digest of all that a target holds, element by element. DIG-6"""
    return sum(state_digest_of(target.bits(tensor), tensor) for tensor in held.tensors) & ((1 << 64) - 1)
