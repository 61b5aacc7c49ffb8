"""Following a stream: the newest version, verified, applied all or nothing (SPEC.md sections 11.4 to 11.7)."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Self

from deltawire.consumer.pin import DEFAULT_TTL, PinTerms
from deltawire.consumer.pinning import Pinning
from deltawire.consumer.selection import select
from deltawire.consumer.steps import take_delta, take_snapshot
from deltawire.consumer.timings import Clock, FollowTimings
from deltawire.deadline import Deadline
from deltawire.errors import (
    InvalidArgumentError,
    PathLostError,
    StateMismatchError,
    TargetMismatchError,
    VersionNotFoundError,
    WrongBaseError,
)
from deltawire.format.keys import MAX_VERSION
from deltawire.format.records import VersionRecord
from deltawire.format.tensors import TensorTable
from deltawire.holders import this_process
from deltawire.limits import DEFAULT_LIMITS, Limits
from deltawire.reading.stream import StreamReader
from deltawire.reading.transfer import Transfer
from deltawire.reading.trust import Trust, as_trust
from deltawire.reading.ways import NO_GOOD, NO_TABLE, Step, WayFinder
from deltawire.store.base import Store
from deltawire.targets.arrays import Array, ArraysTarget
from deltawire.targets.base import Held, Target
from deltawire.targets.digests import digest_held
from deltawire.targets.opening import TargetLike, as_target

if TYPE_CHECKING:
    from deltawire.ed25519 import PublicKeyLike

_LATE = 1 / 20
"""How much of the time since the last update may pass between two looks for the next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """The target has become another version."""

    version: int
    previous: int | None
    """Version held before; None if there was none."""
    record: VersionRecord = field(repr=False)
    steps: tuple[str, ...]
    """What was taken on the way: ``anchor``, ``snapshot``, ``span`` or ``delta`` each."""
    snapshot: int | None
    """Version of the last anchor or snapshot among them; None if it went on from what was held."""
    replanned: tuple[str, ...] = ()
    """What could not be used, and what was taken instead: one sentence each. PLN-5"""
    bytes_fetched: int
    delta_bytes: int
    """Of these, bytes of deltas and spans that were applied after the last snapshot."""
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


class Follower:
    """Keeps a target at the newest version of a stream.

    Args:
        store: URL or store of the stream.
        target: a dict of NumPy arrays or torch tensors, a torch module, the path of a directory, or a ``Target``;
            None for arrays of the follower's own, shown as ``follower.arrays``.
        tensors: names or glob patterns of the tensors wanted; None for all. A name stands for its tensor alone,
            even where it is a pattern too. Only their bytes are fetched, up to neighbours in the same batch (with
            ``trust``, in the same shard too).
        trust: public keys (``ed25519:<hex>``, PEM or the path of a PEM file). The stream must be signed by one of them,
            and its records by the keys that it lists; None believes whoever can write to the store. SIG-5, SIG-6
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
        trust: Sequence[PublicKeyLike] | Trust | None = None,
        limits: Limits = DEFAULT_LIMITS,
        workers: int = 8,
        pin: bool = True,
        pin_ttl: float = DEFAULT_TTL,
        holder: str | None = None,
    ) -> None:
        from deltawire.store import open_store  # noqa: PLC0415 - stores are imported when one is opened

        if isinstance(tensors, str):
            raise InvalidArgumentError(f"tensors is a list of patterns, such as [{tensors!r}], not one string")
        trusted = as_trust(trust)
        terms = PinTerms(ttl=pin_ttl, holder=holder or this_process()) if pin else None
        opened = store if isinstance(store, Store) else open_store(store)
        self._opened = opened if opened is not store else None
        self._transfer = Transfer(opened, limits=limits, workers=workers)
        self._reader = StreamReader(self._transfer, trusted)
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
            IntegrityError, FormatError: something in the store is not right, or not signed as it must be; same.
            PathLostError: nothing leads there.
        """
        if to is not None and not 0 <= to <= MAX_VERSION:
            raise VersionNotFoundError(f"there is no version {to}")
        deadline = Deadline.after(timeout)
        clock = Clock()
        started = time.perf_counter()
        held = self._held_here(deadline)
        previous = None if held is None else held.committed.record.version
        goal = self._latest(previous, deadline) if to is None else to
        clock.add("resolve", started)
        if previous is not None and goal <= previous:
            if to is not None and to < previous:
                raise InvalidArgumentError(f"the target holds version {previous} and never goes back to {to}")
            return None
        return self._reach(goal, MAX_VERSION if to is None else to, deadline, clock)

    def follow(
        self,
        *,
        until: int | None = None,
        every_version: bool = False,
        interval: float | None = None,
        timeout: float | None = None,
    ) -> Iterator[Update]:
        """Yield updates as they come, for ever or until a version is held.

        Args:
            until: stop at this version, and never go past it.
            every_version: stop at each version that is still there instead of going straight to the newest.
            interval: most seconds between looks at the store while there is nothing new; None for what suits it.
                Soon after an update looks are closer, down to an eighth of it where the store bears that, so that a
                version is noticed late by no more than a small part of the time that it took to make.
            timeout: seconds to wait for the next update.

        Raises:
            DeadlineExceededError: no update came in time.
        """
        store = self._transfer.store
        interval = store.poll_seconds if interval is None else interval
        closest = max(interval / 8, store.closest_poll_seconds)
        while until is None or self.version is None or self.version < until:
            deadline = Deadline.after(timeout)
            waiting = time.monotonic()
            update = self._next(deadline, until, every_version=every_version)
            while update is None:
                left = deadline.remaining()
                pause = min(interval, max(closest, (time.monotonic() - waiting) * _LATE))
                time.sleep(pause if left is None else min(pause, left))
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
        digest = digest_held(self._target, held)
        if digest != held.digest:
            version = held.committed.record.version
            raise StateMismatchError(
                f"the target is not version {version}: {digest:016x}, not {held.digest:016x}",
                hint="something else wrote to the target; follow into a new one",
            )
        return f"{digest:016x}"

    def _next(self, deadline: Deadline, until: int | None, *, every_version: bool) -> Update | None:
        try:
            held = self._held_here(deadline)
            previous = None if held is None else held.committed.record.version
            newest = self._latest(previous, deadline)
            if newest == previous:
                return None
            most = MAX_VERSION if until is None else until
            if every_version and previous is not None:
                return self._reach_next(previous, most, deadline)
            return self._reach(min(newest, most), most, deadline, Clock())
        except VersionNotFoundError:
            if self.version is None:
                return None  # the stream is there, its first version not yet
            raise

    def _latest(self, held: int | None, deadline: Deadline) -> int:
        kept = held is not None and self._pinning.spares_boundary(held + 1)
        return self._reader.latest(deadline, known=held, kept=kept)

    def _reach_next(self, previous: int, most: int, deadline: Deadline) -> Update:
        """Become the next version that is retained, up to ``most``; the newest if nothing leads to that."""
        passed: tuple[str, ...] = ()
        stop = previous + 1
        while True:
            try:
                return self._reach(stop, stop, deadline, Clock(), replanned=passed)
            except (VersionNotFoundError, PathLostError, *NO_GOOD) as error:
                passed += (f"version {stop} was passed over ({error.code}: {error})",)
                after = self._reader.retention(deadline).after(previous)
                if stop < after <= most:  # what lies between is not part of the stream
                    stop = after
                    continue
                goal = min(self._reader.latest(deadline, known=stop), most)
                if goal <= stop:
                    raise
            return self._reach(goal, most, deadline, Clock(), replanned=passed)

    def _reach(
        self, goal: int, most: int, deadline: Deadline, clock: Clock, *, replanned: tuple[str, ...] = ()
    ) -> Update:
        """Become a version; if it is collected meanwhile, a later one, up to ``most``."""
        previous = self.version
        finder = WayFinder(self._reader, deadline, self._pinning)
        taken: list[_Taken] = []
        while (held := self.record) is None or held.version != goal:
            started = time.perf_counter()
            try:
                steps = finder.find(goal, None if self._target.held is None else self._target.held.committed)
            except VersionNotFoundError:
                later = min(self._reader.latest(deadline, known=goal), most) if goal < most else goal
                if later <= goal:
                    raise
                goal = later
                continue
            if goal < min(finder.boundary, most):  # kept, and what follows was collected: not the newest. LAT-5
                goal = min(self._reader.latest(deadline, known=goal), most)
                continue
            clock.add("resolve", started)
            for step in steps:
                done = self._take(step, goal, finder, deadline, clock)
                if done is None:
                    break
                taken.append(done)
                self._pinning.hold(step.edge.target)
        snapshots = [number for number, done in enumerate(taken) if done.step.snapshot is not None]
        last = taken[-1].step.version.record
        return Update(
            version=goal,
            previous=previous,
            record=last,
            steps=tuple(done.step.edge.kind for done in taken),
            snapshot=taken[snapshots[-1]].step.edge.target if snapshots else None,
            replanned=(*replanned, *finder.notes),
            bytes_fetched=sum(done.bytes_fetched for done in taken),
            delta_bytes=sum(done.bytes_fetched for done in taken[snapshots[-1] + 1 if snapshots else 0 :]),
            changed_elements=sum(done.changed_elements for done in taken),
            state_digest=last.state_digest,
            timings=clock.timings(),
        )

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
            self._reader.recognise(held.committed, deadline)
            self._pinning.need(held.committed.record.version, deadline=deadline)  # PIN-3
        return held

    def _take(self, step: Step, goal: int, finder: WayFinder, deadline: Deadline, clock: Clock) -> _Taken | None:
        """Take a step; None if what is stored for it is no good, which the finder then knows. PLN-5"""
        try:
            table = self._reader.table(step.version, deadline)
        except (*NO_GOOD, *NO_TABLE) as error:
            finder.pass_over_version(goal, error)  # whose table it is too: the way begins after the last rebase
            return None
        selected = select(table, self._patterns)
        held = self._target.held
        if step.delta is not None and held is not None and list(held.tensors) != selected:
            raise TargetMismatchError("the target holds another selection of tensors")
        if self._target.wants_files:
            try:
                files = self._new_files(step.version.record, deadline)
            except NO_GOOD as error:
                finder.pass_over_version(step.edge.target, error)
                return None
            self._target.stage_files(files)
        try:
            if step.delta is not None:
                assert held is not None  # noqa: S101 - the plan starts from it
                staged = take_delta(
                    self._transfer, self._target, step.delta, step.version, table, held, deadline, clock
                )
                return _Taken(step, staged.bytes, staged.totals.changed)
            assert step.snapshot is not None  # noqa: S101 - a step has one or the other
            loaded = take_snapshot(
                self._transfer,
                self._target,
                step.snapshot,
                step.version,
                table,
                selected,
                deadline,
                clock,
                whole_shards=self._reader.trust is not None,
            )
            return _Taken(step, loaded, sum(tensor.elements for tensor in selected))
        except NO_GOOD as error:
            finder.pass_over(step.edge.link, error)
            return None

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
