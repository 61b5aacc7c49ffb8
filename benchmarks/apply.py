"""What a follower's step costs, and how that grows with the model while the change does not."""

from benchmarks.model import Figure, best_cpu, step, weights
from deltawire import AnchorPolicy, Follower, Publisher
from deltawire.consumer.staging import Totals, stage_row
from deltawire.format.dtypes import Bits
from deltawire.format.tensors import build_table
from deltawire.kernels.scan import Room
from deltawire.limits import DEFAULT_LIMITS
from deltawire.producer.encoding import BOX_ELEMENTS, Encoder
from deltawire.store.memory import MemoryStore
from deltawire.targets.arrays import NumpyBits
from deltawire.targets.base import Indices

CHANGED = 400_000
STEPS = 9
SMALL, LARGE = 1 << 24, 10 << 24


def run() -> list[Figure]:
    small, large = _poll(SMALL, "small"), _poll(LARGE, "large")
    return [
        {
            "figure": "apply, 10 x the model",
            "value": f"{large / small:.2f} x the time",
            "note": f"{CHANGED:,} changed elements of 17 and of 168 million, processor time of a poll: plan, fetch, "
            f"decode, verify, swap; {CHANGED / small / 1e6:.0f} and {CHANGED / large / 1e6:.0f} million a second",
        },
        *(_rows(elements, changed) for elements, changed in ((SMALL, SMALL // 100), (LARGE, LARGE // 100))),
    ]


def _poll(elements: int, name: str) -> float:
    """Least processor time of a poll that applies one version of ``CHANGED`` changes."""
    store = MemoryStore(f"benchmark-{name}")
    state = weights(elements, seed=0)
    with Publisher(store, anchors=AnchorPolicy(every=None, outweigh=None)) as publisher, Follower(store) as follower:
        publisher.publish({"weight": state}, dtypes={"weight": "BF16"})
        follower.poll()
        for number in range(STEPS):
            state = step(state, CHANGED, seed=number + 1)
            publisher.publish({"weight": state}, dtypes={"weight": "BF16"})
        versions = iter(range(1, STEPS + 1))
        return best_cpu(lambda: follower.poll(to=next(versions)), times=STEPS - 1)


def _rows(elements: int, changed: int) -> Figure:
    """Rows to verified new bits, and the swap; no batches."""
    table = build_table([("weight", "BF16", (1 << 12, elements >> 12))], limits=DEFAULT_LIMITS)
    old = weights(elements, seed=0)
    rows = list(Encoder().rows(table.tensors[0], old, step(old, changed, seed=1), Room(BOX_ELEMENTS)))
    bits = NumpyBits(old)

    def stage() -> list[tuple[Indices | slice, Bits]]:
        totals = Totals()
        changes = [stage_row(row, table.tensors[0], bits, totals) for row in rows]
        return [(change.where, change.new) for change in changes]

    staged = stage()

    def swap() -> None:
        for where, new in staged:
            bits.scatter(where, new)

    verify, write = best_cpu(stage), best_cpu(swap)
    return {
        "figure": f"apply, rows of {elements >> 20} Mi elements",
        "value": f"{changed / (verify + write) / 1e6:.0f} million a second",
        "note": f"1 % of bf16 changed, one core: {verify / changed * 1e9:.1f} ns an element to decode and verify, "
        f"{write / changed * 1e9:.1f} ns to write",
    }
