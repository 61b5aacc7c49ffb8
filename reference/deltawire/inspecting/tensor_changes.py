"""What happened to each tensor between two states, added up from the rows of a delta."""

from __future__ import annotations

from dataclasses import dataclass, field

from deltawire.format.tensors import Tensor, TensorTable
from deltawire.parts.rows import Row


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorChange:
    """One tensor of which at least one element changed."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    elements: int
    """Stored elements of the tensor."""
    changed: int
    """Elements whose bits differ."""
    codecs: tuple[str, ...] = ()
    """Codecs of its rows; none in a snapshot, or where nothing was encoded."""
    rows: int = 0
    data_bytes: int | None = None
    """About how much of the stored bytes is this tensor's; None where nothing was encoded."""

    @property
    def fraction(self) -> float:
        """Changed elements over all elements."""
        return self.changed / self.elements if self.elements else 0.0


def change_of(tensor: Tensor, changed: int, *, data_bytes: int | None = None) -> TensorChange:
    """A change that no row describes."""
    return TensorChange(
        name=tensor.name,
        dtype=tensor.dtype.name,
        shape=tensor.shape,
        elements=tensor.elements,
        changed=changed,
        data_bytes=data_bytes,
    )


def largest_first(changes: list[TensorChange]) -> tuple[TensorChange, ...]:
    """Order by changed elements, then by name."""
    return tuple(sorted(changes, key=lambda change: (-change.changed, change.name)))


@dataclass
class _Sums:
    changed: int = 0
    rows: int = 0
    data_bytes: float = 0.0
    codecs: set[str] = field(default_factory=set)


class Tally:
    """Adds up rows by tensor."""

    def __init__(self, table: TensorTable) -> None:
        self._table = table
        self._sums: dict[int, _Sums] = {}

    def add_batch(self, rows: list[Row], stored_bytes: int) -> None:
        """Add the rows of a batch of ``stored_bytes``.

        Arrow compresses the streams of all rows together, so a row's share is in proportion to its streams.
        """
        sizes = [sum(len(stream) for stream in row.streams.values()) for row in rows]
        scale = stored_bytes / max(sum(sizes), 1)
        for row, size in zip(rows, sizes, strict=True):
            sums = self._sums.setdefault(row.tensor, _Sums())
            sums.changed += row.changed
            sums.rows += 1
            sums.data_bytes += size * scale
            sums.codecs.add(row.codec)

    def changes(self) -> tuple[TensorChange, ...]:
        """Every tensor that has a row, largest first."""
        return largest_first([self._change(self._table.tensors[ordinal], sums) for ordinal, sums in self._sums.items()])

    def _change(self, tensor: Tensor, sums: _Sums) -> TensorChange:
        return TensorChange(
            name=tensor.name,
            dtype=tensor.dtype.name,
            shape=tensor.shape,
            elements=tensor.elements,
            changed=sums.changed,
            codecs=tuple(sorted(sums.codecs)),
            rows=sums.rows,
            data_bytes=round(sums.data_bytes),
        )
