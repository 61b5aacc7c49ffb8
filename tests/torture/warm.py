"""Loads what the processes need, and runs it once; they are forked from a process that has imported this."""

from __future__ import annotations

import deltawire.store.s3 as s3
from deltawire.consumer.follower import Follower
from deltawire.producer.publisher import Publisher
from deltawire.store.memory import MemoryStore
from tests.torture import keeper, reader, writer
from tests.torture.model import DTYPES, first_state

LOADED = (keeper, reader, s3, writer)


def _warm_up() -> None:
    store = MemoryStore("warm")
    state = first_state(0)
    with Publisher(store, workers=1) as publisher, Follower(store, workers=1) as follower:
        for _ in range(3):
            publisher.publish(state, dtypes=DTYPES)
            state = {name: array ^ 1 for name, array in state.items()}
            follower.poll()
            follower.verify()


_warm_up()
