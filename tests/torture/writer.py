"""A writer: it wants the lease, publishes a few versions, gives the lease up, and wants it again."""

from __future__ import annotations

import time

import numpy as np

from deltawire.errors import (
    ConflictError,
    DeadlineExceededError,
    FencedError,
    LeaseHeldError,
    OutcomeUnknownError,
    StoreUnavailableError,
)
from deltawire.producer.anchors import AnchorPolicy
from deltawire.producer.publisher import Publisher
from tests.torture.model import DTYPES, State, change, content_of, first_state, published
from tests.torture.scene import LEASE_TTL, WRITERS, Journal, Scene

_EXPECTED = (
    ConflictError,
    DeadlineExceededError,
    FencedError,
    LeaseHeldError,
    OutcomeUnknownError,
    StoreUnavailableError,
)


def write(scene: Scene, who: str, life: int, journal: Journal) -> None:
    """Publish until told to stop."""
    rng = np.random.default_rng([scene.seed, WRITERS.index(who), life])
    state = first_state(scene.seed)
    while not scene.ordered("no-writers"):
        take_over = bool(rng.random() < 0.1)
        try:
            with Publisher(
                scene.url,
                holder=who,
                lease_ttl=LEASE_TTL,
                take_over=take_over,
                anchors=AnchorPolicy(every=5),
                workers=1,
            ) as publisher:
                journal.note("opened", version=publisher.version, epoch=publisher.epoch, take_over=take_over)
                for _ in range(rng.integers(2, 12)):
                    if scene.ordered("no-writers"):
                        break
                    _publish(publisher, state, rng, journal)
        except _EXPECTED as error:
            journal.note("refused", code=error.code, message=str(error))
        time.sleep(rng.uniform(0, 0.3))


def _publish(publisher: Publisher, state: State, rng: np.random.Generator, journal: Journal) -> None:
    change(state, rng)
    tensors = published(state, 0 if publisher.version is None else publisher.version + 1)
    content = content_of(tensors.items())
    done = publisher.publish(
        tensors,
        dtypes={name: kind for name, kind in DTYPES.items() if name in tensors},
        metadata={"content": content},
        files={"config.json": b"{}"},
    )
    journal.note("committed", version=done.version, digest=done.state_digest, content=content, epoch=done.record.epoch)
    time.sleep(rng.uniform(0.02, 0.2))
