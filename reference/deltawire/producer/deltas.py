"""The delta between two states: rows into parts, and what they add up to (SPEC.md sections 8.2 and 11.2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from deltawire.format.records import Delta
from deltawire.format.tensors import Tensor
from deltawire.parts.rows import Row
from deltawire.parts.writer import PartWriter
from deltawire.producer.comparing import TensorPair
from deltawire.producer.encoding import EncodingPool

_MASK = (1 << 64) - 1


@dataclass
class Sums:
    """Rows added up."""

    changed: int = 0
    before: int = 0
    after: int = 0

    def add(self, row: Row) -> None:
        """Add a row."""
        self.changed += row.changed
        self.before = (self.before + row.digest_before) & _MASK
        self.after = (self.after + row.digest_after) & _MASK


@dataclass(frozen=True, slots=True)
class EncodedDelta:
    """A delta whose parts were handed to the store."""

    delta: Delta
    changed: dict[int, Sums]
    """Sums by ordinal of the tensors that it changes."""

    def digest_from(self, base: int) -> int:
        """State digest of the new state, from that of the old one. DIG-3"""
        change = int(self.delta.digest_after, 16) - int(self.delta.digest_before, 16)
        return (base + change) & _MASK


def encode_delta(
    tensors: tuple[Tensor, ...],
    pair_of: Callable[[Tensor], TensorPair],
    *,
    encoding: EncodingPool,
    writer: PartWriter,
    between: Callable[[], object] = lambda: None,
) -> EncodedDelta:
    """Encode what differs between two states of the same tensors, and write it to parts. PUB-2 to PUB-4

    Args:
        tensors: in table order.
        pair_of: brings a tensor's two states together; called once for each.
        encoding: threads that encode.
        writer: takes the rows.
        between: called after each row; may raise to stop.
    """
    total = Sums()
    by_tensor: dict[int, Sums] = {}
    for row in encoding.encode(tensors, pair_of):
        between()
        writer.add(row)
        total.add(row)
        by_tensor.setdefault(row.tensor, Sums()).add(row)
    delta = Delta(
        changed_elements=total.changed,
        changed_tensors=len(by_tensor),
        digest_before=f"{total.before:016x}",
        digest_after=f"{total.after:016x}",
        parts=writer.finish(),
    )
    return EncodedDelta(delta, by_tensor)
