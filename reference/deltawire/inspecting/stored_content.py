"""Holding the bytes of a data object to its descriptor while they pass by."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from deltawire.errors import DigestMismatchError, SizeMismatchError
from deltawire.format.records import Descriptor, Part, Shard
from deltawire.format.tensors import TensorTable
from deltawire.limits import Limits
from deltawire.snapshots.header import check_against_table, header_length, parse_header


@dataclass
class _Range:
    """Part of an object that has a digest of its own: a batch, or a shard's header."""

    name: str
    start: int
    end: int
    digest: str
    hasher: hashlib._Hash = field(default_factory=hashlib.sha256)

    def take(self, chunk: bytes, at: int) -> None:
        self.hasher.update(chunk[max(self.start - at, 0) : max(self.end - at, 0)])

    @property
    def good(self) -> bool:
        return "sha256:" + self.hasher.hexdigest() == self.digest


class StoredContent:
    """Takes an object's bytes in order, then says whether they are what the descriptor promises.

    A part is held to the digest of each batch as well; a shard to its header's, and its header to ``table``.
    """

    def __init__(self, descriptor: Descriptor, table: TensorTable | None, *, limits: Limits) -> None:
        self._descriptor = descriptor
        self._table = table
        self._limits = limits
        self._whole = hashlib.sha256()
        self._at = 0
        self._header = bytearray()
        self._ranges: list[_Range] = []
        if isinstance(descriptor, Part):
            self._ranges = [
                _Range(f"the batch at {batch.offset}", batch.offset, batch.offset + batch.bytes, batch.digest)
                for batch in descriptor.batches
            ]
        elif isinstance(descriptor, Shard):
            self._ranges = [_Range("the header", 0, descriptor.header_bytes, descriptor.header_digest)]

    def take(self, chunk: bytes) -> None:
        """Take the next bytes."""
        self._whole.update(chunk)
        for part in self._ranges:
            if part.start < self._at + len(chunk) and part.end > self._at:
                part.take(chunk, self._at)
        if isinstance(self._descriptor, Shard):
            self._header += chunk[: max(self._descriptor.header_bytes - self._at, 0)]
        self._at += len(chunk)

    def finish(self) -> None:
        """All bytes were taken: check them.

        Raises:
            DigestMismatchError: they are others than the record says.
            SizeMismatchError: a shard's header has another length than the record says.
            MalformedShardError: a shard's header is invalid, or not of the tensors that the record says.
        """
        key = self._descriptor.key
        bad = [part.name for part in self._ranges if not part.good]
        if "sha256:" + self._whole.hexdigest() != self._descriptor.digest:
            where = f"; it differs in {bad[0]}" if bad else ""
            raise DigestMismatchError(f"{key} is not what its record says{where}")
        if bad:
            raise DigestMismatchError(f"{key} is whole, but {bad[0]} does not have the digest that the record gives")
        if isinstance(self._descriptor, Shard):
            self._check_header(self._descriptor)

    def _check_header(self, shard: Shard) -> None:
        data = bytes(self._header)
        if header_length(data, limits=self._limits) != shard.header_bytes:
            raise SizeMismatchError(f"the header of {shard.key} does not have {shard.header_bytes:,} bytes")  # SNP-5
        header = parse_header(data, shard.bytes, limits=self._limits)
        if self._table is not None:
            tensors = self._table.tensors[shard.first_tensor : shard.last_tensor + 1]
            check_against_table(header, tensors, what=shard.key)
