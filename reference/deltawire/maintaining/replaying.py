"""Some tensors of a model on their way from a snapshot through versions (SPEC.md section 11.12)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from deltawire.consumer.loading import load_snapshot
from deltawire.consumer.small_rows import stage_rows
from deltawire.consumer.staging import Totals, check_disjoint
from deltawire.deadline import Deadline
from deltawire.errors import DeltawireError, FormatError, IntegrityError, UnsupportedError
from deltawire.format.dtypes import Bits
from deltawire.format.records import Batch, Delta, Part, Snapshot
from deltawire.format.tensors import Tensor, TensorTable
from deltawire.maintaining.ladder import Span
from deltawire.maintaining.merging import Undo, undo_of
from deltawire.parts.reader import read_batch
from deltawire.reading.stream import Committed
from deltawire.reading.transfer import RangeRequest, Transfer
from deltawire.targets.arrays import ArraysTarget
from deltawire.targets.base import Change


class StepError(Exception):
    """What is stored for a step is missing or no good; None stands for the snapshot that the way begins with."""

    def __init__(self, step: Span | None, error: DeltawireError) -> None:
        super().__init__(str(error))
        self.step = step
        self.error = error


@contextmanager
def blaming(step: Span | None) -> Iterator[None]:
    """Turn what is wrong with what is stored for a step into a ``StepError``; other failures are not its fault."""
    try:
        yield
    except (FormatError, UnsupportedError, IntegrityError) as error:
        raise StepError(step, error) from error


@dataclass(frozen=True, slots=True)
class Step:
    """A delta or a span to be applied, and what its rows have come to in the tensors dealt with so far."""

    span: Span
    delta: Delta
    totals: Totals = field(default_factory=Totals)


@dataclass(frozen=True, slots=True)
class Begin:
    """The snapshot that a way begins with."""

    version: Committed
    snapshot: Snapshot
    whole_shards: bool
    """Read no shard in part, though a group needs only some of it: what is signed rests on sha256 alone. SIG-7"""


class Replay:
    """The bits of consecutive tensors, at one version after the other, with all checks for some of the tensors. FOL-6

    Holds these tensors, and while a step is applied, what it changes in them; ranges are fetched ahead.
    """

    def __init__(self, transfer: Transfer, table: TensorTable, tensors: Sequence[Tensor], deadline: Deadline) -> None:
        self.tensors = tensors
        self.fetched = 0
        """Bytes of shards and parts."""
        self.digest = 0
        """State digest of these tensors as they were in the snapshot."""
        self._transfer = transfer
        self._table = table
        self._deadline = deadline
        self._target = ArraysTarget()

    def bits(self, tensor: Tensor) -> Bits:
        """Flat bits of a tensor as it is now; written to by the next step."""
        return self._target.bits(tensor).flat

    def begin(self, begin: Begin) -> None:
        """Load the tensors from a snapshot. SNP-5

        Raises:
            StepError: it is no good.
        """
        self._target.begin_snapshot(self._table, self.tensors)
        with blaming(None):
            loaded = load_snapshot(
                self._transfer,
                begin.snapshot,
                self._table,
                self.tensors,
                self._target,
                self._deadline,
                state_digest=int(begin.version.record.state_digest, 16),
                whole_shards=begin.whole_shards,
            )
        self.digest = loaded.digest
        self.fetched += loaded.bytes

    def take(self, steps: Sequence[Step]) -> Iterator[dict[int, Undo]]:
        """Apply one step after the other, and tell after each what it has changed, by ordinal.

        Raises:
            StepError: a step is no good; the bits are of no use any more.
        """
        first, last = self.tensors[0].ordinal, self.tensors[-1].ordinal
        wanted = [
            [
                (part, batch)
                for part in step.delta.parts
                for batch in part.batches
                if batch.first_tensor <= last and batch.last_tensor >= first
            ]
            for step in steps
        ]
        # One sequence of requests for all steps: a small delta is not worth waiting for an answer.
        requests = (RangeRequest(part.key, batch.offset, batch.bytes) for each in wanted for part, batch in each)
        fetched = self._transfer.ranges(requests, deadline=self._deadline)
        for step, batches in zip(steps, wanted, strict=True):
            with blaming(step.span):
                changes = self._stage(step, batches, fetched)
            yield self._apply(changes)

    def _stage(
        self, step: Step, batches: Sequence[tuple[Part, Batch]], fetched: Iterator[bytes]
    ) -> dict[int, list[Change]]:
        changes: dict[int, list[Change]] = {}
        ours = np.zeros(len(self._table.tensors), np.bool_)
        ours[self.tensors[0].ordinal : self.tensors[-1].ordinal + 1] = True
        for part, batch in batches:
            limits = self._transfer.limits
            rows = read_batch(next(fetched), part, batch, self._table, limits=limits, wanted=ours)
            for change in stage_rows(rows, self._table, self._target.bits, step.totals):
                changes.setdefault(change.tensor.ordinal, []).append(change)
            self.fetched += batch.bytes
        check_disjoint(change for group in changes.values() for change in group)
        return changes

    def _apply(self, changes: dict[int, list[Change]]) -> dict[int, Undo]:
        undos = {}
        for ordinal, group in changes.items():
            tensor = self._table.tensors[ordinal]
            undos[ordinal] = undo_of(tensor, group)
            for change in group:
                self._target.bits(tensor).scatter(change.where, change.new)
        return undos
