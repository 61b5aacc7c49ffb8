"""What applying a step costs as the model grows and the change does not, next to layouts that touch all of it."""

import numpy as np

from benchmarks.measuring import best_cpu, check, warm_up
from benchmarks.model import Figure, step, weights
from benchmarks.peers import PEERS

CHANGED = 200_000
TENSOR = 1 << 22
TENSORS = (4, 8, 16, 32, 64)
OWN = "Deltawire: gap"
LAYOUTS = (OWN, "Deltawire: ranked", "slime: xor, zstd-1", "safetensors")
COPY = "copy of the model"


def run() -> list[Figure]:
    found: dict[str, list[float]] = {name: [] for name in (*LAYOUTS, COPY)}
    for name in LAYOUTS:
        warm_up(PEERS[name])
    for tensors in TENSORS:
        for name, seconds in _seconds(tensors).items():
            found[name].append(seconds)
    smallest = found[OWN][0]
    grown = TENSORS[-1] // TENSORS[0]
    return [
        Figure(
            figure=f"{grown} x the model: {name}",
            value=f"{seconds[-1] / seconds[0]:.2f} x the time",
            note=f"to apply {CHANGED:,} changes to {TENSORS[-1] * TENSOR:,} elements and not {TENSORS[0] * TENSOR:,}; "
            f"{seconds[-1] / found[OWN][-1]:.1f} x the time of {OWN} there",
            data={
                "layout": name,
                "model_bytes": [2 * TENSOR * count for count in TENSORS],
                "relative_seconds": [one / smallest for one in seconds],
            },
        )
        for name, seconds in found.items()
    ]


def _seconds(tensors: int) -> dict[str, float]:
    """CPU time to apply a step to so many tensors, by layout."""
    old = {f"layer.{index}.weight": weights(TENSOR, seed=index) for index in range(tensors)}
    new = {name: step(bits, CHANGED // tensors, seed=index) for index, (name, bits) in enumerate(old.items())}
    own = {name: bits.copy() for name, bits in old.items()}

    def reset() -> None:
        for name, bits in own.items():
            np.copyto(bits, old[name])

    found = {COPY: best_cpu(reset)}
    for layout in LAYOUTS:
        peer = PEERS[layout]
        payload = peer.encode(old, new)
        found[layout] = best_cpu(lambda: peer.apply(payload, own), prepare=reset)  # noqa: B023 - called before the next
        check(own, new, peer)
    return found
