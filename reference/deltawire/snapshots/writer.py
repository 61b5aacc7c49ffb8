"""Writing a snapshot, streaming, a shard at a time, and what lies beside it (SPEC.md sections 8.7 and 11.3)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from deltawire.format.keys import SHARD_INDEX, shard_name
from deltawire.format.records import BINARY_TYPE, JSON_TYPE, SAFETENSORS_TYPE, Descriptor, File, Shard, Snapshot
from deltawire.format.strict_json import sha256
from deltawire.format.tensors import Tensor, TensorTable
from deltawire.snapshots.header import build_header, file_order
from deltawire.store.base import Bytes, WriteBatch

ReadTensor = Callable[[Tensor], Iterable[Bytes]]
"""Gives a tensor's bytes, little-endian and row-major, in chunks."""


@dataclass(frozen=True, slots=True)
class Stored:
    """Size and sha256 of bytes that have passed by."""

    bytes: int
    digest: str


def hash_through(chunks: Iterable[Bytes], done: Callable[[Stored], None]) -> Iterator[Bytes]:
    """Pass chunks on and report their size and sha256 at the end."""
    hasher, size = hashlib.sha256(), 0
    for chunk in chunks:
        hasher.update(chunk)
        size += memoryview(chunk).nbytes
        yield chunk
    done(Stored(size, "sha256:" + hasher.hexdigest()))


def plan_shards(tensors: Sequence[Tensor], shard_bytes: int) -> list[Sequence[Tensor]]:
    """Cut a table into runs of tensors of about ``shard_bytes``; a larger tensor gets a shard of its own."""
    shards: list[list[Tensor]] = [[]]
    size = 0
    for tensor in tensors:
        if shards[-1] and size + tensor.bytes > shard_bytes:
            shards.append([])
            size = 0
        shards[-1].append(tensor)
        size += tensor.bytes
    return list(shards)


def write_snapshot(
    writes: WriteBatch,
    table: TensorTable,
    read: ReadTensor,
    digests: Sequence[int],
    *,
    prefix: str,
    shard_bytes: int,
    files: Mapping[str, bytes],
) -> Snapshot:
    """Write all shards, the index and the auxiliary files under ``prefix``: a folder that loads as it is.

    Args:
        writes: where to; finished by the caller.
        table: the tensors.
        read: gives each tensor's bytes, called once for each in file order.
        digests: each tensor's share of the state digest, by ordinal.
        prefix: a data folder of this one logical write (KEY-4).
        shard_bytes: about how large a shard becomes.
        files: auxiliary files by name.
    """
    runs = plan_shards(table.tensors, shard_bytes)
    names = [shard_name(index + 1, len(runs)) for index in range(len(runs))]
    shards = tuple(
        write_shard(writes, run, read, digests, key=prefix + name) for run, name in zip(runs, names, strict=True)
    )
    return Snapshot(
        shards=shards,
        index=write_index(writes, runs, prefix=prefix),
        files=write_files(writes, files, prefix=prefix),
    )


def write_index(writes: WriteBatch, runs: Sequence[Sequence[Tensor]], *, prefix: str) -> Descriptor:
    """Write the index of a snapshot whose shards are these runs of tensors."""
    names = [shard_name(index + 1, len(runs)) for index in range(len(runs))]
    weight_map = {tensor.name: name for run, name in zip(runs, names, strict=True) for tensor in run}
    total = sum(tensor.bytes for run in runs for tensor in run)
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    data = json.dumps(index, indent=1, ensure_ascii=False).encode()
    key = prefix + SHARD_INDEX
    writes.put(key, data)
    return Descriptor(key=key, media_type=JSON_TYPE, bytes=len(data), digest=sha256(data))


def write_files(writes: WriteBatch, files: Mapping[str, bytes], *, prefix: str) -> tuple[File, ...]:
    """Write auxiliary files under ``prefix``, in a data folder of this one logical write (FIL-1, KEY-4)."""
    for name, content in files.items():
        writes.put(prefix + name, content)
    return tuple(describe_file(name, content, key=prefix + name) for name, content in files.items())


def write_table(writes: WriteBatch, table: TensorTable, *, key: str) -> Descriptor:
    """Write a tensor table under ``key``, in a data folder of this one logical write (TAB-1, KEY-4)."""
    writes.put(key, table.data)
    return table.described(key)


def describe_file(name: str, content: bytes, *, key: str) -> File:
    """The record entry of an auxiliary file (FIL-1)."""
    media_type = JSON_TYPE if name.endswith(".json") else BINARY_TYPE
    return File(name=name, key=key, media_type=media_type, bytes=len(content), digest=sha256(content))


def write_shard(
    writes: WriteBatch,
    run: Sequence[Tensor],
    read: ReadTensor,
    digests: Mapping[int, int] | Sequence[int],
    *,
    key: str,
) -> Shard:
    """Write one shard of consecutive tensors, streaming.

    Args:
        writes: where to; finished by the caller.
        run: the tensors, in table order.
        read: gives each tensor's bytes, called once for each in file order.
        digests: each tensor's share of the state digest, by ordinal.
        key: in a data folder of this one logical write (KEY-4).
    """
    order = file_order(run)
    header = build_header(order, {tensor.name: digests[tensor.ordinal] for tensor in order})
    found: list[Stored] = []

    def chunks() -> Iterator[Bytes]:
        yield header
        for tensor in order:
            yield from read(tensor)

    writes.put_stream(key, hash_through(chunks(), found.append))
    return Shard(
        key=key,
        media_type=SAFETENSORS_TYPE,
        bytes=found[0].bytes,
        digest=found[0].digest,
        header_bytes=len(header),
        header_digest=sha256(header),
        first_tensor=run[0].ordinal,
        last_tensor=run[-1].ordinal,
    )
