"""Collecting on an S3 server: its listings, conditional writes and times."""

from __future__ import annotations

import uuid

from deltawire import Follower, Publisher
from deltawire.format import keys
from deltawire.inspecting.verification import verify_stream
from deltawire.producer.anchors import NEVER
from deltawire.store import S3Store
from tests.collecting.lines import add_anchor, add_orphan, collect, keep_last, numbers, pins_of, retention_of, state
from tests.store import servers


def test_a_pass(moto_server: servers.S3Server) -> None:
    store = S3Store(moto_server.url(f"collecting/{uuid.uuid4().hex}"))
    with Publisher(store, anchors=NEVER) as publisher:
        for number in range(5):
            publisher.publish(state(number), files={"config.json": b"{}"})
    add_anchor(store, 3)
    orphan = add_orphan(store, 2)
    add_orphan(store, 4)
    with Follower(store) as follower:
        follower.poll(to=2)
        assert collect(store, keep_last(1)).boundary == 0
    done = collect(store, keep_last(1))
    assert (done.boundary, done.versions, done.orphans, done.waiting_orphans) == (3, ((0, 2),), 1, 1)
    assert (retention_of(store).boundary, numbers(store)) == (3, [3, 4])
    assert orphan not in {info.key for info in store.list(keys.DATA)}
    assert pins_of(store) == []
    assert verify_stream(store, deep=True).sound
