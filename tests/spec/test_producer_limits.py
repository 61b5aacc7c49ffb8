"""What a reader would refuse is refused before it is committed (LIM-4)."""

from __future__ import annotations

import datetime
import uuid
from typing import Any

import numpy as np
import pytest

from deltawire import Follower, Publisher
from deltawire.errors import InvalidArgumentError, LimitExceededError
from deltawire.limits import Limits
from deltawire.store.memory import MemoryStore

STATE = {"w": np.zeros(3, np.float32)}


def _nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"x": value}
    return value


@pytest.mark.parametrize(
    ("limits", "arguments"),
    [
        (Limits(), {"metadata": _nested(40)}),
        (Limits(), {"metadata": {"x": "a" * (1 << 16)}}),
        (Limits(), {"files": {f"f{index}": b"" for index in range(1001)}}),
        (Limits(file_bytes=10), {"files": {"config.json": b" " * 11}}),
        (Limits(record_bytes=500), {}),
    ],
    ids=["depth", "metadata", "files", "file", "record"],
)
@pytest.mark.parametrize("first", [True, False], ids=["first", "later"])
def test_nothing_unreadable_is_committed(limits: Limits, arguments: dict[str, Any], first: bool) -> None:
    store = MemoryStore(f"limits/{uuid.uuid4().hex}")
    if not first:
        with Publisher(store) as publisher:
            publisher.publish(STATE)
    if limits.record_bytes == 500 and not first:
        return  # such a publisher cannot even open the stream
    with Publisher(store, limits=limits) as publisher:
        with pytest.raises(LimitExceededError):
            publisher.publish(STATE, **arguments)
        assert len(list(store.list("versions/"))) == (0 if first else 1)
        if arguments:
            published = publisher.publish(STATE, files={})
            with Follower(store) as follower:
                update = follower.poll()
            assert update is not None
            assert update.version == published.version


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), datetime.datetime(2026, 12, 1, tzinfo=datetime.UTC), b"bytes", {1, 2}],
    ids=["nan", "infinity", "date", "bytes", "set"],
)
def test_metadata_that_is_not_json_is_refused(value: object) -> None:
    store = MemoryStore(f"limits/{uuid.uuid4().hex}")
    with Publisher(store) as publisher:
        with pytest.raises(InvalidArgumentError):
            publisher.publish(STATE, metadata={"x": [value]})
        for keyed in ({True: 1}, {"x": [{1: 2}]}, {"x": {None: 1}}):
            with pytest.raises(InvalidArgumentError):
                publisher.publish(STATE, metadata=keyed)  # type: ignore[arg-type]
        assert publisher.publish(STATE, metadata={"x": [1.5, None, "ä"]}).version == 0
