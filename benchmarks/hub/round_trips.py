"""How many requests wait for each other when a version is published and followed: what a slower network costs."""

import statistics
import time
from dataclasses import dataclass

from benchmarks.hub.emulated import Way, emulated
from benchmarks.hub.party import Options, party

DELAY = 0.05
"""Seconds that every request waits."""
_VERSIONS = 4
_WARM = 1
_SMALL = Options(elements=1 << 20, tensors=1)


@dataclass(frozen=True, slots=True)
class RoundTrips:
    """Serial requests, from how much longer it takes when each waits; not whole numbers, as times are not."""

    publish: float
    follow: float
    """Of a follower that looks when the version is there."""
    applied_seconds: float
    """From publish() to applied, at a follower that looks by itself, when every request waits."""


def round_trips(way: Way) -> RoundTrips:
    """Publish versions with and without delay."""
    with (
        emulated() as hub,
        party("publish", hub.url(way), _SMALL, hub.environment("publisher")) as publisher,
    ):
        publisher.line()
        with (
            party("follow", hub.url(way), Options(), hub.environment("follower")) as alone,
            party("follow", hub.url(way), Options(alone=False), hub.environment("follower")) as told,
        ):
            alone.line()
            told.line()

            def median() -> tuple[float, float, float]:
                found: list[tuple[float, float, float]] = []
                for number in range(-_WARM, _VERSIONS):
                    publisher.go()
                    done, applied, begun = publisher.line(), alone.line(), time.monotonic()
                    told.go()
                    followed = told.line()
                    assert done["version"] == applied["version"] == followed["version"]
                    if number >= 0:
                        publishing = done["done"] - done["started"]
                        found.append((publishing, followed["done"] - begun, applied["done"] - done["started"]))
                publishing, following, applying = (statistics.median(column) for column in zip(*found, strict=True))
                return publishing, following, applying

            before = median()
            hub.delay(DELAY)
            after = median()
    publish, follow, _ = ((slow - quick) / DELAY for slow, quick in zip(after, before, strict=True))
    return RoundTrips(publish=publish, follow=follow, applied_seconds=after[2])
