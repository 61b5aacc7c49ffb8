"""A short line of versions of a small model."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from deltawire import Follower, Publisher

State = dict[str, npt.NDArray[np.uint16]]


def state(seed: int) -> State:
    """States that differ in a few elements, so that no version but the first is a snapshot."""
    bits = np.random.default_rng(0).integers(0, 1 << 16, (64, 64), np.uint16)
    bits[np.random.default_rng(seed).random(bits.shape) < 0.01] ^= 1 + seed
    return {"w": bits}


def publish(publisher: Publisher, seed: int) -> tuple[int, str]:
    """Publish a state; its version and digest."""
    published = publisher.publish(state(seed), dtypes={"w": "BF16"})
    return published.version, published.state_digest


def following(url: str) -> Follower:
    """A follower that leaves no pin."""
    return Follower(url, pin=False)


def follow(follower: Follower, wanted: tuple[int, str], seed: int) -> None:
    """See that the newest version is the wanted one, bit for bit."""
    update = follower.poll()
    assert update is not None
    assert (update.version, update.state_digest) == wanted
    assert np.array_equal(follower.arrays["w"], state(seed)["w"])
