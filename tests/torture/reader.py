"""A follower: it notes what it holds, and looks at every bit of it."""

from __future__ import annotations

import time

import numpy as np

from deltawire.consumer.follower import Follower, Update
from deltawire.errors import DeadlineExceededError, StoreUnavailableError, StreamNotFoundError, VersionNotFoundError
from tests.torture.model import content_of
from tests.torture.scene import FOLLOWERS, PIN_TTL, Journal, Scene


def follow(scene: Scene, who: str, life: int, journal: Journal) -> None:
    """Follow until told where to stop, and stop there."""
    rng = np.random.default_rng([scene.seed, len(FOLLOWERS) + FOLLOWERS.index(who), life])
    target = scene.target(who) if who.startswith("directory") else None
    with Follower(scene.url, target, workers=2, pin_ttl=PIN_TTL, holder=who) as follower:
        while True:
            last = scene.ordered("no-writers-left")
            update = _poll(follower, journal)
            if update is not None:
                _note(follower, update, journal)
            if rng.random() < 0.3 and follower.version is not None:
                journal.note("verified", version=follower.version, digest=follower.verify())
            if last and update is None and follower.version is not None:
                record = follower.record
                assert record is not None
                journal.note("finished", version=follower.version, digest=follower.verify(), content=_content(follower))
                return
            time.sleep(rng.uniform(0.02, 0.3))


def _poll(follower: Follower, journal: Journal) -> Update | None:
    try:
        return follower.poll()
    except (DeadlineExceededError, StoreUnavailableError) as error:
        journal.note("refused", code=error.code, message=str(error))
    except (StreamNotFoundError, VersionNotFoundError):
        if follower.version is not None:
            raise
    return None


def _note(follower: Follower, update: Update, journal: Journal) -> None:
    content = _content(follower)
    assert content == update.record.metadata["content"], f"version {update.version} is not what was published"
    journal.note(
        "held",
        version=update.version,
        previous=update.previous,
        digest=update.state_digest,
        steps=update.steps,
        replanned=update.replanned,
        content=content,
    )


def _content(follower: Follower) -> str:
    held = follower.target.held
    assert held is not None
    return content_of((tensor.name, follower.target.bits(tensor).gather(slice(None))) for tensor in held.tensors)
