"""Reading what the readers of a stream have pinned (SPEC.md section 8.11)."""

from __future__ import annotations

from dataclasses import dataclass

from deltawire.deadline import Deadline
from deltawire.errors import DeltawireError, ObjectNotFoundError, StoreError, WrongStreamError
from deltawire.format import keys, records
from deltawire.format.records import MAX_TTL_MS, PinRecord, StreamRecord
from deltawire.limits import Limits
from deltawire.reading.stream import StreamReader
from deltawire.store.base import ObjectInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPin:
    """One pin as it was read; None for what a pin that cannot be read does not say. PIN-9"""

    id: str
    token: str
    """Changes with every write of it."""
    record: PinRecord | None
    error: DeltawireError | None = None
    """Why it cannot be read."""

    @property
    def key(self) -> str:
        """Where it is."""
        return keys.pin_key(self.id)

    @property
    def released(self) -> bool:
        """Whether its reader has given it up."""
        return self.record is not None and self.record.released

    @property
    def first(self) -> int:
        """Oldest version that it keeps."""
        return 0 if self.record is None else self.record.first

    @property
    def last(self) -> int | None:
        """Newest one; None for every later version."""
        return None if self.record is None else self.record.last

    @property
    def ttl(self) -> float:
        """Seconds; a day for one that cannot be read. PIN-9"""
        return (MAX_TTL_MS if self.record is None else self.record.ttl_ms) / 1000

    def __contains__(self, version: int) -> bool:
        return self.first <= version and (self.last is None or version <= self.last)


def decode_pin(data: bytes, stream: StreamRecord, *, key: str, limits: Limits) -> PinRecord:
    """Read the bytes of a pin. PIN-1

    Raises:
        MalformedRecordError, UnsupportedProtocolError, UnsupportedFeatureError, LimitExceededError: it is none.
        WrongStreamError: it is another stream's.
    """
    record = records.decode(data, PinRecord, what=key, limits=limits)
    if record.stream_id != stream.stream_id:
        raise WrongStreamError(f"{key} belongs to stream {record.stream_id}, not {stream.stream_id}")
    return record


def read_pins(reader: StreamReader, deadline: Deadline) -> list[StoredPin]:
    """All pins of a stream, the released and the unreadable included, in the order of their ids.

    Raises:
        LimitExceededError: there are too many.
        StoreError, DeadlineExceededError: the store did not answer.
    """
    stream = reader.stream(deadline)
    transfer = reader.transfer
    limits, store = transfer.limits, transfer.store

    def listing() -> list[tuple[str, ObjectInfo]]:
        found: list[tuple[str, ObjectInfo]] = []
        for info in store.list(keys.PINS):
            pin_id = keys.parse_pin(info.key)
            if pin_id is not None:
                found.append((pin_id, info))
                limits.check("pins", len(found), f"number of pins below {keys.PINS}")
        return found

    def load(listed: tuple[str, ObjectInfo]) -> StoredPin | None:
        pin_id, info = listed
        token = f"{info.bytes} bytes at {info.modified_at}"  # of one that is too large to be read
        try:
            stored = store.get(info.key, max_bytes=limits.record_bytes)
            token = stored.token
            record = decode_pin(stored.data, stream, key=info.key, limits=limits)
        except ObjectNotFoundError:
            return None
        except StoreError:
            raise
        except DeltawireError as error:
            return StoredPin(id=pin_id, token=token, record=None, error=error)
        return StoredPin(id=pin_id, token=token, record=record)

    found = transfer.call(deadline, listing)
    return [pin for pin in transfer.map(load, found, deadline=deadline) if pin is not None]
