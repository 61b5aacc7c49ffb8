"""Moving the boundary of a stream and collecting by hand, as a maintainer would."""

from __future__ import annotations

from collections.abc import Iterable

from deltawire.format import keys, records
from deltawire.format.records import Descriptor, RetentionRecord, StreamRecord, VersionRecord
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


def collect(store: Store, boundary: int, *kept: int) -> None:
    """The same, and delete what no retained version needs: records, anchors and data folders."""
    retain(store, boundary, *kept)
    retained = {boundary, *kept}
    names = {found.key for number in retained for found in _named(store, number)}
    for prefix in (keys.VERSIONS, keys.ANCHORS, keys.SPANS, keys.DATA):
        for info in [*store.list(prefix)]:
            number = int(info.key.removeprefix(prefix)[:20])
            if number < boundary and number not in kept and info.key not in names:
                store.delete(info.key)


def _named(store: Store, number: int) -> Iterable[Descriptor]:
    data = store.get(keys.version_key(number), max_bytes=MIB).data
    return records.named_by(records.decode(data, VersionRecord, what=keys.version_key(number), limits=DEFAULT_LIMITS))
