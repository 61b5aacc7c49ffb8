"""What a publisher tells of a version that it has published."""

from __future__ import annotations

from dataclasses import dataclass, field

from deltawire.format.records import VersionRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishTimings:
    """Seconds spent in each phase of a publish, under the names of SPEC.md section 12."""

    encode_seconds: float
    """Comparing with the base, encoding and compressing."""
    upload_seconds: float
    """Waiting for the store to take parts; uploads run beside encoding."""
    commit_seconds: float
    """Creating the record."""
    advance_seconds: float
    """Taking the new bits over into the base."""
    total_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A version is in the stream."""

    version: int
    record: VersionRecord = field(repr=False)
    state_digest: str
    changed_elements: int
    """Elements whose bits differ from the parent's; all of them where there is no delta."""
    changed_tensors: int
    elements: int
    """Elements of the whole state."""
    data_bytes: int
    """Size of the parts or shards."""
    record_bytes: int
    state_bytes: int
    """Size of the whole state."""
    timings: PublishTimings
