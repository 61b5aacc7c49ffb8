"""Taking one step of a way: a delta or a snapshot, fetched, verified, applied (SPEC.md section 11.6)."""

from __future__ import annotations

import bisect
import os
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from deltawire.consumer.loading import check_room, load_snapshot
from deltawire.consumer.small_rows import stage_rows
from deltawire.consumer.staging import Totals, add_totals, check_disjoint, check_looks, check_totals
from deltawire.consumer.timings import Clock
from deltawire.deadline import Deadline
from deltawire.errors import MalformedRowError, StateMismatchError, WrongBaseError
from deltawire.format.records import Delta, Snapshot
from deltawire.format.tensors import Tensor, TensorTable
from deltawire.parts.reader import read_batch
from deltawire.parts.rows import Row
from deltawire.reading.stream import Committed
from deltawire.reading.transfer import RangeRequest, Transfer
from deltawire.targets.base import Change, Held, Target, TensorBits
from deltawire.targets.digests import digest_held

T = TypeVar("T")

_MASK = (1 << 64) - 1
_DECODERS = min(8, os.cpu_count() or 1)
"""Threads that decode the rows of a delta."""
_GROUP = 1 << 22
"""Elements of the boxes that one of them decodes at a time."""


@dataclass(frozen=True, slots=True)
class Staged:
    """What a delta makes of some tensors, verified, with nothing written yet."""

    changes: list[Change]
    totals: Totals
    """Of the rows of these tensors."""
    bytes: int
    """Fetched for them."""

    def digest_from(self, before: int) -> int:
        """Digest of these tensors with the changes applied, from what it is without. DIG-3"""
        return (before + self.totals.after - self.totals.before) & _MASK


def stage_delta(
    transfer: Transfer,
    delta: Delta,
    table: TensorTable,
    selected: Sequence[Tensor],
    bits_of: Callable[[Tensor], TensorBits],
    deadline: Deadline,
    clock: Clock,
) -> Staged:
    """Fetch, decode and verify the rows that a delta has for some tensors, against the bits held of them. FOL-5

    Args:
        transfer: where the parts are.
        delta: a version's or a span's.
        table: its tensor table.
        selected: the tensors wanted, in table order. If they are all, the sums of the delta are checked too (FOL-6).
        bits_of: the bits that a tensor has before the delta.
        deadline: when to give up.
        clock: counts the time.

    Raises:
        WrongBaseError: the bits held are not those that the delta was made from.
        IntegrityError, FormatError, UnsupportedCodecError: the delta is not what its record says.
    """
    ordinals = [tensor.ordinal for tensor in selected]
    every = len(ordinals) == len(table.tensors)
    wanted = np.zeros(len(table.tensors), np.bool_)
    wanted[ordinals] = True
    batches = [
        (part, batch)
        for part in delta.parts
        for batch in part.batches
        if every or _any_between(ordinals, batch.first_tensor, batch.last_tensor)
    ]

    def stage(rows: Sequence[Row]) -> tuple[list[Change], Totals]:
        sums = Totals()
        return list(stage_rows(rows, table, bits_of, sums)), sums

    def groups() -> Iterator[list[Row]]:
        looks = Totals()
        requests = (RangeRequest(part.key, batch.offset, batch.bytes) for part, batch in batches)
        started = time.perf_counter()
        for (part, batch), data in zip(batches, transfer.ranges(requests, deadline=deadline), strict=True):
            started = clock.add("fetch", started)
            rows = read_batch(data, part, batch, table, limits=transfer.limits, wanted=wanted)
            if "classes" in part.streams:
                for row in rows:  # before any of them is read, on whichever thread. RNK-5
                    check_looks(row, table.tensors[row.tensor], looks)
            started = clock.add("decode", started)
            yield from _grouped(rows)
            started = time.perf_counter()

    def concurrent(rows: Sequence[Row]) -> bool:
        return all(bits_of(table.tensors[row.tensor]).concurrent for row in rows)

    totals = Totals()
    changes: list[Change] = []
    with closing(_in_order(stage, groups(), concurrent, clock)) as found:
        for staged, sums in found:
            started = time.perf_counter()
            changes += staged
            add_totals(totals, sums, table)
            clock.add("decode", started)
    started = time.perf_counter()
    check_disjoint(changes)
    if every:
        check_totals(totals, delta)
    clock.add("decode", started)
    return Staged(changes, totals, sum(batch.bytes for _, batch in batches))


def _grouped(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Rows in groups that are worth a thread's while."""
    group: list[Row] = []
    elements = 0
    for row in rows:
        group.append(row)
        elements += row.box.elements
        if elements >= _GROUP:
            yield group
            group, elements = [], 0
    if group:
        yield group


def _in_order(
    stage: Callable[[list[Row]], T],
    groups: Iterator[list[Row]],
    concurrent: Callable[[list[Row]], bool],
    clock: Clock,
) -> Generator[T]:
    """Stage groups of rows on a few threads, as kernels leave the interpreter free, while the next batch is fetched.

    What is staged waits for its turn; only as many groups as there are threads are ahead of the one awaited.

    Args:
        stage: does it.
        groups: are fetched as they are asked for.
        concurrent: whether a group may be staged by another thread than the caller's.
        clock: counts the time.
    """
    pending: deque[Future[T]] = deque()

    def next_staged() -> T:
        started = time.perf_counter()
        found = pending.popleft().result()
        clock.add("decode", started)
        return found

    with ThreadPoolExecutor(_DECODERS, thread_name_prefix="deltawire-decode") as pool:
        try:
            for group in groups:
                if concurrent(group):
                    pending.append(pool.submit(stage, group))
                    if len(pending) > _DECODERS:
                        yield next_staged()
                    continue
                while pending:
                    yield next_staged()
                started = time.perf_counter()
                found = stage(group)
                clock.add("decode", started)
                yield found
            while pending:
                yield next_staged()
        finally:  # and leaving the pool waits: nothing reads the target behind its owner's back
            for future in pending:
                future.cancel()


def take_delta(
    transfer: Transfer,
    target: Target,
    delta: Delta,
    version: Committed,
    table: TensorTable,
    held: Held,
    deadline: Deadline,
    clock: Clock,
) -> Staged:
    """Make ``version`` of what a target holds, by a delta, all or nothing. FOL-5, APL-1

    Raises:
        WrongBaseError, IntegrityError, FormatError, UnsupportedCodecError: as ``stage_delta``; nothing was written.
        StateMismatchError: it would not be that version; nothing was written.
    """
    try:
        staged = stage_delta(transfer, delta, table, held.tensors, target.bits, deadline, clock)
    except MalformedRowError:
        # Rows that look at the whole box cannot be decoded against another base; it is the target that is wrong. RNK-6
        if any("classes" in part.streams for part in delta.parts) and digest_held(target, held) != held.digest:
            raise WrongBaseError("what is held is not what the delta was made from") from None
        raise
    started = time.perf_counter()
    digest = staged.digest_from(held.digest)
    if len(held.tensors) == len(table.tensors) and digest != int(version.record.state_digest, 16):
        raise StateMismatchError(f"version {version.record.version} would not have its state digest")  # DIG-5
    target.apply(staged.changes, Held(version, table, held.tensors, digest))
    clock.add("apply", started)
    return staged


def take_snapshot(
    transfer: Transfer,
    target: Target,
    snapshot: Snapshot,
    version: Committed,
    table: TensorTable,
    selected: Sequence[Tensor],
    deadline: Deadline,
    clock: Clock,
    *,
    whole_shards: bool = False,
) -> int:
    """Load ``version`` into a target in place of whatever it holds, all or nothing; the bytes fetched. SNP-5, APL-4

    With ``whole_shards`` no shard is read in part. SIG-7

    Raises:
        IntegrityError, FormatError: the snapshot is not what its record says; what is held stays.
        TargetMismatchError: the target's tensors are not those of the version.
    """
    started = time.perf_counter()
    check_room(transfer, snapshot, table, selected, deadline)
    try:
        target.begin_snapshot(table, selected)
        expected = int(version.record.state_digest, 16)
        loaded = load_snapshot(
            transfer,
            snapshot,
            table,
            selected,
            target,
            deadline,
            state_digest=expected,
            whole_shards=whole_shards,
        )
    except BaseException:
        target.abort_snapshot()
        raise
    started = clock.add("fetch", started)
    target.end_snapshot(Held(version, table, tuple(selected), loaded.digest))
    clock.add("apply", started)
    return loaded.bytes


def _any_between(ordinals: list[int], first: int, last: int) -> bool:
    place = bisect.bisect_left(ordinals, first)
    return place < len(ordinals) and ordinals[place] <= last
