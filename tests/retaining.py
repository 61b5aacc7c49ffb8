"""Moving the boundary of a stream by hand, as a maintainer would."""

from __future__ import annotations

from deltawire.format import keys, records
from deltawire.format.records import RetentionRecord, StreamRecord
from deltawire.limits import DEFAULT_LIMITS, MIB
from deltawire.producer.envelope import envelope
from deltawire.store.base import Store


def retain(store: Store, boundary: int, *kept: int) -> None:
    """Say that versions from the boundary on are retained, and some before it; nothing is deleted."""
    data = store.get(keys.STREAM, max_bytes=MIB).data
    stream = records.decode(data, StreamRecord, what=keys.STREAM, limits=DEFAULT_LIMITS)
    head = envelope(stream.stream_id, "retention", epoch=0, writer_features=())
    record = RetentionRecord(**head, boundary=boundary, kept=kept)
    store.put(keys.RETENTION, records.encode(record), mode="overwrite")
