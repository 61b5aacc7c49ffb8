"""What is wrong with a stream, what still works, and what to do about it: ``deltawire fsck``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from deltawire.deadline import Deadline
from deltawire.errors import DeltawireError, StreamNotFoundError
from deltawire.format import keys
from deltawire.inspecting import advice
from deltawire.inspecting.advice import Adviser, merge_runs
from deltawire.inspecting.findings import Note, ranges, versions_text
from deltawire.inspecting.history import Advance, no_progress
from deltawire.inspecting.inventory import folder_version, take_inventory
from deltawire.inspecting.stream_data import collect_named
from deltawire.inspecting.stream_records import StreamRecords
from deltawire.inspecting.verification import Examination, examine_stream
from deltawire.limits import DEFAULT_LIMITS, Limits
from deltawire.reading.planner import Edge
from deltawire.reading.transfer import Transfer
from deltawire.store.base import ObjectInfo, Store

if TYPE_CHECKING:
    from deltawire.ed25519 import PublicKeyLike

Class = Literal[
    "unreachable", "missing", "corrupt", "broken_chain", "forged", "unsupported",
    "unreferenced", "under_way", "unretained", "unknown_key", "head", "lease", "member", "pin", "signatures",
]  # fmt: skip
"""Sorts of things; from ``unreferenced`` on they break nothing."""

_CLASSES: dict[str, Class] = {
    "path_lost": "unreachable",
    "missing_object": "missing",
    "stream_not_found": "missing",
    "broken_chain": "broken_chain",
    "wrong_stream": "broken_chain",
    "bad_signature": "forged",
    "unsupported_protocol": "unsupported",
    "unsupported_feature": "unsupported",
    "unsupported_codec": "unsupported",
    "unsupported_dtype": "unsupported",
}
"""By code; all others are ``corrupt``."""

_ORDER: tuple[Class, ...] = ("unreachable", "missing", "corrupt", "broken_chain", "forged", "unsupported")


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One thing that is not as it should be, or not part of the stream."""

    sort: Class
    key: str
    message: str
    advice: str
    """What an operator does about it, in one sentence."""
    code: str | None = None
    """A code of SPEC.md section 13, where there is an error."""
    requirement: str | None = None
    """The requirement that is broken, where one can be named."""
    bytes: int | None = None
    """Size of an object that is not needed."""
    modified_at: float | None = None
    """When it was written, in seconds since the epoch, by the store's clock, where the store tells."""


@dataclass(kw_only=True)
class Diagnosis:
    """The state of a stream."""

    url: str
    deep: bool
    newest: int | None = None
    """The newest version of which a record is there, good or not."""
    boundary: int = 0
    kept: list[int] = field(default_factory=list)
    stopped_by: str | None = None
    """The one object that keeps every reader out, whatever else is whole."""
    way: list[Edge] | None = None
    """The cheapest way to the newest version from nothing; None if it cannot be read."""
    unreadable: list[tuple[int, int]] = field(default_factory=list)
    """First and last of each run of retained versions that cannot be read."""
    damage: list[Item] = field(default_factory=list)
    notes: list[Item] = field(default_factory=list)
    """What breaks nothing."""
    versions: int = 0
    """Records of retained versions that could be read."""
    objects: int = 0
    bytes: int = 0
    """Data objects read, and their size."""
    states: int = 0
    """States rebuilt that had the digest they should have."""

    @property
    def clean(self) -> bool:
        """Whether nothing is damaged."""
        return not self.damage


def diagnose(
    store: Store,
    *,
    deep: bool = False,
    trust: Sequence[PublicKeyLike] | None = None,
    limits: Limits = DEFAULT_LIMITS,
    timeout: float | None = None,
    advance: Advance = no_progress,
) -> Diagnosis:
    """Look at everything under a stream's prefix; changes nothing. Takes and raises what ``verify_stream`` does.

    Raises:
        StreamNotFoundError: there is neither a stream here nor what is left of one.
    """
    deadline = Deadline.after(timeout)
    try:
        found = examine_stream(
            store, deep=deep, trust=trust, limits=limits, timeout=deadline.remaining(), advance=advance
        )
    except StreamNotFoundError as error:
        return _headless(store, error, limits=limits, deadline=deadline)
    return _Diagnosis(found).run()


def _headless(store: Store, error: StreamNotFoundError, *, limits: Limits, deadline: Deadline) -> Diagnosis:
    """A prefix without ``stream.json``: what is there may once have been a stream."""
    transfer = Transfer(store, limits=limits)
    try:
        inventory = take_inventory(transfer, deadline)
    finally:
        transfer.close()
    if not inventory.versions:
        raise error
    count = f"{len(inventory.versions):,} version record{'' if len(inventory.versions) == 1 else 's'}"
    found = Diagnosis(url=store.url, deep=False, stopped_by=keys.STREAM)
    found.damage.append(_stream_item(StreamNotFoundError(f"there is no {keys.STREAM}, but {count}")))
    return found


def _stream_item(error: DeltawireError) -> Item:
    return Item(
        sort=_CLASSES.get(error.code, "corrupt"),
        key=keys.STREAM,
        message=str(error),
        advice=advice.STREAM,
        code=error.code,
        requirement="STR-1",
    )


class _Diagnosis:
    def __init__(self, found: Examination) -> None:
        self._found = found
        self._records: StreamRecords = found.records
        self._digests = _digests(found.records)
        listed = [number for number in found.inventory.versions if number >= found.retention.boundary]
        self._newest = max(listed, default=None)
        self._stopped_by = next(
            (
                trouble.finding.key
                for trouble in found.troubles
                if any(use.role in {"stream", "retention"} for use in trouble.uses)
            ),
            None,
        )
        self._reached = found.ways.reached()
        self._unreadable = self._find_unreadable()
        self._adviser = Adviser(found.url, found.ways, self._unreadable)

    def run(self) -> Diagnosis:
        found = self._found
        result = Diagnosis(
            url=found.url,
            deep=found.deep,
            newest=self._newest,
            boundary=found.retention.boundary,
            kept=sorted(found.retention.kept),
            stopped_by=self._stopped_by,
            unreadable=self._unreadable,
            versions=len(self._records.versions),
            objects=found.data.objects,
            bytes=found.data.bytes,
            states=found.states,
        )
        if self._newest is not None and self._stopped_by is None:
            result.way = found.ways.way(self._newest)
        result.damage = sorted(self._damage(), key=lambda item: _ORDER.index(item.sort))
        result.notes = list(self._notes())
        return result

    def _find_unreadable(self) -> list[tuple[int, int]]:
        """Retained versions to which nothing leads, because of records or of what they name."""
        retention = self._found.retention
        bad = set(self._found.inventory.versions) - self._reached
        runs = ranges(sorted(number for number in bad if number in retention))
        runs += [
            (max(first, retention.boundary) if last >= retention.boundary else first, last)
            for first, last in self._records.holes
            if last in retention
        ]
        return merge_runs(runs)

    def _damage(self) -> Iterator[Item]:
        for first, last in self._unreadable:
            yield Item(
                sort="unreachable",
                key=keys.version_key(first),
                message=f"{versions_text(first, last)} cannot be read",
                advice=self._adviser.about_run(first, last),
                code="path_lost",
                requirement="RET-2",
            )
        for trouble in self._found.troubles:
            if trouble.finding.code == "path_lost" and trouble.uses[0].version not in self._reached:
                continue  # said already, with all that cannot be read
            finding = trouble.finding
            yield Item(
                sort=_CLASSES.get(finding.code, "corrupt"),
                key=finding.key,
                message=finding.message,
                advice=self._adviser.about(trouble, self._digests.get(finding.key)),
                code=finding.code,
                requirement=finding.requirement,
            )

    def _notes(self) -> Iterator[Item]:
        found, url = self._found, self._found.url
        yield from (_note_item(note) for note in found.notes)
        newest = max(found.inventory.versions, default=-1)
        published = max((note.version for note in found.notes if note.version is not None), default=-1)
        for info in found.orphans:
            version = folder_version(info.key) or 0
            if version > newest:
                todo = advice.KEEP if version <= published else advice.under_way(version)
                yield _object("under_way", info, "named by no record yet", todo)
            elif self._records.doubtful(version):
                yield _object("unreferenced", info, "named by no record that can be read", advice.KEEP)
            else:
                todo = advice.KEEP_ALL if self._stopped_by else advice.orphan(url)
                yield _object("unreferenced", info, "named by no record", todo)
        todo = advice.KEEP_ALL if self._stopped_by else advice.leftover(url)
        for leftover in self._records.leftovers:
            message = f"a record of version {leftover.version}, which is not retained"
            yield Item(sort="unretained", key=leftover.key, message=message, advice=todo)
        for info in found.retired:
            yield _object("unretained", info, "named only by records of versions that are not retained", todo)
        for info in found.inventory.unknown:
            yield _object("unknown_key", info, "not a key of this protocol", advice.UNKNOWN)


def _object(sort: Class, info: ObjectInfo, message: str, todo: str) -> Item:
    return Item(sort=sort, key=info.key, message=message, advice=todo, bytes=info.bytes, modified_at=info.modified_at)


def _note_item(note: Note) -> Item:
    return Item(
        sort=note.about,
        key=note.key,
        message=note.message,
        advice=advice.HEAD_AHEAD if note.version is not None else _NOTES[note.about],
        code=note.code,
    )


_NOTES = {
    "head": advice.HEAD,
    "lease": advice.LEASE,
    "member": advice.MEMBER,
    "pin": advice.PIN,
    "signatures": advice.SIGNATURES,
}


def _digests(records: StreamRecords) -> dict[str, str]:
    """What objects should be, by key, as far as good records say."""
    found = {named.descriptor.key: named.descriptor.digest for named in collect_named(records).values()}
    for version in records.versions.values():
        found[version.record.tensors.key] = version.record.tensors.digest
        if version.record.parent is not None:
            found[keys.version_key(version.record.parent.version)] = version.record.parent.digest
    return found
