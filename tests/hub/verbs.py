"""What a store's verbs do to a bucket, and what can go wrong with their requests."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from deltawire.errors import ObjectExistsError, ObjectNotFoundError, StoreError
from deltawire.store.hub import HubStore
from tests.hub.emulator import HubEmulator
from tests.hub.places import EmulatedPlace

OLD, NEW = b"old " * 10_000, b"new " * 12_000
FOREVER = 1_000_000
THE_HUB = r"^\w+ /(api/|buckets/)"
BATCH = r"^POST .*/batch$"


class Pauses:
    """Takes the place of waiting, and notes it."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.meanwhile: list[Callable[[], object]] = []
        """What happens in the next pauses."""

    def sleep(self, seconds: float) -> None:
        self.seconds.append(seconds)
        if self.meanwhile:
            self.meanwhile.pop(0)()


@dataclass(frozen=True)
class Verb:
    """What is done to a bucket that holds ``taken`` and ``other``."""

    act: Callable[[HubStore], Any]
    result: Any
    wrote: Mapping[str, bytes | None]
    """What is there afterwards; None: nothing."""
    streams: bool = False
    """Whether the content is at hand only once, so that only the storage's own client can send it again."""


def _batch(store: HubStore) -> None:
    batch = store.write_batch()
    batch.put("free", NEW)
    batch.put_stream("more", [NEW[:1], NEW[1:], b"!"])
    batch.finish()


VERBS = {
    "get": Verb(lambda store: store.get("taken", max_bytes=1 << 20).data, OLD, {}),
    "get nothing": Verb(lambda store: _missing(lambda: store.get("free", max_bytes=1)), "object_not_found", {}),
    "get_range": Verb(lambda store: store.get_range("taken", 17, 30_000), OLD[17:30_017], {}),
    "head": Verb(lambda store: store.head("taken").bytes, len(OLD), {}),
    "list": Verb(lambda store: [info.key for info in store.list("")], ["other", "taken"], {}),
    "create": Verb(lambda store: len(store.put("free", NEW, mode="create")), 64, {"free": NEW}),
    "create what is taken": Verb(lambda store: _taken(lambda: store.put("taken", NEW, mode="create")), "taken", {}),
    "overwrite": Verb(lambda store: len(store.put("taken", NEW, mode="overwrite")), 64, {"taken": NEW}),
    "put_stream": Verb(lambda store: store.put_stream("free", [NEW, b"!"]), len(NEW) + 1, {"free": NEW + b"!"}, True),
    "write_batch": Verb(_batch, None, {"free": NEW, "more": NEW + b"!"}, True),
    "delete": Verb(lambda store: store.delete("taken"), None, {"taken": None}),
    "delete_all": Verb(
        lambda store: store.delete_all(["taken", "free", "other"]), None, {"taken": None, "other": None}
    ),
    "copy_from": Verb(lambda store: store.copy_from(HubStore(store.url), "taken", "free"), True, {"free": OLD}),
}


def _missing(act: Callable[[], object]) -> str:
    try:
        act()
    except ObjectNotFoundError as error:
        return error.code
    return "found"


def _taken(act: Callable[[], object]) -> str:
    try:
        act()
    except ObjectExistsError:
        return "taken"
    return "written"


FAULTS: Mapping[str, Mapping[str, Any]] = {
    "500": {"status": 500},
    "503 though done": {"status": 503, "do_it": True},
    "lost before": {"drop": True},
    "lost after": {"drop": True, "do_it": True},
    "cut": {"cut": True},
    "nonsense": {"status": 200},
    "nonsense though done": {"status": 200, "do_it": True},
    "429": {"status": 429, "headers": {"RateLimit": '"api";r=0;t=1'}},
    "long 429": {"status": 429, "headers": {"RateLimit": '"api";r=0;t=300'}},
    "401": {"status": 401},
    "403": {"status": 403},
    "404": {"status": 404},
}
PASSING = {"500", "503 though done", "lost before", "lost after", "cut", "nonsense", "nonsense though done", "429"}


def unique() -> bytes:
    return uuid.uuid4().bytes * 1000


def prepared(hub: HubEmulator) -> EmulatedPlace:
    place = EmulatedPlace(hub)
    place.write("taken", OLD)
    place.write("other", b"other")
    return place


def end(store: HubStore, verb: Verb) -> str:
    try:
        found = verb.act(store)
    except StoreError as error:
        return error.code if str(error) and (error.hint or error.code == "object_not_found") else "untold"
    assert found == verb.result
    return "ok"


def check(place: EmulatedPlace, verb: Verb, *, done: bool, told: str) -> None:
    """What is there is what was there, or what was to be there, each object for itself."""
    before: Mapping[str, bytes | None] = {"taken": OLD, "other": b"other"}
    there = place.contents()
    assert there.keys() <= before.keys() | verb.wrote.keys(), told
    for key in before.keys() | verb.wrote.keys():
        wanted = [verb.wrote.get(key, before.get(key))] + ([] if done else [before.get(key)])
        assert there.get(key) in wanted, f"{told}: {key}"
