"""Two states of the same bf16 tensors, as layouts and bounds take them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from benchmarks.peers import Bits16

NAMES = ("embed.weight", "layers.0.norm", "layers.0.values", "w")


@st.composite
def steps(draw: st.DrawFn) -> tuple[Mapping[str, Bits16], Mapping[str, Bits16]]:
    """A state and the one after it: nothing, a little or everything of a tensor changes, by any difference."""
    old = {
        name: draw(arrays(np.uint16, draw(array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=40))))
        for name in draw(st.lists(st.sampled_from(NAMES), min_size=1, unique=True))
    }
    new = {}
    for name, bits in old.items():
        chance = draw(st.sampled_from((0.0, 0.01, 0.3, 1.0)))
        rng = np.random.default_rng(draw(st.integers(0, 1 << 32)))
        flips = rng.integers(0, 1 << draw(st.sampled_from((1, 3, 16))), bits.shape).astype(np.uint16)
        new[name] = np.where(rng.random(bits.shape) < chance, bits ^ flips, bits).astype(np.uint16)
    return old, new
