"""The promises that several writers need, tried by letting them race on a live store."""

from __future__ import annotations

import json
import threading
import time
import uuid
from functools import partial
from typing import Any

from deltawire.errors import (
    ObjectExistsError,
    ObjectNotFoundError,
    PreconditionFailedError,
    StoreUnavailableError,
)
from deltawire.store.base import PutMode, ReplaceIf
from deltawire.store.probe_scratch import BrokenPromiseError, Scratch, at_once, promise

_SWAPPERS = 4  # some servers queue contenders for seconds
_RETRIES = 200


def exclusive_create(scratch: Scratch) -> str:
    """Check that a create of a key that is taken is refused and changes nothing."""
    _promise_by_binding(scratch.store.guarantees.conditional_create)
    key = scratch.key("taken")
    scratch.store.put(key, b"first", mode="create")
    promise(_refused(scratch, key, b"second", "create"), "a create replaced an object: conditions are ignored")
    promise(scratch.store.get(key, max_bytes=10).data == b"first", "a refused create changed the object")
    return "refused"


def create_race(scratch: Scratch, *, writers: int, rounds: int, give_up: float) -> str:
    """Check that of any number of racing creates exactly one wins, and its bytes stay."""
    _promise_by_binding(scratch.store.guarantees.conditional_create)
    done = 0
    while done < rounds and (not done or time.monotonic() < give_up):
        _one_create_race(scratch, scratch.key(f"raced/{done}"), writers)
        done += 1
    return f"{done} rounds of {writers} writers"


def swap_conditions(scratch: Scratch) -> str:
    """Check that a swap with the right token works; with a stale token, or on nothing, it is refused."""
    _promise_by_binding(scratch.store.guarantees.compare_and_swap)
    key, absent = scratch.key("swapped"), scratch.key("absent")
    first = scratch.store.put(key, b"first", mode="create")
    second = scratch.store.put(key, b"second", mode=ReplaceIf(first))
    promise(_refused(scratch, key, b"third", ReplaceIf(first)), "a swap with a stale token replaced the object")
    promise(_refused(scratch, absent, b"new", ReplaceIf(second)), "a swap on a missing key wrote an object")
    promise(scratch.store.get(key, max_bytes=10).data == b"second", "a refused swap changed the object")
    scratch.store.delete(key)
    promise(_refused(scratch, key, b"fourth", ReplaceIf(second)), "a swap brought a deleted object back")
    return "stale and missing refused"


def counter(scratch: Scratch, *, writers: int, swaps: int, give_up: float) -> str:
    """Check that no update is lost when several writers count in one object."""
    _promise_by_binding(scratch.store.guarantees.compare_and_swap)
    key = scratch.key("counted")
    count = min(writers, _SWAPPERS)
    scratch.store.put(key, json.dumps({}).encode(), mode="create")
    claimed = at_once(count, partial(_count_up, scratch, key, swaps, give_up))
    found = _counts(scratch.store.get(key, max_bytes=100_000).data)
    for number, claims in enumerate(claimed):
        held = found.get(str(number), 0)
        promise(held == claims, f"a writer counted to {claims}, the object says {held}: updates were lost")
    return f"{sum(claimed)} updates by {count} writers"


def whole_reads(scratch: Scratch) -> str:
    """Check that a reader never sees half of an object, nor none, while it is being overwritten."""
    key, size, overwrites = scratch.key("whole"), 1 << 18, 20
    scratch.store.put(key, bytes(size), mode="overwrite")
    finished = threading.Event()

    def write() -> int:
        try:
            for number in range(overwrites):
                scratch.store.put(key, bytes([number]) * size, mode="overwrite")
        finally:
            finished.set()
        return overwrites

    def read() -> int:
        reads = 0
        while not finished.is_set():
            try:
                data = scratch.store.get(key, max_bytes=2 * size).data
            except ObjectNotFoundError:
                data = b""
            promise(len(data) == size, f"a reader saw {len(data)} of {size} bytes")
            promise(data.count(data[0]) == size, "a reader saw two versions mixed")
            reads += 1
        return reads

    results = at_once(3, lambda number: read() if number else write())
    return f"{sum(results[1:])} reads during {overwrites} overwrites"


def _one_create_race(scratch: Scratch, key: str, writers: int) -> None:
    contents = [f"{number} {uuid.uuid4().hex}".encode() for number in range(writers)]

    def create(number: int) -> bool:
        try:
            scratch.store.put(key, contents[number], mode="create")
        except (ObjectExistsError, StoreUnavailableError):
            return False  # or its answer was lost, which the bytes will tell
        return True

    winners = [number for number, won in enumerate(at_once(writers, create)) if won]
    promise(len(winners) <= 1, f"{len(winners)} of {writers} racing creates won")
    stays = scratch.store.get(key, max_bytes=1000).data
    promise(stays in contents, "the object holds none of the bytes written")
    promise(not winners or stays == contents[winners[0]], "the winner's bytes were replaced")


def _count_up(scratch: Scratch, key: str, swaps: int, give_up: float, number: int) -> int:
    """Add to this writer's own count ``swaps`` times; return how far it is known to have come."""
    me, reached = str(number), 0
    for _ in range(swaps * _RETRIES):
        found = scratch.store.get(key, max_bytes=100_000)
        counts = _counts(found.data)
        landed = counts.get(me, 0)
        promise(landed in {reached, reached + 1}, f"a writer counted to {reached}, the object says {landed}")
        reached = landed  # one more than claimed: the answer to the last swap was lost
        if reached >= swaps or time.monotonic() > give_up:
            break
        counts[me], counts["nonce"] = reached + 1, uuid.uuid4().hex
        try:
            scratch.store.put(key, json.dumps(counts).encode(), mode=ReplaceIf(found.token))
        except (PreconditionFailedError, StoreUnavailableError):
            continue
        reached += 1
    return reached


def _counts(data: bytes) -> dict[str, Any]:
    try:
        counts = json.loads(data)
    except ValueError as error:
        raise BrokenPromiseError("a reader saw bytes that nobody wrote") from error
    return dict(counts)


def _refused(scratch: Scratch, key: str, content: bytes, mode: PutMode) -> bool:
    try:
        scratch.store.put(key, content, mode=mode)
    except (ObjectExistsError, PreconditionFailedError):
        return True
    return False


def _promise_by_binding(promised: bool) -> None:  # noqa: FBT001 - a guarantee is a flag
    """Fail without a race where nothing orders the racers: ending well would prove little."""
    promise(promised, "this kind of store makes no such promise")
