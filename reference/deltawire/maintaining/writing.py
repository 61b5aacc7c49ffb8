"""Spans and anchors while they are written, a group of tensors at a time (SPEC.md section 11.12)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from deltawire.deadline import Deadline
from deltawire.errors import StateMismatchError
from deltawire.format import keys, records
from deltawire.format.dtypes import Bits
from deltawire.format.records import AnchorRecord, Delta, Descriptor, File, Shard, Snapshot, SpanRecord
from deltawire.format.tensors import Tensor
from deltawire.kernels.digest import digest_range
from deltawire.limits import MIB, Limits
from deltawire.maintaining.ladder import Span
from deltawire.parts.rows import Row
from deltawire.parts.writer import PartOptions, PartWriter
from deltawire.producer.deltas import Sums
from deltawire.producer.envelope import envelope
from deltawire.producer.signing import Signing, encode
from deltawire.producer.uploads import Uploads
from deltawire.reading.stream import Committed
from deltawire.reading.transfer import Transfer
from deltawire.snapshots.writer import write_files, write_index, write_shard

_CHUNK = 8 * MIB
_MASK = (1 << 64) - 1


class SpanWriter:
    """Takes the rows of one span and stores its parts as each is complete.

    Holds one part at most, and none between groups.
    """

    def __init__(
        self,
        span: Span,
        base: Committed,
        target: Committed,
        *,
        replaces_bytes: int,
        writer_features: tuple[str, ...],
        uploads: Uploads,
        options: PartOptions,
        deadline: Deadline,
    ) -> None:
        self.span = span
        self.replaces_bytes = replaces_bytes
        self._base = base
        self._target = target
        record = target.record
        self._head = envelope(record.stream_id, "span", epoch=record.epoch, writer_features=writer_features)
        self.prefix = keys.data_prefix(span.target, self._head["commit_id"])
        self._parts = PartWriter(
            lambda index: self.prefix + keys.part_name(index),
            lambda part, data: uploads.put_part(part, data, deadline),
            options=options,
        )
        self._sums = Sums()
        self._tensors: set[int] = set()

    @property
    def key(self) -> str:
        """Key of its record."""
        return keys.span_key(self.span.base, self.span.target)

    @property
    def stored_bytes(self) -> int:
        """Size of the parts stored so far."""
        return sum(part.bytes for part in self._parts.parts)

    @property
    def named(self) -> list[Descriptor]:
        """What its record names."""
        return [self._target.record.tensors, *self._parts.parts]

    def add(self, rows: Iterable[Row]) -> None:
        """Take all rows of a group, in table order."""
        for row in rows:
            self._parts.add(row)
            self._sums.add(row)
            self._tensors.add(row.tensor)
        self._parts.finish()

    def check(self) -> None:
        """Hold the sums of all rows against both versions. SPN-4

        Raises:
            StateMismatchError: they do not lead from one state to the other.
        """
        base, target = (int(end.record.state_digest, 16) for end in (self._base, self._target))
        if (base + self._sums.after - self._sums.before) & _MASK != target:
            raise StateMismatchError(f"the rows of {self.key} do not lead to the state digest of its target")

    def encode(self, signing: Signing | None, *, limits: Limits) -> bytes:
        """The bytes of its record. Raises what ``encode_checked`` does."""
        delta = Delta(
            changed_elements=self._sums.changed,
            changed_tensors=len(self._tensors),
            digest_before=f"{self._sums.before:016x}",
            digest_after=f"{self._sums.after:016x}",
            parts=tuple(self._parts.parts),
        )
        record = SpanRecord(
            **self._head,
            base=self.span.base,
            base_digest=self._base.digest,
            version=self.span.target,
            version_digest=self._target.digest,
            tensors=self._target.record.tensors,
            state_digest=self._target.record.state_digest,
            delta=delta,
            replaces_bytes=self.replaces_bytes,
        )
        return encode_checked(record, signing, what=self.key, limits=limits)


class AnchorWriter:
    """Writes an anchor's shards, one for each group of tensors, as the groups come to its version."""

    def __init__(
        self,
        version: Committed,
        groups: Sequence[Sequence[Tensor]],
        *,
        writer_features: tuple[str, ...],
        uploads: Uploads,
        deadline: Deadline,
    ) -> None:
        self.version = version.record.version
        self._version = version
        self._groups = groups
        self._uploads = uploads
        self._deadline = deadline
        record = version.record
        self._head = envelope(record.stream_id, "anchor", epoch=record.epoch, writer_features=writer_features)
        self.prefix = keys.data_prefix(self.version, self._head["commit_id"])
        self._shards: list[Shard] = []
        self._snapshot: Snapshot | None = None
        self._digest = 0

    @property
    def key(self) -> str:
        """Key of its record."""
        return keys.anchor_key(self.version)

    @property
    def stored_bytes(self) -> int:
        """Size of the shards stored so far."""
        return sum(shard.bytes for shard in self._shards)

    @property
    def named(self) -> list[Descriptor]:
        """What its record names."""
        beside = [] if self._snapshot is None else [self._snapshot.index, *self._snapshot.files]
        return [self._version.record.tensors, *self._shards, *beside]

    def add(self, group: Sequence[Tensor], bits: dict[int, Bits]) -> None:
        """Write the next group as a shard, from the flat bits of its tensors by ordinal."""
        digests = {
            tensor.ordinal: int(digest_range(bits[tensor.ordinal], np.uint64(tensor.seed), np.uint64(0)))
            for tensor in group
        }
        self._digest = (self._digest + sum(digests.values())) & _MASK
        key = self.prefix + keys.shard_name(len(self._shards) + 1, len(self._groups))

        def read(tensor: Tensor) -> Iterator[memoryview]:
            run = _CHUNK // tensor.dtype.width
            for start in range(0, tensor.elements, run):
                yield bits[tensor.ordinal][start : start + run].view(np.uint8).data

        shard = self._uploads.run(
            lambda: write_shard(self._uploads.writes, group, read, digests, key=key), self._deadline
        )
        self._shards.append(shard)

    def finish(self, transfer: Transfer) -> None:
        """Write the index and copies of the version's auxiliary files. SNP-6

        Raises:
            StateMismatchError: the groups together are not the version.
            IntegrityError: a file is not what the version's record says.
        """
        if self._digest != int(self._version.record.state_digest, 16):
            raise StateMismatchError(f"the state made of version {self.version} does not have its state digest")
        index = self._uploads.run(
            lambda: write_index(self._uploads.writes, self._groups, prefix=self.prefix), self._deadline
        )
        files = tuple(self._copy(file, transfer) for file in self._version.record.files)
        self._uploads.finish(self._deadline)
        self._snapshot = Snapshot(shards=tuple(self._shards), index=index, files=files)

    def _copy(self, file: File, transfer: Transfer) -> File:
        data = transfer.read_object(file, max_bytes=transfer.limits.file_bytes, deadline=self._deadline)
        [copy] = self._uploads.run(
            lambda: write_files(self._uploads.writes, {file.name: data}, prefix=self.prefix), self._deadline
        )
        return copy

    def encode(self, signing: Signing | None, *, limits: Limits) -> bytes:
        """The bytes of its record, when it is finished. Raises what ``encode_checked`` does."""
        assert self._snapshot is not None  # noqa: S101 - finish comes first
        record = AnchorRecord(
            **self._head,
            version=self.version,
            version_digest=self._version.digest,
            tensors=self._version.record.tensors,
            state_digest=self._version.record.state_digest,
            snapshot=self._snapshot,
        )
        return encode_checked(record, signing, what=self.key, limits=limits)


def encode_checked(record: SpanRecord | AnchorRecord, signing: Signing | None, *, what: str, limits: Limits) -> bytes:
    """The exact bytes to store for a record, which every reader takes. LIM-4

    Raises:
        MalformedRecordError, LimitExceededError: a reader would refuse it.
    """
    data = encode(record, signing)
    records.decode(data, type(record), what=what, limits=limits)
    return data
