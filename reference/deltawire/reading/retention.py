"""Which versions are part of a stream (SPEC.md section 8.12)."""

from __future__ import annotations

from deltawire.deadline import Deadline
from deltawire.errors import ObjectNotFoundError, VersionNotFoundError, WrongStreamError
from deltawire.format import keys, records
from deltawire.format.records import RetentionRecord, StreamRecord
from deltawire.limits import Limits
from deltawire.reading.transfer import Transfer


class Retention:
    """The versions that are retained: all from the boundary on, and some below it. RET-1"""

    def __init__(self, boundary: int = 0, kept: tuple[int, ...] = ()) -> None:
        self.boundary = boundary
        self.kept = frozenset(kept)

    def __contains__(self, version: int) -> bool:
        return version >= self.boundary or version in self.kept

    def after(self, version: int) -> int:
        """The first later version that is retained, if it is there."""
        return min((number for number in self.kept if number > version), default=max(version + 1, self.boundary))


def check_retained(version: int, retention: Retention) -> None:
    """Refuse a version that is no longer part of the stream. RET-3 Raises VersionNotFoundError."""
    if version not in retention:
        raise VersionNotFoundError(f"version {version} is no longer retained")


def decode_retention(data: bytes, stream: StreamRecord, *, limits: Limits) -> RetentionRecord:
    """Read the bytes of a stream's ``retention.json``. RET-4

    Raises:
        MalformedRecordError, UnsupportedProtocolError, UnsupportedFeatureError, LimitExceededError: it is none.
        WrongStreamError: it is another stream's.
    """
    record = records.decode(data, RetentionRecord, what=keys.RETENTION, limits=limits)
    if record.stream_id != stream.stream_id:
        raise WrongStreamError(f"{keys.RETENTION} belongs to stream {record.stream_id}, not {stream.stream_id}")
    return record


def read_retention(transfer: Transfer, stream: StreamRecord, deadline: Deadline) -> Retention:
    """What is retained now; everything, if nothing says otherwise. Raises what ``decode_retention`` does."""
    try:
        data = transfer.read_small(keys.RETENTION, max_bytes=transfer.limits.record_bytes, deadline=deadline)
    except ObjectNotFoundError:
        return Retention()
    record = decode_retention(data, stream, limits=transfer.limits)
    return Retention(record.boundary, record.kept)
