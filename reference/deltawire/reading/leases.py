"""Reading the writer lease of a stream (SPEC.md section 8.10)."""

from __future__ import annotations

from deltawire.deadline import Deadline
from deltawire.errors import ObjectNotFoundError, WrongStreamError
from deltawire.format import keys, records
from deltawire.format.records import LeaseRecord, StreamRecord
from deltawire.limits import Limits
from deltawire.reading.stream import StreamReader


def decode_lease(data: bytes, stream: StreamRecord, *, limits: Limits) -> LeaseRecord:
    """Read the bytes of a stream's lease. LSE-2

    Raises:
        MalformedRecordError, UnsupportedProtocolError, UnsupportedFeatureError, LimitExceededError: it is no lease.
        WrongStreamError: it is another stream's.
    """
    record = records.decode(data, LeaseRecord, what=keys.LEASE, limits=limits)
    if record.stream_id != stream.stream_id:
        raise WrongStreamError(f"{keys.LEASE} belongs to stream {record.stream_id}, not {stream.stream_id}")
    return record


def read_lease(reader: StreamReader, deadline: Deadline) -> LeaseRecord | None:
    """The lease as it is; None if there never was one. Raises what ``decode_lease`` does."""
    stream = reader.stream(deadline)
    transfer = reader.transfer
    try:
        data = transfer.read_small(keys.LEASE, max_bytes=transfer.limits.record_bytes, deadline=deadline)
    except ObjectNotFoundError:
        return None
    return decode_lease(data, stream, limits=transfer.limits)
