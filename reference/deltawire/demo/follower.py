"""A process that follows: takes every version and computes the digest of all it holds after each. Needs no torch."""

from __future__ import annotations

import time

from deltawire.consumer.follower import Follower, Update
from deltawire.deadline import Deadline
from deltawire.demo.messages import FollowerSettings, Report, Verified, play
from deltawire.errors import StreamNotFoundError, VersionNotFoundError


def follow(settings: FollowerSettings, report: Report) -> None:
    """Follow version by version until the last."""
    deadline = Deadline.after(settings.timeout)
    with Follower(settings.store, settings.directory) as follower:
        if follower.version is None:
            report(_verified(follower, _first(follower, deadline, settings)))
        else:
            report(_verified(follower, None))
        if follower.version == settings.last:
            return
        for update in follower.follow(every_version=True, interval=settings.interval, timeout=deadline.remaining()):
            report(_verified(follower, update))
            if update.version >= settings.last:
                return


def _first(follower: Follower, deadline: Deadline, settings: FollowerSettings) -> Update:
    """The version to begin with, as soon as the trainer has published one."""
    while True:
        try:
            update = follower.poll(to=0 if settings.from_first else None, timeout=deadline.remaining())
        except (StreamNotFoundError, VersionNotFoundError):
            deadline.remaining()
            time.sleep(settings.interval)
        else:
            assert update is not None  # noqa: S101 - it held none before
            return update


def _verified(follower: Follower, update: Update | None) -> Verified:
    """Compute the digest of everything held. Raises StateMismatchError if it is not the version it should be."""
    record = follower.record
    assert record is not None  # noqa: S101 - a version is held
    started = time.perf_counter()
    digest = follower.verify()
    seconds = time.perf_counter() - started
    if update is None:
        return Verified(
            version=record.version,
            record_digest=record.state_digest,
            digest=digest,
            resumed=True,
            verify_seconds=seconds,
        )
    return Verified(
        version=record.version,
        record_digest=record.state_digest,
        digest=digest,
        resumed=False,
        steps=update.steps,
        bytes_fetched=update.bytes_fetched,
        resolve_seconds=update.timings.resolve_seconds,
        fetch_seconds=update.timings.fetch_seconds,
        decode_seconds=update.timings.decode_seconds,
        apply_seconds=update.timings.apply_seconds,
        verify_seconds=seconds,
    )


if __name__ == "__main__":
    play(FollowerSettings, follow)
