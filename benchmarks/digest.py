"""How fast one core takes the digest of a whole state."""

from functools import partial

import numpy as np

from benchmarks.model import Figure, best_cpu, weights
from deltawire.kernels.digest import digest_range

BYTES = 1 << 28


def run() -> list[Figure]:
    state = weights(BYTES // 2, seed=0)
    words = state.view(np.float64)
    read = best_cpu(lambda: np.add.reduce(words))
    figures: list[Figure] = []
    for width in (1, 2, 4, 8):
        bits = state.view(f"<u{width}")
        seconds = best_cpu(partial(digest_range, bits, np.uint64(1), np.uint64(0)))
        figures.append(
            {
                "figure": f"digest, {8 * width} bits",
                "value": f"{read / seconds:.2f} x reading",
                "note": f"{BYTES / seconds / 1e9:.1f} GB/s, {bits.size / seconds / 1e9:.1f} elements a ns, "
                f"where a sum reads {BYTES / read / 1e9:.1f} GB/s",
            }
        )
    return figures
