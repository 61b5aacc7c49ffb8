"""Creating a record: the one step that makes a write real (SPEC.md section 11.1)."""

from __future__ import annotations

import time
from collections.abc import Callable
from enum import StrEnum

from deltawire.deadline import Deadline
from deltawire.errors import (
    ConflictError,
    DeltawireError,
    FencedError,
    LimitExceededError,
    ObjectExistsError,
    ObjectNotFoundError,
    OutcomeUnknownError,
    StoreError,
)
from deltawire.format import keys
from deltawire.format.records import StreamRecord
from deltawire.limits import MIB, Limits
from deltawire.reading.retention import Retention, decode_retention
from deltawire.store.base import Store

_PAUSES = (0.1, 0.3, 1.0, 3.0)


class Outcome(StrEnum):
    """How a commit ended."""

    OURS = "ours"
    """The record in the store is the one we wrote."""
    LOST = "lost"
    """Another writer's record is there."""


def create_record(
    store: Store, key: str, data: bytes, *, deadline: Deadline, sleep: Callable[[float], None] = time.sleep
) -> Outcome:
    """Create a record once, whatever happens to the answers. CMT-3 to CMT-6

    A create that fails or whose answer is lost is read back: the same bytes, which hold our commit id, mean that it
    was ours. A store without conditional create is read back after success too, because another writer may have
    overwritten the record (CMT-7).

    Raises:
        OutcomeUnknownError: the store neither confirmed nor denied it.
        StoreError: the store refused the write itself, at the first attempt, so that nothing was written.
    """
    failure: StoreError | None = None
    arrived = False  # or may have
    for pause in (*_PAUSES, None):
        try:
            store.put(key, data, mode="create")
            arrived = True
            if store.guarantees.conditional_create:
                return Outcome.OURS
        except ObjectExistsError:
            arrived = True  # the binding may have sent it twice
        except StoreError as error:
            if not error.retryable and not arrived:
                raise
            failure, arrived = error, True
        try:
            return Outcome.OURS if _read_back(store, key, len(data)) == data else Outcome.LOST
        except ObjectNotFoundError:
            pass  # it did not arrive: send it again
        except StoreError as error:
            failure = error
        if pause is None or (deadline.at is not None and time.monotonic() + pause > deadline.at):
            break
        sleep(pause)
    raise OutcomeUnknownError(f"{key} may or may not have been written: {failure or 'it keeps vanishing'}")


def _read_back(store: Store, key: str, length: int) -> bytes | None:
    try:
        return store.get(key, max_bytes=length + MIB).data
    except LimitExceededError:
        return None  # much larger than ours, so another's


def check_parent(store: Store, key: str, data: bytes) -> None:
    """Make sure that a parent's record still is what it was, where nothing but looking tells. CMT-12

    Raises:
        ConflictError: it is another's, or gone.
        StoreError: the store did not answer; nothing was written.
    """
    try:
        if _read_back(store, key, len(data)) == data:
            return
    except ObjectNotFoundError:
        raise ConflictError(f"{key}, the parent of what was to be committed, is gone") from None
    raise ConflictError(f"{key}, the parent of what was to be committed, was replaced by another writer")


def check_retained(
    store: Store,
    stream: StreamRecord,
    version: int,
    *,
    limits: Limits,
    deadline: Deadline,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Make sure that a version which was just created, here or by another, is one of the stream's. CMT-11

    A writer that stalled may have created it where another one had been, long after that was collected.

    Raises:
        FencedError: the line is beyond it; whose that version was cannot be told any more.
        OutcomeUnknownError: what is retained could not be found out.
    """
    failure: DeltawireError | None = None
    for pause in (*_PAUSES, None):
        try:
            data = store.get(keys.RETENTION, max_bytes=limits.record_bytes).data
            record = decode_retention(data, stream, limits=limits)
        except ObjectNotFoundError:
            return
        except DeltawireError as error:
            failure = error
        else:
            if version in Retention(record.boundary, record.kept):
                return
            raise FencedError(
                f"the line is beyond version {version}, which has been collected; whose it was cannot be told any more"
            )
        if not failure.retryable or pause is None:
            break
        if deadline.at is not None and time.monotonic() + pause > deadline.at:
            break
        sleep(pause)
    raise OutcomeUnknownError(f"a version {version} is there, but it may have been collected before: {failure}")
