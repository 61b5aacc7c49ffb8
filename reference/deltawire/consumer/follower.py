"""Following a stream: the newest version, verified, applied all or nothing (SPEC.md sections 11.4 to 11.7)."""

from __future__ import annotations

import bisect
import fnmatch
import time
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field
from os import PathLike
from types import TracebackType
from typing import Self

from deltawire.consumer.loading import check_room, load_snapshot
from deltawire.consumer.pin import DEFAULT_TTL, PinTerms
from deltawire.consumer.pinning import Pinning
from deltawire.consumer.staging import Totals, check_disjoint, check_totals, stage_row
from deltawire.deadline import Deadline
from deltawire.errors import (
    InvalidArgumentError,
    MissingObjectError,
    PathLostError,
    StateMismatchError,
    TargetMismatchError,
    VersionNotFoundError,
    WrongBaseError,
)
from deltawire.format.keys import MAX_VERSION
from deltawire.format.records import Delta, VersionRecord
from deltawire.format.tensors import Tensor, TensorTable
from deltawire.holders import this_process
from deltawire.limits import DEFAULT_LIMITS, Limits
from deltawire.parts.reader import read_batch
from deltawire.reading.stream import Step, StreamReader
from deltawire.reading.transfer import RangeRequest, Transfer
from deltawire.store.base import Store
from deltawire.targets.arrays import Array, ArraysTarget
from deltawire.targets.base import Change, Held, Target
from deltawire.targets.digests import state_digest_of
from deltawire.targets.opening import TargetLike, as_target

_MASK = (1 << 64) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowTimings:
    """Seconds spent in each phase of an update, under the names of SPEC.md section 12."""

    resolve_seconds: float = 0.0
    """Finding the newest version, reading and checking records, planning."""
    fetch_seconds: float = 0.0
    """Waiting for parts and shards."""
    decode_seconds: float = 0.0
    """Decompressing, decoding and verifying."""
    apply_seconds: float = 0.0
    """Writing into the target: the only time during which it must not be used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """The target has become another version."""

    version: int
    previous: int | None
    """Version held before; None if there was none."""
    record: VersionRecord = field(repr=False)
    steps: tuple[str, ...]
    """What was taken on the way: ``anchor``, ``snapshot`` or ``delta`` each."""
    bytes_fetched: int
    changed_elements: int
    """Elements rewritten on the way: those that deltas changed, and all of a snapshot."""
    state_digest: str
    timings: FollowTimings


@dataclass(frozen=True, slots=True)
class _Taken:
    """A step that is done, and what it cost."""

    step: Step
    bytes_fetched: int
    changed_elements: int


@dataclass
class _Clock:
    seconds: dict[str, float] = field(default_factory=dict)

    def add(self, phase: str, started: float) -> float:
        now = time.perf_counter()
        self.seconds[phase] = self.seconds.get(phase, 0.0) + now - started
        return now

    def timings(self) -> FollowTimings:
        return FollowTimings(**{f"{phase}_seconds": value for phase, value in self.seconds.items()})


class Follower:
    """Keeps a target at the newest version of a stream.

    Args:
        store: URL or store of the stream.
        target: a dict of NumPy arrays or torch tensors, a torch module, the path of a directory, or a ``Target``;
            None for arrays of the follower's own, shown as ``follower.arrays``.
        tensors: names or glob patterns of the tensors wanted; None for all. A name stands for its tensor alone,
            even where it is a pattern too. Only their bytes are fetched, up to neighbours in the same batch.
        limits: what to refuse.
        workers: concurrent requests.
        pin: keep what is held, and what comes after it, from being collected while the follower is open, if the store
            lets it.
        pin_ttl: seconds without a sign of life after which others may take the follower for gone.
        holder: what others are told of who has pinned; None says the host and the process.
    """

    def __init__(
        self,
        store: str | PathLike[str] | Store,
        target: TargetLike | None = None,
        *,
        tensors: Sequence[str] | None = None,
        limits: Limits = DEFAULT_LIMITS,
        workers: int = 8,
        pin: bool = True,
        pin_ttl: float = DEFAULT_TTL,
        holder: str | None = None,
    ) -> None:
        from deltawire.store import open_store  # noqa: PLC0415 - stores are imported when one is opened

        if isinstance(tensors, str):
            raise InvalidArgumentError(f"tensors is a list of patterns, such as [{tensors!r}], not one string")
        terms = PinTerms(ttl=pin_ttl, holder=holder or this_process()) if pin else None
        opened = store if isinstance(store, Store) else open_store(store)
        self._opened = opened if opened is not store else None
        self._transfer = Transfer(opened, limits=limits, workers=workers)
        self._reader = StreamReader(self._transfer)
        self._pinning = Pinning(self._reader, terms)
        self._patterns = None if tensors is None else tuple(tensors)
        self._target = as_target(target)
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release threads, files and locks; the target keeps its state."""
        self._closed = True
        self._pinning.close()
        self._target.close()
        self._transfer.close()
        if self._opened is not None:
            self._opened.close()

    @property
    def version(self) -> int | None:
        """Version the target holds; None before the first."""
        return None if self._target.held is None else self._target.held.committed.record.version

    @property
    def record(self) -> VersionRecord | None:
        """Record of the version held."""
        return None if self._target.held is None else self._target.held.committed.record

    @property
    def table(self) -> TensorTable | None:
        """Tensor table of the version held."""
        return None if self._target.held is None else self._target.held.table

    @property
    def arrays(self) -> Mapping[str, Array]:
        """The state as NumPy arrays by name, if it is kept in arrays; bit patterns where NumPy has no such type."""
        if not isinstance(self._target, ArraysTarget):
            raise InvalidArgumentError("the state is not kept in arrays")
        return self._target.arrays

    @property
    def pin_error(self) -> Exception | None:
        """Why what is needed here is not pinned, or may not be any more; following goes on. PIN-7"""
        return self._pinning.error

    @property
    def target(self) -> Target:
        """Where the state is."""
        return self._target

    def poll(self, *, to: int | None = None, timeout: float | None = 600.0) -> Update | None:
        """Become the newest version, or ``to``; None if that is held already. Never goes backwards. FOL-1

        Raises:
            DeadlineExceededError: ``timeout`` seconds passed; the target holds what it held, or a version on the way.
            IntegrityError, FormatError: something in the store is not right; same.
            PathLostError: nothing leads there.
        """
        if to is not None and not 0 <= to <= MAX_VERSION:
            raise VersionNotFoundError(f"there is no version {to}")
        deadline = Deadline.after(timeout)
        clock = _Clock()
        started = time.perf_counter()
        held = self._held_here(deadline)
        previous = None if held is None else held.committed.record.version
        goal = self._reader.latest(deadline, known=previous) if to is None else to
        if previous is not None and goal <= previous:
            if to is not None and to < previous:
                raise InvalidArgumentError(f"the target holds version {previous} and never goes back to {to}")
            return None
        steps = self._reader.path(goal, None if held is None else held.committed, deadline)
        if previous is None:
            self._pinning.need(steps[0].edge.target, deadline=deadline)  # PIN-3
        clock.add("resolve", started)
        taken: list[_Taken] = []
        try:
            self._take_all(steps, taken, clock, deadline)
        except MissingObjectError as missing:
            self._take_all(self._detour(goal, missing, deadline), taken, clock, deadline)
        record = taken[-1].step.version.record
        return Update(
            version=goal,
            previous=previous,
            record=record,
            steps=tuple(done.step.edge.kind for done in taken),
            bytes_fetched=sum(done.bytes_fetched for done in taken),
            changed_elements=sum(done.changed_elements for done in taken),
            state_digest=record.state_digest,
            timings=clock.timings(),
        )

    def follow(
        self,
        *,
        until: int | None = None,
        every_version: bool = False,
        interval: float = 0.2,
        timeout: float | None = None,
    ) -> Iterator[Update]:
        """Yield updates as they come, for ever or until a version is held.

        Args:
            until: stop at this version, and never go past it.
            every_version: stop at each version that is still there instead of going straight to the newest.
            interval: seconds between looks at the store while there is nothing new.
            timeout: seconds to wait for the next update.

        Raises:
            DeadlineExceededError: no update came in time.
        """
        while until is None or self.version is None or self.version < until:
            deadline = Deadline.after(timeout)
            update = self._next(deadline, until, every_version=every_version)
            while update is None:
                left = deadline.remaining()
                time.sleep(interval if left is None else min(interval, left))
                update = self._next(deadline, until, every_version=every_version)
            yield update

    def verify(self) -> str:
        """Compute the digest of the whole state held, element by element, and compare it. DIG-6

        Returns:
            The digest, 16 hex digits; of the selected tensors only, if tensors were selected.

        Raises:
            StateMismatchError: the target is not the version it should be.
            VersionNotFoundError: it holds none.
        """
        held = self._target.held
        if held is None:
            raise VersionNotFoundError("the target holds no version yet")
        digest = sum(state_digest_of(self._target.bits(tensor), tensor) for tensor in held.tensors) & _MASK
        if digest != held.digest:
            version = held.committed.record.version
            raise StateMismatchError(
                f"the target is not version {version}: {digest:016x}, not {held.digest:016x}",
                hint="something else wrote to the target; follow into a new one",
            )
        return f"{digest:016x}"

    def _next(self, deadline: Deadline, until: int | None, *, every_version: bool) -> Update | None:
        try:
            target = self._held_here(deadline)
            held = None if target is None else target.committed.record.version
            newest = self._reader.latest(deadline, known=held)
            if newest == held:
                return None
            goal = newest if until is None else min(newest, until)
            if every_version and held is not None:
                with suppress(VersionNotFoundError, PathLostError, MissingObjectError):  # collected: to a later one
                    return self.poll(to=held + 1, timeout=deadline.remaining())
            return self.poll(to=goal, timeout=deadline.remaining())
        except VersionNotFoundError:
            if self.version is None:
                return None  # the stream is there, its first version not yet
            raise

    def _held_here(self, deadline: Deadline) -> Held | None:
        if self._closed:
            raise InvalidArgumentError("the follower is closed")
        held = self._target.held
        stream = self._reader.stream(deadline)
        if held is not None and held.committed.record.stream_id != stream.stream_id:
            raise WrongBaseError(
                f"the target holds a version of another stream, {held.committed.record.stream_id}; this is"
                f" {stream.stream_id}",
                hint="follow this stream into another target",
            )
        if held is not None:
            self._pinning.need(held.committed.record.version, deadline=deadline)  # PIN-3
        return held

    def _selected(self, table: TensorTable) -> list[Tensor]:
        if self._patterns is None:
            return list(table.tensors)
        every = table.by_name.keys() | table.aliases.keys()
        names = {table.aliases.get(name, name) for pattern in self._patterns for name in _matching(pattern, every)}
        return [tensor for tensor in table.tensors if tensor.name in names]

    def _take_all(self, steps: Sequence[Step], taken: list[_Taken], clock: _Clock, deadline: Deadline) -> None:
        for step in steps:
            taken.append(self._take(step, clock, deadline))
            self._pinning.hold(step.edge.target)

    def _detour(self, goal: int, missing: MissingObjectError, deadline: Deadline) -> list[Step]:
        """Parts on the way are gone, as while they are collected: over a later snapshot, if there is one. PLN-3"""
        held = self._target.held
        if held is None:
            raise missing
        try:
            return self._reader.path(goal, held.committed, deadline, anew=True)
        except PathLostError:
            raise missing from None

    def _take(self, step: Step, clock: _Clock, deadline: Deadline) -> _Taken:
        table = self._reader.table(step.version, deadline)
        selected = self._selected(table)
        record = step.version.record
        held = self._target.held
        if step.edge.kind == "delta" and held is not None and list(held.tensors) != selected:
            raise TargetMismatchError("the target holds another selection of tensors")
        if self._target.wants_files:
            self._target.stage_files(self._new_files(record, deadline))
        if step.edge.kind == "delta":
            assert record.delta is not None  # noqa: S101 - a delta edge comes from such a record
            return self._take_delta(step, record.delta, table, selected, clock, deadline)
        snapshot = step.anchor.snapshot if step.anchor is not None else record.snapshot
        assert snapshot is not None  # noqa: S101 - a snapshot edge comes from such a record
        started = time.perf_counter()
        check_room(self._transfer, snapshot, table, selected, deadline)
        try:
            self._target.begin_snapshot(table, selected)
            expected = int(record.state_digest, 16)
            loaded = load_snapshot(
                self._transfer, snapshot, table, selected, self._target, deadline, state_digest=expected
            )
        except BaseException:
            self._target.abort_snapshot()
            raise
        started = clock.add("fetch", started)
        self._target.end_snapshot(Held(step.version, table, tuple(selected), loaded.digest))
        clock.add("apply", started)
        return _Taken(step, loaded.bytes, sum(tensor.elements for tensor in selected))

    def _new_files(self, record: VersionRecord, deadline: Deadline) -> dict[str, bytes]:
        """Auxiliary files of a version that the target does not have yet."""
        held = self._target.held
        before = {(file.name, file.digest) for file in held.committed.record.files} if held is not None else set()
        limit = self._transfer.limits.file_bytes
        return {
            file.name: self._transfer.read_object(file, max_bytes=limit, deadline=deadline)
            for file in record.files
            if (file.name, file.digest) not in before
        }

    def _take_delta(
        self, step: Step, delta: Delta, table: TensorTable, selected: list[Tensor], clock: _Clock, deadline: Deadline
    ) -> _Taken:
        held = self._target.held
        assert held is not None  # noqa: S101 - the plan starts from it
        wanted = {tensor.ordinal for tensor in selected}
        ordinals = sorted(wanted)
        batches = [
            (part, batch)
            for part in delta.parts
            for batch in part.batches
            if self._patterns is None or _any_between(ordinals, batch.first_tensor, batch.last_tensor)
        ]
        requests = (RangeRequest(part.key, batch.offset, batch.bytes) for part, batch in batches)
        totals = Totals()
        changes: list[Change] = []
        started = time.perf_counter()
        for (part, batch), data in zip(batches, self._transfer.ranges(requests, deadline=deadline), strict=True):
            started = clock.add("fetch", started)
            rows = read_batch(data, part, batch, table, limits=self._transfer.limits)
            for row in rows:
                if row.tensor in wanted:
                    tensor = table.tensors[row.tensor]
                    changes.append(stage_row(row, tensor, self._target.bits(tensor), totals))
            started = clock.add("decode", started)
        check_disjoint(changes)
        if self._patterns is None:
            check_totals(totals, delta)
        digest = (held.digest + totals.after - totals.before) & _MASK
        if self._patterns is None and digest != int(step.version.record.state_digest, 16):
            raise StateMismatchError(f"version {step.version.record.version} would not have its state digest")  # DIG-5
        started = clock.add("decode", started)
        self._target.apply(changes, Held(step.version, table, tuple(selected), digest))
        clock.add("apply", started)
        return _Taken(step, sum(batch.bytes for _, batch in batches), totals.changed)


def _matching(pattern: str, names: AbstractSet[str]) -> list[str]:
    if pattern in names:  # of many names, each is found without a look at all others
        return [pattern]
    found = [name for name in names if fnmatch.fnmatchcase(name, pattern)]
    if not found:
        raise InvalidArgumentError(f"no tensor has a name like {pattern!r}")
    return found


def _any_between(ordinals: list[int], first: int, last: int) -> bool:

    place = bisect.bisect_left(ordinals, first)
    return place < len(ordinals) and ordinals[place] <= last
