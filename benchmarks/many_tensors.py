"""Streams of a hundred thousand small tensors: what publishing, following and maintaining cost for each of them.

By simulation: the names and dtypes of a model of a trillion parameters (``moe``), with a few elements a tensor, through
publisher, store in memory, follower and maintainer. What the elements cost is measured elsewhere: this is the rest.
Batches are as many as a delta of the real model has, so that what a rank asks for is what it would ask for there.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from benchmarks import moe
from benchmarks.counting import CountingStore
from benchmarks.model import Figure
from benchmarks.scale import COUNTS, exponent
from deltawire import AnchorPolicy, Follower, Publisher
from deltawire.maintaining.builder import Builder
from deltawire.maintaining.ladder import Ladder
from deltawire.parts.writer import PartOptions
from deltawire.producer.anchors import NEVER

VERSIONS = 4
BATCH_BYTES = 2 << 10
RANKS = 64
NO_ANCHORS = AnchorPolicy(every=None, outweigh=None)
STORAGE = {"BF16": np.uint16, "F8_E4M3": np.uint8, "F32": np.uint32}

Arrays = dict[str, npt.NDArray[np.unsignedinteger]]


@dataclass(frozen=True, slots=True)
class _Costs:
    """CPU seconds of the process, and what one rank of an expert-parallel follower asks for."""

    first: float
    loading: float
    publish: float
    follow: float
    publish_same: float
    follow_same: float
    rank_follow: float
    rank_requests: float
    rank_bytes: float
    """As a fraction of the parts."""
    rank_share: float
    """Of the tensors that it holds."""
    building: float
    spans: int


def run() -> list[Figure]:
    _measure(100)  # kernels are compiled, which does not count
    found = {count: _measure(count) for count in COUNTS}
    last = found[COUNTS[-1]]
    figures: list[Figure] = []
    for what, member in (
        ("publishing, every tensor changed", "publish"),
        ("following, every tensor changed", "follow"),
        ("publishing, nothing changed", "publish_same"),
        ("following, nothing changed", "follow_same"),
        ("the first version", "first"),
        ("loading it", "loading"),
        (f"following as rank 1 of EP {RANKS}", "rank_follow"),
        ("a maintainer's pass", "building"),
    ):
        seconds = [getattr(costs, member) for costs in found.values()]
        more = f"; {last.spans} spans over {VERSIONS} versions" if member == "building" else ""
        figures.append(
            {
                "figure": what,
                "value": f"{seconds[-1] / COUNTS[-1] * 1e6:.2f} µs a tensor",
                "note": f"tensors^{exponent(COUNTS, seconds):.2f}: {', '.join(f'{each:.3g}' for each in seconds)} s of"
                f" CPU for {', '.join(f'{count:,}' for count in COUNTS)} tensors{more}",
            }
        )
    figures.append(
        {
            "figure": f"a rank of EP {RANKS}",
            "value": f"{last.rank_bytes:.1%} of the bytes",
            "note": f"{last.rank_requests:.0f} requests a version, with batches of {BATCH_BYTES >> 10} KiB, in each of"
            f" which are as many tensors as in one of the real model; it holds"
            f" {last.rank_share:.1%} of the first {COUNTS[-1]:,} tensors",
        }
    )
    return figures


def _measure(count: int) -> _Costs:
    entries = moe.miniature(moe.entries(count))
    name = f"many-tensors-{count}"
    own = CountingStore(name)
    rng = np.random.default_rng(0)
    state: Arrays = {name: rng.integers(0, 60, shape).astype(STORAGE[dtype]) for name, dtype, shape in entries}
    dtypes = {name: dtype for name, dtype, _ in entries}
    chosen = _rank(list(state))
    costs: dict[str, list[float]] = {}

    def timed(what: str, work: Callable[[], object]) -> None:
        started = time.process_time()
        work()
        costs.setdefault(what, []).append(time.process_time() - started)

    rank_store = CountingStore(name)
    with (
        Publisher(own, anchors=NO_ANCHORS, parts=PartOptions(batch_bytes=BATCH_BYTES)) as publisher,
        Follower(CountingStore(name)) as follower,
        Follower(rank_store, tensors=chosen) as rank,
    ):
        timed("first", lambda: publisher.publish(state, dtypes=dtypes))
        timed("loading", follower.poll)
        rank.poll()
        rank_store.reset()
        sizes = 0
        for _ in range(VERSIONS):
            for bits in state.values():
                bits.reshape(-1)[rng.integers(bits.size)] ^= 1
            timed("publish", lambda: publisher.publish(state, dtypes=dtypes))
            timed("follow", follower.poll)
            timed("rank_follow", rank.poll)
            assert follower.record is not None
            assert follower.record.delta is not None
            sizes += sum(part.bytes for part in follower.record.delta.parts)
        requests, fetched = rank_store.requests.copy(), rank_store.bytes_in
        timed("publish_same", lambda: publisher.publish(state, dtypes=dtypes))
        timed("follow_same", follower.poll)
        follower.verify()
    with Builder(own, ladder=Ladder(smallest=2, largest=VERSIONS), anchors=NEVER) as builder:
        started = time.process_time()
        built = builder.run(force=True)
        building = time.process_time() - started
    return _Costs(
        **{what: min(seconds) for what, seconds in costs.items()},
        rank_requests=requests.total() / VERSIONS,
        rank_bytes=fetched / sizes,
        rank_share=len(chosen) / len(state),
        building=building,
        spans=len(built.spans),
    )


def _rank(names: list[str]) -> list[str]:
    """What the first rank holds: its experts, and everything that is no expert."""
    each = moe.EXPERTS // RANKS
    return [name for name in names if ".experts." not in name or int(name.split(".experts.")[1].split(".")[0]) < each]
