"""What a version costs: requests of its publisher and of each follower, and time."""

import statistics
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from benchmarks.hub.emulated import Party, Tally, Way, emulated
from benchmarks.hub.party import Options, Process, party

_WARM = 2
"""Versions that are not counted: what is compiled or connected at first use is."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Versions that were published, and followed one by one, each when the one before was done."""

    versions: int
    published: Tally
    followed: Tally
    parts: int
    """Of the last version."""
    data_bytes: int
    publish_seconds: float
    follow_seconds: float


@dataclass(frozen=True, slots=True)
class Paced:
    """Versions that were published at a pace, and followed as ``follow`` does."""

    versions: int
    followers: int
    requests: Tally
    updates: int
    """Of all followers; fewer than versions if some took two at once."""
    publish_seconds: float
    applied_seconds: float
    """From the beginning of publish() to applied at a follower."""
    idle: Tally
    """Requests when nothing had been published for a while."""
    idle_seconds: float


def ship(way: Way, *, versions: int, options: Options) -> Asked:
    """Publish and follow one version after the other, so that it is known whose each request is."""
    looks_when_told = Options(alone=False)
    published, followed = Tally(), Tally()
    found: list[tuple[float, float]] = []
    with emulated() as hub, party("publish", hub.url(way), options, hub.environment("publisher")) as publisher:
        publisher.line()
        with party("follow", hub.url(way), looks_when_told, hub.environment("follower")) as follower:
            follower.line()
            for number in range(-_WARM, versions):
                hub.tally.take()
                publisher.go()
                done = publisher.line()
                by_publisher = hub.tally.take()
                asked = time.monotonic()
                follower.go()
                applied = follower.line()
                assert applied["version"] == done["version"]
                if number >= 0:
                    published.add(by_publisher)
                    followed.add(hub.tally.take())
                    found.append((done["done"] - done["started"], applied["done"] - asked))
    publishing, following = zip(*found, strict=True)
    return Asked(
        versions=versions,
        published=published,
        followed=followed,
        parts=done["parts"],
        data_bytes=done["bytes"],
        publish_seconds=statistics.median(publishing),
        follow_seconds=statistics.median(following),
    )


def ship_at_a_pace(
    way: Way, *, followers: int, versions: int, every: float, rest_seconds: float = 0.0, idle_seconds: float = 0.0
) -> Paced:
    """Publish versions at a pace to followers that look for themselves.

    Args:
        way: to the bucket.
        followers: how many, each in a process.
        versions: how many after the first ones.
        every: seconds from the beginning of one to that of the next.
        rest_seconds: to wait after the last one, as looks become rarer for a while.
        idle_seconds: to count what is asked for after that.
    """
    with emulated() as hub, ExitStack() as stack:

        def start(role: str, who: Party) -> Process:
            return stack.enter_context(party(role, hub.url(way), Options(), hub.environment(who)))

        publisher = start("publish", "publisher")
        publisher.line()
        others = [start("follow", "follower") for _ in range(followers)]
        for follower in others:
            follower.line()
        for _ in range(_WARM):
            _publish(publisher, others)
        hub.tally.take()
        lines: list[dict[str, Any]] = []
        begun = time.monotonic()
        for number in range(versions):
            time.sleep(max(0.0, begun + number * every - time.monotonic()))
            publisher.go()
            lines.append(publisher.line())
        updates = [update for follower in others for update in _until(follower, lines[-1]["version"])]
        time.sleep(max(0.0, begun + versions * every - time.monotonic()))
        requests = hub.tally.take()
        time.sleep(rest_seconds)
        hub.tally.take()
        time.sleep(idle_seconds)
        idle = hub.tally.take()
    started = {line["version"]: line["started"] for line in lines}
    return Paced(
        versions=versions,
        followers=followers,
        requests=requests,
        updates=len(updates),
        publish_seconds=statistics.median(line["done"] - line["started"] for line in lines),
        applied_seconds=statistics.median(update["done"] - started[update["version"]] for update in updates),
        idle=idle,
        idle_seconds=idle_seconds,
    )


def _publish(publisher: Process, followers: list[Process]) -> None:
    publisher.go()
    version = publisher.line()["version"]
    for follower in followers:
        _until(follower, version)


def _until(follower: Process, version: int) -> list[dict[str, Any]]:
    """What a follower did until it held a version."""
    found = [follower.line()]
    while found[-1]["version"] < version:
        found.append(follower.line())
    return found
