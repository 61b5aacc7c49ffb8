"""Small checkpoints on disk, made without the code under test."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

State = dict[str, tuple[str, tuple[int, ...], bytes]]
Tensors = Mapping[str, tuple[str, tuple[int, ...], bytes]]
"""dtype name, shape and little-endian bytes by name."""


def write_shard(path: Path, tensors: Tensors, metadata: Mapping[str, str] | None = None) -> None:
    """Write a safetensors file by hand."""
    members: dict[str, object] = {"__metadata__": dict(metadata)} if metadata else {}
    begin = 0
    for name, (dtype, shape, data) in tensors.items():
        members[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, begin + len(data)]}
        begin += len(data)
    header = json.dumps(members).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + b"".join(data for _, _, data in tensors.values()))


def read_shard(path: Path) -> State:
    """Read a safetensors file by hand."""
    raw = path.read_bytes()
    start = 8 + int.from_bytes(raw[:8], "little")
    members = json.loads(raw[8:start])
    members.pop("__metadata__", None)
    found: State = {}
    for name, member in members.items():
        begin, end = member["data_offsets"]
        found[name] = (member["dtype"], tuple(member["shape"]), raw[start + begin : start + end])
    return found


def read_checkpoint(path: Path) -> State:
    """All tensors of the safetensors files in a directory."""
    found: State = {}
    for file in sorted(path.glob("*.safetensors")):
        found |= read_shard(file)
    return found


def steps(count: int, *, seed: int = 7) -> list[State]:
    """A bf16 weight, an f32 norm and a buffer over a few training steps; the buffer never changes."""
    random = np.random.default_rng(seed)
    weight = random.integers(0, 1 << 16, 4096, dtype=np.uint16)
    norm = random.standard_normal(64).astype("<f4")
    states = []
    for _ in range(count):
        states.append(
            {
                "layers.0.weight": ("BF16", (64, 64), weight.tobytes()),
                "layers.0.norm": ("F32", (64,), norm.tobytes()),
                "positions": ("I64", (8,), np.arange(8, dtype="<i8").tobytes()),
            }
        )
        weight[random.choice(4096, 40, replace=False)] += np.uint16(1)
        norm[random.choice(64, 3, replace=False)] *= np.float32(1.001)
    return states


def write_steps(folder: Path, count: int) -> list[Path]:
    """Checkpoint directories of ``steps``, with a config that changes with the third."""
    paths = []
    for number, state in enumerate(steps(count)):
        path = folder / f"step-{number}"
        path.mkdir(parents=True)
        write_shard(path / "model.safetensors", state, {"format": "pt"})
        (path / "config.json").write_text(json.dumps({"model_type": "tiny", "stage": int(number >= 2)}))
        paths.append(path)
    return paths
