"""What a follower's step costs as the model grows and the change does not."""

import statistics

from benchmarks.model import Figure, step, weights
from deltawire import AnchorPolicy, Follower, Publisher
from deltawire.store.memory import MemoryStore

CHANGED = 400_000
STEPS = 7


def run() -> list[Figure]:
    small, large = _seconds(1 << 24, "small"), _seconds(10 << 24, "large")
    ratio = large / small
    return [
        {
            "figure": "apply, 10 x the model",
            "value": f"{ratio:.2f} x the time",
            "note": f"{CHANGED:,} changed elements of 17 and of 168 million; fetch from memory, verify, swap: "
            f"{CHANGED / small / 1e6:.0f} and {CHANGED / large / 1e6:.0f} million a second",
        }
    ]


def _seconds(elements: int, name: str) -> float:
    """Median time of a poll that applies one version of ``CHANGED`` changes."""
    store = MemoryStore(f"benchmark-{name}")
    state = weights(elements, seed=0)
    found = []
    with Publisher(store, anchors=AnchorPolicy(every=None, outweigh=None)) as publisher, Follower(store) as follower:
        for number in range(STEPS):
            publisher.publish({"weight": state}, dtypes={"weight": "BF16"})
            update = follower.poll()
            if update is not None and number > 1:
                timings = update.timings
                found.append(timings.fetch_seconds + timings.decode_seconds + timings.apply_seconds)
            state = step(state, CHANGED, seed=number + 1)
    return statistics.median(found)
