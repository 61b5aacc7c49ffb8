"""What a version consists of, stored and ready to be named by its record (SPEC.md sections 11.2 and 11.3)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from deltawire.deadline import Deadline
from deltawire.format import keys
from deltawire.format.records import Delta, Descriptor, File, Snapshot, VersionRecord
from deltawire.format.strict_json import sha256
from deltawire.format.tensors import Tensor, TensorTable
from deltawire.kernels.scan import Room
from deltawire.parts.writer import PartOptions, PartWriter
from deltawire.producer.base import BaseState
from deltawire.producer.deltas import Sums, encode_delta
from deltawire.producer.encoding import EncodingPool
from deltawire.producer.small_tensors import GROUP_ELEMENTS, SMALL_ELEMENTS, groups
from deltawire.producer.source import Source
from deltawire.producer.uploads import Uploads
from deltawire.snapshots.writer import write_files, write_snapshot, write_table


@dataclass(frozen=True, kw_only=True)
class Contents:
    """A version's data, durable in the store."""

    base: BaseState
    """The base it becomes part of, or, of a snapshot, the base that it is."""
    tensors: Descriptor
    """Of the tensor table."""
    files: tuple[File, ...]
    """All auxiliary files."""
    state_digest: int
    delta: Delta | None = None
    snapshot: Snapshot | None = None
    changed: dict[int, Sums] = field(default_factory=dict)
    """Sums by ordinal of the tensors that a delta changes."""
    encode_seconds: float
    upload_seconds: float

    @property
    def table(self) -> TensorTable:
        """The version's tensor table."""
        return self.base.table

    @property
    def changed_elements(self) -> int:
        """Elements that differ from the parent; all of a snapshot."""
        return self.table.elements if self.delta is None else self.delta.changed_elements

    @property
    def changed_tensors(self) -> int:
        """Tensors that differ from the parent; all of a snapshot."""
        return len(self.table.tensors) if self.delta is None else self.delta.changed_tensors

    @property
    def data_bytes(self) -> int:
        """Size of the parts or shards."""
        if self.delta is not None:
            return sum(part.bytes for part in self.delta.parts)
        return 0 if self.snapshot is None else sum(shard.bytes for shard in self.snapshot.shards)

    def advance(self, source: Source) -> None:
        """Take the new bits of a committed delta over into the base. Raises SourceChangedError."""
        small: list[Tensor] = []
        for ordinal, sums in self.changed.items():
            tensor = self.table.tensors[ordinal]
            if tensor.elements <= SMALL_ELEMENTS:
                small.append(tensor)
            else:
                self.base.advance(tensor, source.tensor(tensor.name), before=sums.before, after=sums.after)
        room = Room(GROUP_ELEMENTS)
        for group in groups((tensor, self.base.pair(tensor, source.tensor(tensor.name))) for tensor in small):
            self.base.advance_small(group, self.changed, room)


def store_delta(
    base: BaseState,
    source: Source,
    *,
    parent: VersionRecord,
    commit_id: str,
    uploads: Uploads,
    encoding: EncodingPool,
    options: PartOptions,
    files: Mapping[str, bytes],
    deadline: Deadline,
) -> Contents:
    """Encode what differs from the base, the state of ``parent``, and store it as the next version. PUB-2 to PUB-5"""
    started = time.perf_counter()
    version = parent.version + 1
    prefix = keys.data_prefix(version, commit_id)
    writer = PartWriter(
        lambda index: prefix + keys.part_name(index),
        lambda part, data: uploads.put_part(part, data, deadline),
        options=options,
    )
    encoded = encode_delta(
        base.table.tensors,
        lambda tensor: base.pair(tensor, source.tensor(tensor.name)),
        encoding=encoding,
        writer=writer,
        between=deadline.remaining,
    )
    encode_seconds = time.perf_counter() - started - uploads.waited
    kept = {file.name: file for file in parent.files if _same(file, files.get(file.name))}
    new = {name: data for name, data in files.items() if name not in kept}
    if new:
        folder = keys.files_prefix(version, commit_id)
        stored = uploads.run(lambda: write_files(uploads.writes, new, prefix=folder), deadline)
        kept |= {file.name: file for file in stored}
    uploads.finish(deadline)
    return Contents(
        base=base,
        tensors=parent.tensors,
        files=tuple(kept[name] for name in files),
        state_digest=encoded.digest_from(base.digest),
        delta=encoded.delta,
        changed=encoded.changed,
        encode_seconds=encode_seconds,
        upload_seconds=uploads.waited,
    )


def _same(file: File, data: bytes | None) -> bool:
    return data is not None and file.digest == sha256(data)


def store_snapshot(
    table: TensorTable,
    source: Source,
    *,
    version: int,
    commit_id: str,
    uploads: Uploads,
    shard_bytes: int,
    files: Mapping[str, bytes],
    deadline: Deadline,
) -> Contents:
    """Copy a whole state into a new base, and store it with its table and files. VSN-5"""
    started = time.perf_counter()
    base = BaseState(table, [source.tensor(tensor.name).hold() for tensor in table.tensors])
    encoded = time.perf_counter() - started
    prefix = keys.data_prefix(version, commit_id)
    tensors = uploads.run(lambda: write_table(uploads.writes, table, key=keys.table_key(version, commit_id)), deadline)
    snapshot = uploads.run(
        lambda: write_snapshot(
            uploads.writes, table, base.read, base.digests, prefix=prefix, shard_bytes=shard_bytes, files=files
        ),
        deadline,
    )
    uploads.finish(deadline)
    return Contents(
        base=base,
        tensors=tensors,
        files=snapshot.files,
        state_digest=base.digest,
        snapshot=snapshot,
        encode_seconds=encoded,
        upload_seconds=uploads.waited,
    )
