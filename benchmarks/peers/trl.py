"""TRL's delta weight sync: a safetensors file of positions and new values of each changed parameter.

As in the blog post of May 2026 (absolute int32 positions), and as in its third pull request (gaps).
"""

import json

import numpy as np
import numpy.typing as npt
from safetensors.numpy import load, save

from benchmarks.peers.base import Peer, State, changed_tensors


class TrlBlogPeer(Peer):
    """int32 positions and bf16 values: six bytes a change."""

    name = "TRL blog: int32 + bf16"

    def encode(self, old: State, new: State) -> bytes:
        tensors: dict[str, npt.NDArray[np.generic]] = {}
        changed = []
        for name, _, after, positions in changed_tensors(old, new):
            tensors[f"{name}.indices"] = positions.astype(np.int32)
            tensors[f"{name}.values"] = after[positions]
            changed.append(name)
        total = sum(bits.size for bits in new.values())
        count = sum(array.size for array in tensors.values()) // 2
        metadata = {
            "sparse": "true",
            "model_version": "1",
            "sparsity": str(1 - count / max(total, 1)),
            "changed_params": json.dumps(changed),
        }
        return save(tensors, metadata)

    def apply(self, payload: bytes, state: State) -> None:
        tensors = load(payload)
        for key, positions in tensors.items():
            name, _, kind = key.rpartition(".")
            if kind == "indices":
                state[name].reshape(-1)[positions] = tensors[f"{name}.values"]


class TrlGapPeer(Peer):
    """Gaps of 16 bits, or of 32 for a parameter in which one is larger, and bf16 values."""

    name = "TRL v3: u16 gaps + bf16"

    def encode(self, old: State, new: State) -> bytes:
        tensors: dict[str, npt.NDArray[np.generic]] = {}
        for name, _, after, positions in changed_tensors(old, new):
            gaps = np.diff(positions, prepend=-1) - 1
            tensors[f"{name}.idx"] = gaps.astype(np.uint16 if gaps.max() <= 0xFFFF else np.uint32)
            tensors[f"{name}.val"] = after[positions]
        metadata = {
            "format": "sparse_weight_patch",
            "version": "1",
            "sparse": "true",
            "model_version": "1",
            "num_changed_params": str(len(tensors) // 2),
            "total_changed_elements": str(sum(array.size for array in tensors.values()) // 2),
            "total_elements": str(sum(bits.size for bits in new.values())),
            "encoding": "gap_delta",
        }
        return save(tensors, metadata)

    def apply(self, payload: bytes, state: State) -> None:
        tensors = load(payload)
        for key, gaps in tensors.items():
            name, _, kind = key.rpartition(".")
            if kind == "idx":
                positions = np.cumsum(gaps.astype(np.int64) + 1) - 1
                state[name].reshape(-1)[positions] = tensors[f"{name}.val"]
