"""What a reader that is far behind fetches, with a ladder of spans and without."""

from collections import Counter
from collections.abc import Iterator

import numpy as np

from benchmarks.model import Figure
from deltawire import AnchorPolicy, Follower, Publisher
from deltawire.maintaining.builder import Builder
from deltawire.maintaining.ladder import Ladder
from deltawire.producer.anchors import NEVER
from deltawire.store.base import ObjectInfo, StoredObject
from deltawire.store.memory import MemoryStore

ELEMENTS = 1 << 18
VERSIONS = 1024
CHANGED = 0.01
BEHIND = (1, 10, 100, 1000)


class Counting(MemoryStore):
    """Counts what is asked for."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.requests: Counter[str] = Counter()
        self.bytes = 0

    def get(self, key: str, *, max_bytes: int) -> StoredObject:
        self._count(key, 0)  # one that finds nothing is a request too
        found = super().get(key, max_bytes=max_bytes)
        self.bytes += len(found.data)
        return found

    def get_range(self, key: str, start: int, length: int) -> bytes:
        self._count(key, length)
        return super().get_range(key, start, length)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        self._count(prefix, 0)
        return super().list(prefix)

    def _count(self, key: str, size: int) -> None:
        self.requests[key.split("/", maxsplit=1)[0]] += 1
        self.bytes += size


def run() -> list[Figure]:
    store = Counting("benchmark-catching-up")
    _publish(store)
    plain = {behind: _catch_up(store, behind) for behind in BEHIND}
    newcomer = _catch_up(store, None)
    with Builder(store, ladder=Ladder(smallest=4, largest=1024), anchors=NEVER) as builder:
        built = builder.run(force=True)
    figures: list[Figure] = [
        {
            "figure": "catching up, ladder",
            "value": f"{len(built.spans)} spans",
            "note": f"of 4 to 1024 versions, for {VERSIONS} versions of {ELEMENTS:,} bf16 elements of which about"
            f" {CHANGED:.0%} change with each, the larger ones more often; {built.bytes_written / 1e6:.1f} MB",
        }
    ]
    for behind, (size, requests) in plain.items():
        less, fewer = _catch_up(store, behind)
        figures.append(
            {
                "figure": f"catching up, {behind} behind",
                "value": f"{less / size:.2f} x the bytes",
                "note": f"{size / 1e3:,.0f} kB in {requests:,} requests by deltas alone, {less / 1e3:,.0f} kB in"
                f" {fewer:,} with spans, records included",
                "data": {
                    "behind": behind,
                    "bytes": size,
                    "requests": requests,
                    "bytes_with_spans": less,
                    "requests_with_spans": fewer,
                },
            }
        )
    size, requests = newcomer
    less, fewer = _catch_up(store, None)
    figures.append(
        {
            "figure": "catching up, from nothing",
            "value": f"{less / size:.2f} x the bytes",
            "note": f"the snapshot of version 0, then {size / 1e3:,.0f} kB in {requests:,} requests by deltas,"
            f" {less / 1e3:,.0f} kB in {fewer:,} with spans",
        }
    )
    return figures


def _publish(store: MemoryStore) -> None:
    """Versions in which the same weights change again and again, as a step of one size moves the small ones seldom."""
    rng = np.random.default_rng(5)
    state = rng.standard_normal(ELEMENTS).astype(np.float32).view(np.uint32) >> 16
    bits = state.astype(np.uint16)
    chance = rng.exponential(CHANGED, ELEMENTS)
    with Publisher(store, anchors=AnchorPolicy(every=None, outweigh=None)) as publisher:
        for _ in range(VERSIONS + 1):
            publisher.publish({"weight": bits}, dtypes={"weight": "BF16"})
            moved = rng.random(ELEMENTS) < chance
            bits = bits + np.where(moved, rng.choice(np.array([1, 0xFFFF], np.uint16), ELEMENTS), 0).astype(np.uint16)


def _catch_up(store: Counting, behind: int | None) -> tuple[int, int]:
    """Bytes and requests of one poll from so many versions behind, or from nothing."""
    with Follower(store, pin=False) as follower:
        if behind is not None:
            follower.poll(to=VERSIONS - behind)
        store.requests.clear()
        store.bytes = 0
        follower.poll()
        follower.verify()
    return store.bytes, store.requests.total()
