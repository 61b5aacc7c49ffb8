"""One stream and 1 to 64 followers: what each asks of the store for a version, and whether the publisher notices."""

from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass

from benchmarks.counting import CountingStore
from benchmarks.model import Figure, step, weights
from deltawire import AnchorPolicy, Follower, Publisher

FOLLOWERS = (1, 2, 4, 8, 16, 32, 64)
VERSIONS = 8
TENSORS = 16
ELEMENTS = 1 << 14
CHANGED = 0.01


@dataclass(frozen=True, slots=True)
class _Asked:
    """Requests for one version, on average."""

    each: float
    """Of one follower that takes it."""
    each_bytes: float
    idle: float
    """Of one follower that finds nothing new."""
    publisher: float
    verbs: str
    """What a follower asks for."""


def run() -> list[Figure]:
    found = {count: _measure(count) for count in FOLLOWERS}
    few, many = found[FOLLOWERS[0]], found[FOLLOWERS[-1]]
    figures: list[Figure] = [
        {
            "figure": f"{count} follower{'s' * (count > 1)}",
            "value": f"{asked.each:.1f} requests a version each",
            "note": f"{asked.each * count:,.0f} in all, {asked.each_bytes / 1e3:,.1f} kB each ({asked.verbs}); "
            f"{asked.publisher:.1f} of the publisher's",
        }
        for count, asked in found.items()
    ]
    figures.append(
        {
            "figure": "the publisher's requests, 64 followers to 1",
            "value": f"{many.publisher / few.publisher:.2f} x",
            "note": f"counted at the store, over {VERSIONS} versions; a look at a stream with nothing new is"
            f" {many.idle:.1f} requests; what renews leases and pins goes by the clock, not by versions",
        }
    )
    return figures


def _measure(count: int) -> _Asked:
    name = f"benchmark-followers-{count}"
    own = CountingStore(name)
    views = [CountingStore(name) for _ in range(count)]
    state = {f"layer.{index}": weights(ELEMENTS, seed=index) for index in range(TENSORS)}
    idle = 0
    with ExitStack() as stack:
        publisher = stack.enter_context(Publisher(own, anchors=AnchorPolicy(every=None, outweigh=None)))
        publisher.publish(state, dtypes=dict.fromkeys(state, "BF16"))
        followers = [stack.enter_context(Follower(view)) for view in views]
        for follower in followers:
            follower.poll()
        for view in (own, *views):
            view.reset()
        for version in range(1, VERSIONS + 1):
            for index, (tensor, bits) in enumerate(state.items()):
                state[tensor] = step(bits, int(bits.size * CHANGED), seed=version * TENSORS + index)
            publisher.publish(state, dtypes=dict.fromkeys(state, "BF16"))
            for follower in followers:
                assert follower.poll() is not None
        taken = Counter[str]()
        for view in views:
            taken.update(view.requests)
        fetched = sum(view.bytes_in for view in views)
        published = own.requests.total()
        for follower, view in zip(followers, views, strict=True):
            view.reset()
            assert follower.poll() is None
            idle += view.requests.total()
            follower.verify()
    scale = 1 / (count * VERSIONS)
    return _Asked(
        each=taken.total() * scale,
        each_bytes=fetched * scale,
        idle=idle / count,
        publisher=published / VERSIONS,
        verbs=", ".join(f"{number * scale:.3g} {what}" for what, number in sorted(taken.items())),
    )
