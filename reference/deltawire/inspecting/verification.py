"""Checking a whole stream: every record, every byte that a record names, and, if asked, every state it makes.

Where a follower stops at the first thing that is wrong, verification goes on and collects.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from deltawire.deadline import Deadline
from deltawire.errors import (
    DeltawireError,
    MissingDependencyError,
    ObjectNotFoundError,
    PathLostError,
    StreamNotFoundError,
    WrongStreamError,
)
from deltawire.format import keys
from deltawire.format.records import HeadRecord, PinRecord, named_by
from deltawire.inspecting.findings import Finding, Findings, Note, Trouble, Use, ranges, versions_text
from deltawire.inspecting.history import Advance, no_progress
from deltawire.inspecting.inventory import Inventory, take_inventory
from deltawire.inspecting.replay import Replay
from deltawire.inspecting.stream_data import DataCheck, StreamData
from deltawire.inspecting.stream_records import RecordsCheck, StreamRecords, read_record
from deltawire.inspecting.ways import Ways, unreached
from deltawire.limits import DEFAULT_LIMITS, Limits
from deltawire.reading.leases import read_lease
from deltawire.reading.retention import Retention, read_retention
from deltawire.reading.stream import StreamReader
from deltawire.reading.transfer import Transfer
from deltawire.reading.trust import Trust, as_trust, trust_own_list
from deltawire.store.base import ObjectInfo, Store

if TYPE_CHECKING:
    from deltawire.ed25519 import PublicKeyLike


@dataclass(kw_only=True)
class Verified:
    """What was looked at and what was found."""

    url: str
    deep: bool
    """Whether every state was rebuilt and its digest computed."""
    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What is worth knowing, but breaks nothing: a stale hint, objects that no record names."""
    versions: int = 0
    """Records of retained versions that could be read."""
    anchors: int = 0
    """Anchor records that could be read."""
    spans: int = 0
    """Span records that could be read."""
    objects: int = 0
    """Parts, shards and files read in full."""
    bytes: int = 0
    """Their size."""
    states: int = 0
    """States rebuilt that had the digest they should have."""

    @property
    def sound(self) -> bool:
        """Whether nothing was found."""
        return not self.findings


@dataclass(kw_only=True)
class Examination:
    """All that a look at a whole stream brought to light."""

    url: str
    deep: bool
    inventory: Inventory
    records: StreamRecords
    data: StreamData
    ways: Ways
    """The steps that were not found to be damaged."""
    troubles: list[Trouble]
    notes: list[Note]
    retention: Retention = field(default_factory=Retention)
    """What was retained at the end."""
    states: int = 0
    """States rebuilt that had the digest they should have."""
    orphans: list[ObjectInfo] = field(default_factory=list)
    """Objects that no record names."""
    retired: list[ObjectInfo] = field(default_factory=list)
    """Objects that only records of versions name which are not retained."""


def verify_stream(
    store: Store,
    *,
    deep: bool = False,
    trust: Sequence[PublicKeyLike] | None = None,
    limits: Limits = DEFAULT_LIMITS,
    timeout: float | None = None,
    advance: Advance = no_progress,
) -> Verified:
    """Read every object that the records of a stream name, and hold it to them. VRF-1

    Args:
        store: of the stream.
        deep: also load every snapshot, replay every delta and try every span, and compute the digest of each state.
            Holds up to two copies of the model in memory.
        trust: public keys by which the stream must be signed, as for a ``Follower``; None holds a signed stream to the
            keys that it lists itself.
        limits: what to refuse.
        timeout: seconds until giving up.
        advance: told of the bytes read; called from several threads.

    Raises:
        StreamNotFoundError: there is no stream here.
        StoreError, DeadlineExceededError: the store did not answer; nothing is known.
    """
    found = examine_stream(store, deep=deep, trust=trust, limits=limits, timeout=timeout, advance=advance)
    return Verified(
        url=found.url,
        deep=deep,
        findings=[trouble.finding for trouble in found.troubles],
        notes=[note.message for note in found.notes] + list(_summaries(found)),
        versions=len(found.records.versions),
        anchors=len(found.records.anchors),
        spans=len(found.records.spans),
        objects=found.data.objects,
        bytes=found.data.bytes,
        states=found.states,
    )


def examine_stream(
    store: Store,
    *,
    deep: bool = False,
    trust: Sequence[PublicKeyLike] | None = None,
    limits: Limits = DEFAULT_LIMITS,
    timeout: float | None = None,
    advance: Advance = no_progress,
) -> Examination:
    """The whole of what ``verify_stream`` finds. Takes and raises the same."""
    trusted = as_trust(trust)
    transfer = Transfer(store, limits=limits)
    try:
        return _Verification(transfer, trusted, Deadline.after(timeout), advance).run(deep=deep)
    finally:
        transfer.close()


def bytes_to_verify(store: Store) -> int:
    """Size of all data objects in the store: about what ``verify_stream`` reads."""
    return sum(info.bytes for info in store.list(keys.DATA))


def _summaries(found: Examination) -> Iterator[str]:
    """What of a stream is not part of it, in a few words."""
    leftovers = found.records.leftovers
    if leftovers:
        verb = "record is" if len(leftovers) == 1 else "records are"
        yield f"{len(leftovers):,} {verb} of versions that are not retained, {_objects(found.retired)} only theirs"
    if found.orphans:
        verb = "is" if len(found.orphans) == 1 else "are"
        yield f"{_objects(found.orphans)} {verb} named by no record"
    if found.inventory.unknown:
        verb = "has a key" if len(found.inventory.unknown) == 1 else "have keys"
        yield f"{_objects(found.inventory.unknown)} {verb} that readers ignore"


def _objects(infos: list[ObjectInfo]) -> str:
    size = sum(info.bytes for info in infos)
    return f"{len(infos):,} object{'' if len(infos) == 1 else 's'} ({size:,} bytes)"


class _Verification:
    def __init__(self, transfer: Transfer, trust: Trust | None, deadline: Deadline, advance: Advance) -> None:
        self._transfer = transfer
        self._reader = StreamReader(transfer, trust)
        self._deadline = deadline
        self._advance = advance
        self._findings = Findings()

    def run(self, *, deep: bool) -> Examination:
        found = Examination(
            url=self._transfer.store.url,
            deep=deep,
            inventory=Inventory(),
            records=StreamRecords(),
            data=StreamData(),
            ways=Ways(()),
            troubles=[],
            notes=[],
        )
        try:
            stream = self._reader.stream(self._deadline)
            if stream.signing_keys and self._reader.trust is None:
                self._check_own_signatures()
        except StreamNotFoundError:
            raise
        except DeltawireError as error:
            self._findings.add(error, keys.STREAM, Use("stream", keys.MAX_VERSION))
            found.troubles, found.notes = self._findings.troubles, self._findings.notes
            return found  # nothing says what belongs to the stream
        found.inventory = take_inventory(self._transfer, self._deadline)
        found.records = RecordsCheck(self._reader, found.inventory, self._findings, self._deadline).run()
        found.retention = found.records.retention
        check = DataCheck(self._reader, found.records, self._findings, self._deadline, self._advance)
        found.data = check.run()
        found.ways = found.records.ways()
        found.ways.close_for(self._findings.troubles)
        if deep:
            replay = Replay(
                self._transfer, found.records, found.data.tables, found.ways, self._findings, self._deadline
            )
            replay.run()
            found.states = replay.states
        self._check_head(found)
        self._check_lease()
        self._check_pins(found.inventory)
        self._settle(found)
        self._sort_data(found)
        found.troubles, found.notes = self._findings.troubles, self._findings.notes
        return found

    def _check_own_signatures(self) -> None:
        """Nobody says who may sign, so the stream's own word is taken for it. SIG-11"""
        try:
            trust = trust_own_list()
        except MissingDependencyError as error:
            message = f"the signatures were not checked: {error}"
            self._findings.notes.append(Note(about="signatures", key=keys.STREAM, message=message, code=error.code))
            return
        message = (
            f"signatures were held to the keys that {keys.STREAM} lists; that these are the right ones was not checked"
        )
        self._findings.notes.append(Note(about="signatures", key=keys.STREAM, message=message))
        self._reader = StreamReader(self._transfer, trust)
        self._reader.stream(self._deadline)

    def _check_head(self, found: Examination) -> None:
        """The hint may be missing, stale or wrong; say so if it is. HED-1"""
        newest = found.records.newest
        if newest is None:
            return
        try:
            head = self._transfer.call(self._deadline, lambda: read_record(self._transfer, keys.HEAD, HeadRecord))
            stream_id = self._reader.stream(self._deadline).stream_id
            if head.stream_id != stream_id:
                raise WrongStreamError(f"{keys.HEAD} belongs to stream {head.stream_id}")
        except ObjectNotFoundError:
            return
        except DeltawireError as error:
            self._note(error, "head", keys.HEAD, f"the hint {keys.HEAD} is of no use: {error}")
            return
        if head.version < newest:
            message = f"the hint {keys.HEAD} is stale: version {head.version}, not {newest}"
            self._findings.notes.append(Note(about="head", key=keys.HEAD, message=message))
        elif head.version > newest and not self._is_there(keys.version_key(head.version)):
            message = f"the hint {keys.HEAD} names version {head.version}, which is not there; the newest is {newest}"
            self._findings.notes.append(Note(about="head", key=keys.HEAD, message=message, version=head.version))

    def _is_there(self, key: str) -> bool:
        try:
            self._transfer.call(self._deadline, lambda: self._transfer.store.head(key))
        except ObjectNotFoundError:
            return False
        return True

    def _check_lease(self) -> None:
        """A lease that cannot be read keeps producers out; say so. LSE-2"""
        try:
            read_lease(self._reader, self._deadline)
        except DeltawireError as error:
            self._note(error, "lease", keys.LEASE, f"the lease keeps every producer out: {error}")

    def _check_pins(self, inventory: Inventory) -> None:
        """A pin that cannot be read keeps everything from being collected; say so. PIN-9"""
        stream_id = self._reader.stream(self._deadline).stream_id

        def check(key: str) -> DeltawireError | None:
            try:
                pin = read_record(self._transfer, key, PinRecord)
                if pin.stream_id != stream_id:
                    raise WrongStreamError(f"{key} belongs to stream {pin.stream_id}")
            except ObjectNotFoundError:
                return None
            except DeltawireError as error:
                return error
            return None

        done = self._transfer.map(check, inventory.pins, deadline=self._deadline)
        for key, error in zip(inventory.pins, done, strict=True):
            if error is not None:
                self._note(error, "pin", key, f"a pin keeps everything from being collected for a day: {error}")

    def _note(self, error: DeltawireError, about: Literal["head", "lease", "pin"], key: str, message: str) -> None:
        if error.retryable:
            raise error
        self._findings.notes.append(Note(about=about, key=key, message=message, code=error.code))

    def _settle(self, found: Examination) -> None:
        """What cannot be rebuilt at all is lost; what was collected while this looked at it is not missing."""
        if found.deep:
            lost = unreached(found.records.versions, found.ways.reached() | set(found.records.lost))
            for first, last in ranges(lost):
                no_way = PathLostError(f"{versions_text(first, last)} cannot be rebuilt by any way")
                self._findings.add(no_way, keys.version_key(first), Use("way", first, last))
        if self._findings.troubles:
            try:
                found.retention = read_retention(self._transfer, self._reader.stream(self._deadline), self._deadline)
            except DeltawireError as error:
                if error.retryable:
                    raise
            else:
                self._findings.forget(found.retention)

    def _sort_data(self, found: Examination) -> None:
        """Data objects that are of no use, and whose they are."""
        named: set[str] = set()
        for version in found.records.versions.values():
            named.update(descriptor.key for descriptor in named_by(version.record))
        for record in (*found.records.anchors.values(), *found.records.spans.values(), *found.records.unchecked):
            named.update(descriptor.key for descriptor in named_by(record))
        old = {
            descriptor.key
            for leftover in found.records.leftovers
            if leftover.record is not None
            for descriptor in named_by(leftover.record)
        }
        for key, info in found.inventory.data.items():
            if key not in named:
                (found.retired if key in old else found.orphans).append(info)
