"""The records of SPEC.md section 8 as frozen structs. ``schemas/`` holds the same shapes as JSON Schema."""

from __future__ import annotations

import itertools
import re
from typing import Annotated, Any, Literal, TypeVar

from msgspec import Meta, Struct

from deltawire.errors import MalformedRecordError
from deltawire.format import features, strict_json
from deltawire.format.keys import MAX_KEY_BYTES, MAX_VERSION, SEGMENT
from deltawire.format.public_keys import signs_anything
from deltawire.limits import Limits

Uint = Annotated[int, Meta(ge=0, le=MAX_VERSION)]
Version = Uint
Name = Annotated[str, Meta(min_length=1, max_length=200)]
Sha256 = Annotated[str, Meta(pattern=r"^sha256:[0-9a-f]{64}\Z")]
Hex64 = Annotated[str, Meta(pattern=r"^[0-9a-f]{16}\Z")]
"""A 64-bit number as 16 lower-case hex digits: JSON numbers are exact only to 2^53. JSN-3"""
Uuid = Annotated[str, Meta(pattern=r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\Z")]
Timestamp = Annotated[str, Meta(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?Z\Z")]
Feature = Annotated[str, Meta(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*\Z", max_length=64)]
ProtocolVersion = Annotated[str, Meta(pattern=rf"^{features.VERSION_STRING}\Z")]
Key = Annotated[str, Meta(pattern=rf"^{SEGMENT}(/{SEGMENT})*\Z", max_length=MAX_KEY_BYTES)]

PublicKey = Annotated[str, Meta(pattern=r"^ed25519:[0-9a-f]{64}\Z")]
"""An Ed25519 public key, the 32 bytes of RFC 8032 as hex digits."""
SignatureValue = Annotated[str, Meta(pattern=r"^[0-9a-f]{128}\Z")]

MAX_TTL_MS = 86_400_000
"""The longest ttl of a lease: a day."""

JSON_TYPE = "application/json"
ARROW_TYPE = "application/vnd.apache.arrow.file"
SAFETENSORS_TYPE = "application/vnd.safetensors"
BINARY_TYPE = "application/octet-stream"

PlainUrl = Annotated[
    str, Meta(pattern=r"^[A-Za-z][A-Za-z0-9+.-]*://[^/?#@\s]*(/[^?#\s]*)?\Z", min_length=1, max_length=2000)
]
"""A URL without anything that could be a secret: no user, no query, no fragment. FRK-2"""


class Record(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What every piece of a record shares: immutable, keyword-only, absent members left out."""


class Producer(Record, frozen=True, kw_only=True):
    """Software that wrote a record."""

    name: Name
    version: Name


class Descriptor(Record, frozen=True, kw_only=True):
    """The only way to point at bytes (DSC-1): a key, a media type, a size and a sha256."""

    key: Key
    media_type: Name
    bytes: Uint
    digest: Sha256


class Batch(Record, frozen=True, kw_only=True):
    """One Arrow record batch within a part (PRT-4)."""

    offset: Uint
    bytes: Uint
    digest: Sha256
    decoded_bytes: Uint
    """Sum of the lengths of its buffers after decompression."""
    rows: Uint
    first_tensor: Uint
    last_tensor: Uint
    """Smallest and largest tensor ordinal among its rows."""


class Part(Descriptor, frozen=True, kw_only=True):
    """One Arrow IPC file of a delta."""

    streams: tuple[Name, ...]
    """Names of its stream columns, in column order."""
    batches: tuple[Batch, ...]


class Delta(Record, frozen=True, kw_only=True):
    """What changed from the parent version (DLT-1)."""

    changed_elements: Uint
    changed_tensors: Uint
    digest_before: Hex64
    digest_after: Hex64
    parts: tuple[Part, ...]


class Shard(Descriptor, frozen=True, kw_only=True):
    """One safetensors file of a snapshot (SNP-3)."""

    header_bytes: Uint
    """Length of the file's first 8 bytes and JSON header together."""
    header_digest: Sha256
    first_tensor: Uint
    last_tensor: Uint


class File(Descriptor, frozen=True, kw_only=True):
    """An auxiliary file: config, tokenizer, chat template (FIL-1)."""

    name: Name


class Snapshot(Record, frozen=True, kw_only=True):
    """A whole state in the Hugging Face layout (SNP-1)."""

    shards: tuple[Shard, ...]
    index: Descriptor
    files: tuple[File, ...] = ()
    """Copies of the auxiliary files beside the shards, so that the folder loads as it is (SNP-6)."""


class Signature(Record, frozen=True, kw_only=True):
    """Whose record it is, and the proof (SIG-3)."""

    key: PublicKey
    value: SignatureValue


class Envelope(Record, frozen=True, kw_only=True):
    """What every record begins with (REC-1)."""

    protocol: str
    protocol_version: ProtocolVersion
    kind: str
    stream_id: Uuid
    commit_id: Uuid
    epoch: Uint
    created_at: Timestamp
    producer: Producer
    reader_features: tuple[Feature, ...]
    writer_features: tuple[Feature, ...]
    metadata: dict[str, Any]
    signature: Signature | None = None
    """In signed streams, of the kinds of records that are signed (SIG-2)."""


class Origin(Record, frozen=True, kw_only=True):
    """The version of another stream that version 0 of a fork is (FRK-1)."""

    stream_id: Uuid
    version: Version
    digest: Sha256
    """sha256 of the exact bytes of that version's record."""
    state_digest: Hex64
    url: PlainUrl = ""
    """Where that stream was, for people; empty if the record does not say."""


class StreamRecord(Envelope, frozen=True, kw_only=True):
    """``stream.json``: what this prefix is (STR-1)."""

    kind: Literal["stream"]
    writers: Literal["many", "single"]
    """``single``: the store cannot arbitrate between writers, so there is only ever one (STR-3)."""
    origin: Origin | None = None
    """What the stream was forked from, if it is a fork."""
    signing_keys: tuple[PublicKey, ...] = ()
    """Who may sign its records; empty if it is not signed (SIG-1)."""


class Parent(Record, frozen=True, kw_only=True):
    """The version before, by the exact bytes of its record."""

    version: Version
    digest: Sha256


class RollbackOf(Record, frozen=True, kw_only=True):
    """The earlier version whose state a rollback brings back, by the exact bytes of its record (RBK-1)."""

    version: Version
    digest: Sha256


class VersionRecord(Envelope, frozen=True, kw_only=True):
    """``versions/<N>.json``: its creation is the commit (VSN-1)."""

    kind: Literal["version"]
    version: Version
    parent: Parent | None = None
    tensors: Descriptor
    state_digest: Hex64
    delta: Delta | None = None
    snapshot: Snapshot | None = None
    files: tuple[File, ...] = ()
    rollback_of: RollbackOf | None = None


class AnchorRecord(Envelope, frozen=True, kw_only=True):
    """``anchors/<N>.json``: a whole state of a version, added at any time after it (ANC-1)."""

    kind: Literal["anchor"]
    version: Version
    version_digest: Sha256
    """sha256 of the version record's exact bytes."""
    tensors: Descriptor
    state_digest: Hex64
    snapshot: Snapshot


class HeadRecord(Envelope, frozen=True, kw_only=True):
    """``head.json``: a hint that may be missing, stale or wrong (HED-1)."""

    kind: Literal["head"]
    version: Version
    anchor: Version | None = None


class LeaseRecord(Envelope, frozen=True, kw_only=True):
    """``leases/writer.json``: who holds the stream for writing (LSE-1)."""

    kind: Literal["lease"]
    holder: Name
    """What people are told of who it is."""
    acquired_at: Timestamp
    """When it came to hold it, by its own clock."""
    ttl_ms: Annotated[int, Meta(ge=1, le=MAX_TTL_MS)]
    """Milliseconds without a new write of the lease after which its holder may be taken to be gone."""
    released: bool


class PinRecord(Envelope, frozen=True, kw_only=True):
    """``leases/readers/<id>.json``: what a reader needs (PIN-1)."""

    kind: Literal["pin"]
    holder: Name
    """What people are told of who it is."""
    acquired_at: Timestamp
    """When the pin was first written, by the reader's clock."""
    ttl_ms: Annotated[int, Meta(ge=1, le=MAX_TTL_MS)]
    """Milliseconds without a new write of the pin after which its reader may be taken to be gone."""
    released: bool
    first: Version
    """Oldest version that it needs."""
    last: Version | None = None
    """Newest one; None for every later version."""


class RetentionRecord(Envelope, frozen=True, kw_only=True):
    """``retention.json``: which versions are part of the stream (RET-1)."""

    kind: Literal["retention"]
    boundary: Version
    kept: tuple[Version, ...] = ()
    """Versions below the boundary that are retained too, ascending."""


class SpanRecord(Envelope, frozen=True, kw_only=True):
    """``spans/<target>-<base>.json``: a delta over several versions, added at any time after them (SPN-1)."""

    kind: Literal["span"]
    base: Version
    base_digest: Sha256
    """sha256 of the exact bytes of the base's record."""
    version: Version
    """The target."""
    version_digest: Sha256
    """sha256 of the exact bytes of the target's record."""
    tensors: Descriptor
    state_digest: Hex64
    """That of the target."""
    delta: Delta
    replaces_bytes: Uint
    """Bytes of the parts of all deltas from the base to the target."""


R = TypeVar("R", bound=Envelope)


def decode(data: bytes, kind: type[R], *, what: str, limits: Limits) -> R:
    """Read a record, checking in this order: size, JSON, protocol, reader features, shape, invariants (REC-2).

    Raises:
        LimitExceededError: it is too large, too deep or holds too many members.
        MalformedRecordError: it is not I-JSON or not of this shape.
        UnsupportedProtocolError: another protocol or major version.
        UnsupportedFeatureError: a reader feature that is not implemented here.
    """
    limits.check("record_bytes", len(data), f"size of {what}")
    value = strict_json.parse(data, what=what, limits=limits)
    # Before the shape: a later major version may have any shape. VER-1
    features.check_protocol_of(value, what=what)
    required = value.get("reader_features")
    if isinstance(required, list) and all(isinstance(name, str) for name in required):
        features.check_features(tuple(required), features.READER_FEATURES, role="reader")  # VER-2
    strict_json.refuse_null(value, kind, what=what)
    record = strict_json.convert(value, kind, what=what)
    _check_envelope(record, data, what=what, limits=limits)
    if isinstance(record, (VersionRecord, AnchorRecord, SpanRecord)):
        limits.check("table_bytes", record.tensors.bytes, f"size of the tensor table of {what}")
    if isinstance(record, StreamRecord):
        _check_stream(record, what=what, limits=limits)
    elif isinstance(record, VersionRecord):
        _check_version(record, what=what, limits=limits)
    elif isinstance(record, AnchorRecord):
        _check_snapshot(record.snapshot, what=what, limits=limits)
    elif isinstance(record, SpanRecord):
        _check_span(record, what=what, limits=limits)
    elif isinstance(record, PinRecord):
        if record.last is not None and record.last < record.first:
            raise MalformedRecordError(f"{what} pins versions {record.first} to {record.last}")  # PIN-1
    elif isinstance(record, RetentionRecord):
        _check_retention(record, what=what, limits=limits)
    return record


def named_by(record: VersionRecord | AnchorRecord | SpanRecord) -> tuple[Descriptor, ...]:
    """Descriptors of every object that a record names (DSC-1)."""
    found = [record.tensors]
    if isinstance(record, VersionRecord):
        found += record.files
    if not isinstance(record, AnchorRecord) and record.delta is not None:
        found += record.delta.parts
    if not isinstance(record, SpanRecord) and record.snapshot is not None:
        found += [*record.snapshot.shards, record.snapshot.index, *record.snapshot.files]
    return tuple(found)


def encode(record: Envelope) -> bytes:
    """Exact bytes to store for a record."""
    return strict_json.encode(record)


def _check_envelope(record: Envelope, data: bytes, *, what: str, limits: Limits) -> None:
    limits.check("features", len(record.reader_features), f"number of reader features of {what}")
    limits.check("features", len(record.writer_features), f"number of writer features of {what}")
    if missing := set(record.reader_features) - set(record.writer_features):
        raise MalformedRecordError(f"{what}: reader feature {min(missing)} is not a writer feature too")  # VER-3
    if missing := set(record.writer_features) & features.READER_FEATURES - set(record.reader_features):
        raise MalformedRecordError(f"{what}: {min(missing)} is a reader feature, but listed for writers only")  # VER-3
    if len(data) > limits.metadata_bytes:  # what is compact is no longer than what is there
        limits.check("metadata_bytes", strict_json.member_bytes(data, "metadata"), f"metadata of {what}")


def _check_stream(record: StreamRecord, *, what: str, limits: Limits) -> None:
    limits.check("signing_keys", len(record.signing_keys), f"number of signing keys of {what}")
    if len(set(record.signing_keys)) != len(record.signing_keys):
        raise MalformedRecordError(f"{what} names a signing key twice")  # SIG-1
    if any(map(signs_anything, record.signing_keys)):
        raise MalformedRecordError(f"{what} names a signing key for which anyone can sign")  # SIG-12
    if bool(record.signing_keys) != ("signed" in record.writer_features):
        raise MalformedRecordError(f"{what}: a stream has signing keys if it is signed, and only then")  # SIG-1


def _check_version(record: VersionRecord, *, what: str, limits: Limits) -> None:
    if (record.delta is None) == (record.snapshot is None):
        raise MalformedRecordError(f"{what} must have either a delta or a snapshot")  # VSN-4
    if (record.parent is None) != (record.version == 0):
        raise MalformedRecordError(f"{what}: version 0, and only version 0, has no parent")  # VSN-3
    if record.parent is not None and record.parent.version != record.version - 1:
        raise MalformedRecordError(f"{what}: its parent is version {record.parent.version}")  # VSN-3
    if record.version == 0 and record.snapshot is None:
        raise MalformedRecordError(f"{what} has no parent to be a delta of")
    if record.rollback_of is not None and record.rollback_of.version >= record.version:
        raise MalformedRecordError(
            f"{what} goes back to version {record.rollback_of.version}, which is no older"
        )  # RBK-1
    if record.snapshot is not None:
        _check_snapshot(record.snapshot, what=what, limits=limits)
    if record.delta is not None:
        check_delta(record.delta, what=what, limits=limits)
    check_files(record.files, what=what, limits=limits)


def _check_span(record: SpanRecord, *, what: str, limits: Limits) -> None:
    if record.base >= record.version:
        raise MalformedRecordError(f"{what} leads from version {record.base} to {record.version}")  # SPN-1
    check_delta(record.delta, what=what, limits=limits)
    size = sum(part.bytes for part in record.delta.parts)
    if size > record.replaces_bytes:
        raise MalformedRecordError(f"{what} has {size:,} bytes in place of {record.replaces_bytes:,}")  # SPN-3


def _check_retention(record: RetentionRecord, *, what: str, limits: Limits) -> None:
    limits.check("kept", len(record.kept), f"number of versions kept by {what}")
    if any(later <= earlier for earlier, later in itertools.pairwise(record.kept)):
        raise MalformedRecordError(f"{what}: the versions kept do not ascend")  # RET-1
    if record.kept and record.kept[-1] >= record.boundary:
        raise MalformedRecordError(f"{what} keeps version {record.kept[-1]}, which is not below the boundary")  # RET-1


def check_delta(delta: Delta, *, what: str, limits: Limits) -> None:
    """Hold a delta to its own invariants. Raises MalformedRecordError, LimitExceededError."""
    limits.check("parts", len(delta.parts), f"number of parts of {what}")
    limits.check("batches", sum(len(part.batches) for part in delta.parts), f"number of batches of {what}")
    for part in delta.parts:
        if part.media_type != ARROW_TYPE:
            raise MalformedRecordError(f"{what}: part {part.key} has media type {part.media_type!r}")
        if len(set(part.streams)) != len(part.streams):
            raise MalformedRecordError(f"{what}: part {part.key} names a stream twice")
        end = 0
        for batch in part.batches:
            name = f"batch at {batch.offset} of {part.key}"
            limits.check("batch_bytes", batch.bytes, f"size of {name}")
            limits.check("rows", batch.rows, f"rows of {name}")
            limits.check_expansion(batch.bytes, batch.decoded_bytes, name)
            if batch.offset < end or batch.offset + batch.bytes > part.bytes:
                raise MalformedRecordError(f"{what}: {name} overlaps another or leaves the part")  # PRT-4
            if batch.first_tensor > batch.last_tensor:
                raise MalformedRecordError(f"{what}: {name} has no tensors")
            end = batch.offset + batch.bytes
    if not delta.parts and (delta.changed_elements or delta.digest_before != delta.digest_after):
        raise MalformedRecordError(f"{what}: something changed, but there are no parts")


def _check_snapshot(snapshot: Snapshot, *, what: str, limits: Limits) -> None:
    limits.check("parts", len(snapshot.shards), f"number of shards of {what}")
    if not snapshot.shards:
        raise MalformedRecordError(f"{what}: its snapshot has no shards")
    expected = 0
    for shard in snapshot.shards:
        limits.check("shard_header_bytes", shard.header_bytes, f"header of {shard.key}")
        if shard.media_type != SAFETENSORS_TYPE:
            raise MalformedRecordError(f"{what}: shard {shard.key} has media type {shard.media_type!r}")
        if not 8 <= shard.header_bytes <= shard.bytes:
            raise MalformedRecordError(f"{what}: the header of {shard.key} does not fit in it")
        if shard.first_tensor != expected or shard.last_tensor < shard.first_tensor:
            raise MalformedRecordError(f"{what}: shards do not hold the tensors in table order")  # SNP-3
        expected = shard.last_tensor + 1
    check_files(snapshot.files, what=what, limits=limits)


def check_files(files: tuple[File, ...], *, what: str, limits: Limits) -> None:
    """Hold a list of auxiliary files to FIL-1 and FIL-2. Raises MalformedRecordError, LimitExceededError."""
    limits.check("files", len(files), f"number of files of {what}")
    if len({file.name for file in files}) != len(files):
        raise MalformedRecordError(f"{what} names a file twice")
    for file in files:
        check_file_name(file.name)
        limits.check("file_bytes", file.bytes, f"size of file {file.name}")


_FILE_NAME = re.compile(r"[A-Za-z0-9_-](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9_-])?")


def check_file_name(name: str) -> str:
    """Return ``name`` if it is one key segment that cannot escape a folder or shadow a shard or table (FIL-2).

    Raises:
        MalformedRecordError: it is not.
    """
    ours = name == "tensors" or name.endswith((".safetensors", ".safetensors.index.json"))
    if ours or not _FILE_NAME.fullmatch(name):
        raise MalformedRecordError(f"file name {name[:80]!r} is not allowed")
    return name
