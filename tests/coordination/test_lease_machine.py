"""Several producers on one stream, in any order of steps, with lost answers, late writes, stalls and skewed clocks.

The steps are those of a publisher (SPEC.md sections 11.1 and 11.9) with nothing in its versions: acquire, read the
line, look at the lease, create, renew, release. Time is virtual.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from deltawire.deadline import Deadline
from deltawire.errors import (
    DeltawireError,
    FencedError,
    LeaseHeldError,
    ObjectExistsError,
    ObjectNotFoundError,
    OutcomeUnknownError,
    PreconditionFailedError,
    StoreError,
    StoreUnavailableError,
)
from deltawire.format import keys
from deltawire.format.records import LeaseRecord, StreamRecord
from deltawire.format.strict_json import sha256
from deltawire.limits import DEFAULT_LIMITS, MIB
from deltawire.producer.commit import Outcome, create_record
from deltawire.producer.envelope import envelope
from deltawire.producer.lease import LeaseTerms, WriterLease
from deltawire.reading.leases import decode_lease
from deltawire.store.base import Bytes, ObjectInfo, PutMode, Store, StoredObject
from deltawire.store.memory import MemoryStore

TTL = 6.0
STREAM = StreamRecord(**envelope(str(uuid.uuid4()), "stream", epoch=0, writer_features=()), writers="many")
FAULTS = ("before", "after", "late")
"""A write fails before it takes effect, or after; or its request is still on its way when its sender gives up."""


class Wire(Store):
    """One writer's way to the store."""

    def __init__(self, inner: MemoryStore) -> None:
        self.inner = inner
        self.url, self.guarantees = inner.url, inner.guarantees
        self.faults: list[str] = []
        self.late: list[tuple[str, bytes, PutMode]] = []

    def put(self, key: str, data: Bytes, *, mode: PutMode) -> str:
        fault = self.faults.pop() if self.faults else None
        if fault == "late":
            self.late.append((key, bytes(data), mode))
        if fault in {"before", "late"}:
            raise StoreUnavailableError(fault)
        token = self.inner.put(key, data, mode=mode)
        if fault == "after":
            raise StoreUnavailableError(fault)
        return token

    def deliver(self) -> None:
        key, data, mode = self.late.pop(0)
        with suppress(ObjectExistsError, PreconditionFailedError):
            self.inner.put(key, data, mode=mode)

    def get(self, key: str, *, max_bytes: int) -> StoredObject:
        return self.inner.get(key, max_bytes=max_bytes)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        raise NotImplementedError

    def head(self, key: str) -> ObjectInfo:
        raise NotImplementedError

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        raise NotImplementedError

    def put_stream(self, key: str, chunks: Iterable[Bytes]) -> int:
        raise NotImplementedError

    def delete(self, key: str) -> None:
        raise NotImplementedError


@dataclass
class Writer:
    """One producer; all but its wire is gone when it crashes."""

    wire: Wire
    rate: float
    offset: float
    lease: WriterLease | None = None
    line: list[bytes] | None = None
    """Records that it has read or written."""
    pending: bytes | None = None
    """A record that it has made up its mind to create."""
    reported: list[bytes] = field(default_factory=list)
    """Records that its caller was told are committed."""
    fenced_at: int | None = None
    """How many records it had reported when it was fenced."""

    def stop(self) -> None:
        self.lease = self.line = self.pending = None


INDEX = st.integers(0, 2)


class LeaseMachine(RuleBasedStateMachine):
    """Three writers; the model is what each of them was told."""

    @initialize(rates=st.just([1.0, 1.0, 1.0]) | st.lists(st.sampled_from([0.5, 1.0, 2.0]), min_size=3, max_size=3))
    def begin(self, rates: list[float]) -> None:
        self.now = 0.0
        self.store = MemoryStore(f"lease/{uuid.uuid4().hex}")
        self.writers = [Writer(Wire(self.store), rate, 1000.0 * rate) for rate in rates]
        self.polite = len(set(rates)) == 1
        """No clock runs faster than another, and nobody took over by force."""
        self.epochs: set[int] = set()
        self.leases: list[WriterLease] = []
        self.newest_epoch = -1

    # What writers do

    @rule(index=INDEX, take_over=st.sampled_from([False] * 9 + [True]), times=st.integers(1, 5))
    def go_on(self, index: int, take_over: bool, times: int) -> None:
        for _ in range(times):
            self._step(self.writers[index], take_over)

    def _step(self, writer: Writer, take_over: bool) -> None:
        """Whatever a publisher does next."""
        if writer.lease is None:
            self._begin_to_acquire(writer, take_over)
        elif writer.pending is not None:
            self._create(writer)
        elif writer.line is not None:
            self._decide_to_commit(writer)
        elif writer.lease.held:
            self._read_the_line(writer)
        else:
            self._look_at_the_lease(writer)

    def _begin_to_acquire(self, writer: Writer, take_over: bool) -> None:
        def clock() -> float:
            return writer.offset + writer.rate * self.now

        writer.fenced_at = None
        terms = LeaseTerms(ttl=TTL, take_over=take_over, holder=f"writer {self.writers.index(writer)}")
        writer.lease = WriterLease(writer.wire, STREAM, terms, limits=DEFAULT_LIMITS, clock=clock, sleep=self._sleep)

    def _sleep(self, seconds: float) -> None:
        self.now += seconds

    def _look_at_the_lease(self, writer: Writer) -> None:
        assert writer.lease is not None
        try:
            if writer.lease.attempt() is not None:
                return
        except LeaseHeldError:
            writer.stop()
            return
        except StoreError:
            return
        self._acquired(writer.lease)
        self.polite = self.polite and not writer.lease.terms.take_over
        if self.polite:
            # Nobody is taken for gone who would not ask first, before the next commit. LSE-6, LSE-10
            others = [other.lease for other in self.writers if other is not writer and other.lease is not None]
            assert all(not other.held or other.stale for other in others)

    def _acquired(self, lease: WriterLease) -> None:
        assert lease.epoch not in self.epochs, "two acquisitions have one epoch"
        self.epochs.add(lease.epoch)

    def _read_the_line(self, writer: Writer) -> None:
        assert writer.lease is not None
        line = self._line()
        before = writer.lease.epoch
        try:
            writer.lease.rise_above(json.loads(line[-1])["epoch"] if line else -1)
        except DeltawireError as error:
            self._failed(writer, error)
            return
        if writer.lease.epoch != before:
            self._acquired(writer.lease)
        writer.line = line

    def _decide_to_commit(self, writer: Writer) -> None:
        assert writer.lease is not None
        assert writer.line is not None
        try:
            if writer.lease.stale:
                writer.lease.renew()
            writer.lease.check()
        except StoreError:
            return
        except FencedError as error:
            self._failed(writer, error)
            return
        parent = sha256(writer.line[-1]) if writer.line else None
        record = {"epoch": writer.lease.epoch, "parent": parent, "by": id(writer.lease), "id": str(uuid.uuid4())}
        self.leases.append(writer.lease)  # kept, so that its id is not given to another
        writer.pending = json.dumps(record).encode()

    def _create(self, writer: Writer) -> None:
        assert writer.pending is not None
        assert writer.line is not None
        assert writer.lease is not None
        key = keys.version_key(len(writer.line))
        try:
            outcome = create_record(writer.wire, key, writer.pending, deadline=Deadline(None), sleep=self._sleep)
        except OutcomeUnknownError as error:
            self._failed(writer, error)
            return
        if outcome is Outcome.LOST:
            other = json.loads(self.store.get(key, max_bytes=MIB).data)["epoch"]
            assert other != writer.lease.epoch, "another record has our epoch"
            self._failed(writer, FencedError() if other > writer.lease.epoch else None)
            return
        assert writer.fenced_at is None, "a fenced writer published"
        writer.line.append(writer.pending)
        writer.reported.append(writer.pending)
        writer.pending = None

    @rule(index=INDEX)
    def renew(self, index: int) -> None:
        writer = self.writers[index]
        if writer.lease is None or not writer.lease.held:
            return
        try:
            writer.lease.renew()
        except StoreError:
            pass
        except FencedError as error:
            stored = self._stored_lease()
            assert stored is not None
            assert stored.epoch > writer.lease.epoch, "fenced by nobody"
            if writer.pending is None:  # else it is in the middle of a commit, and finds out after it
                self._failed(writer, error)

    @rule(index=INDEX)
    def release(self, index: int) -> None:
        if self.writers[index].pending is None:
            self._release(self.writers[index])

    @rule(index=INDEX)
    def crash(self, index: int) -> None:
        self.writers[index].stop()

    def _failed(self, writer: Writer, error: DeltawireError | None) -> None:
        if isinstance(error, FencedError):
            writer.fenced_at = len(writer.reported)
        self._release(writer)

    def _release(self, writer: Writer) -> None:
        if writer.lease is not None:
            with suppress(StoreError):
                writer.lease.release()
            writer.stop()

    # What happens to them

    @rule(seconds=st.sampled_from([0.5, 1.0, 2.0, TTL, 3 * TTL]))
    def pass_time(self, seconds: float) -> None:
        self.now += seconds

    @rule(index=INDEX, faults=st.lists(st.sampled_from(FAULTS), min_size=1, max_size=6))
    def plan_faults(self, index: int, faults: list[str]) -> None:
        self.writers[index].wire.faults = faults

    @rule(index=INDEX)
    def a_late_write_arrives(self, index: int) -> None:
        if self.writers[index].wire.late:
            self.writers[index].wire.deliver()

    @precondition(lambda self: all(writer.lease is None and not writer.wire.late for writer in self.writers))
    @rule()
    def an_operator_removes_the_lease(self) -> None:
        # While no producer runs, as LSE-2 allows; epochs of the lease begin again, those of the line must not.
        self.store.delete(keys.LEASE)
        self.newest_epoch = -1
        self.epochs = set()

    # What must hold

    def _line(self) -> list[bytes]:
        found: list[bytes] = []
        try:
            while True:
                found.append(self.store.get(keys.version_key(len(found)), max_bytes=MIB).data)
        except ObjectNotFoundError:
            return found

    def _stored_lease(self) -> LeaseRecord | None:
        try:
            data = self.store.get(keys.LEASE, max_bytes=MIB).data
        except ObjectNotFoundError:
            return None
        return decode_lease(data, STREAM, limits=DEFAULT_LIMITS)

    @invariant()
    def the_line_is_linear_and_its_epochs_never_fall(self) -> None:
        parent, epoch = None, 0
        by: dict[int, int] = {}
        line = self._line()
        for data in line:
            record: dict[str, Any] = json.loads(data)
            assert record["parent"] == parent
            assert record["epoch"] >= epoch
            assert by.setdefault(record["epoch"], record["by"]) == record["by"], "two writers in one epoch"
            parent, epoch = sha256(data), record["epoch"]
        for writer in self.writers:
            assert all(data in line for data in writer.reported), "a version that was reported is lost"

    @invariant()
    def the_epoch_of_the_lease_never_falls(self) -> None:
        stored = self._stored_lease()
        if stored is not None:
            assert stored.epoch >= self.newest_epoch
            self.newest_epoch = stored.epoch

    @invariant()
    def at_most_one_writer_holds_what_is_stored(self) -> None:
        stored = self._stored_lease()
        if stored is not None:
            leases = [writer.lease for writer in self.writers if writer.lease is not None and writer.lease.held]
            assert sum(lease.epoch == stored.epoch for lease in leases) <= 1

    @precondition(lambda self: all(writer.lease is None for writer in self.writers))
    @rule()
    def a_patient_writer_gets_in(self) -> None:
        writer = Writer(Wire(self.store), 1.0, 0.0)
        terms = LeaseTerms(ttl=TTL, holder="patient")
        lease = WriterLease(writer.wire, STREAM, terms, limits=DEFAULT_LIMITS, clock=lambda: self.now)
        began = self.now
        while (wait := lease.attempt()) is not None:
            self.now += wait
        assert self.now - began <= TTL + 0.01, "nobody renews, so a ttl is enough"
        lease.rise_above(max((json.loads(data)["epoch"] for data in self._line()), default=-1))
        self._acquired(lease)
        lease.release()


TestLeaseMachine = LeaseMachine.TestCase
TestLeaseMachine.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)
