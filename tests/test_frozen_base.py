"""What an anchor that takes long costs while versions go on."""

from __future__ import annotations

import numpy as np
import pytest

from deltawire.format.tensors import build_table
from deltawire.kernels.digest import digest_range
from deltawire.limits import DEFAULT_LIMITS
from deltawire.producer.base import BaseState
from tests.devices.places import PLACES, Place, bits_in, source_tensor

ELEMENTS = 10_000
VERSIONS = 40


@pytest.mark.parametrize("place", PLACES)
def test_old_bits_that_are_kept_do_not_grow_with_versions(place: Place) -> None:
    table = build_table([("t", "BF16", (ELEMENTS,))], limits=DEFAULT_LIMITS)
    [tensor] = table.tensors
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 1 << 16, ELEMENTS, dtype=np.uint16)
    base = BaseState(table, [source_tensor(bits, place).hold()])
    freeze = base.freeze()
    kept = []
    new = bits.copy()
    for _ in range(VERSIONS):
        new[rng.integers(0, ELEMENTS, ELEMENTS // 20)] += np.uint16(1)
        shares = [
            int(digest_range(state, np.uint64(tensor.seed), np.uint64(0))) for state in (bits_in(base, tensor), new)
        ]
        base.advance(tensor, source_tensor(new, place), before=shares[0], after=shares[1])
        kept.append(freeze.undo_bytes(0) + sum(copy.nbytes for copy in freeze.copies.values()))
    # The tensor once, and what the last version before it was copied had changed: an index and old bits an element.
    assert max(kept) <= bits.nbytes + ELEMENTS // 20 * (4 + 2)
    assert kept[-1] == bits.nbytes
    assert b"".join(base.read_frozen(freeze, tensor)) == bits.tobytes()
    assert not freeze.copies
    assert not freeze.undo
