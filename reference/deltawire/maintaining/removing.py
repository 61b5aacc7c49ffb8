"""Removing records and what only they name, in an order in which it may break off anywhere (SPEC.md section 11.14)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field

from deltawire.deadline import Deadline
from deltawire.errors import DeltawireError
from deltawire.format import keys
from deltawire.format.records import AnchorRecord, SpanRecord, VersionRecord, named_by
from deltawire.maintaining.survey import Facts, Folder, Record, Survey, folder_of
from deltawire.reading.transfer import Transfer

_BATCH = 256
"""Versions that are removed at a time: what is kept in mind of them is bounded."""


@dataclass(frozen=True, slots=True)
class Protected:
    """What must not be removed, whatever a record that goes says. COL-5"""

    stays: Callable[[int], bool]
    """Whether a version stays, by its number."""
    folders: frozenset[Folder]
    """Of the records that stay."""
    inherited: frozenset[str]
    """What records that stay name in folders of others. KEY-9"""

    @classmethod
    def of(cls, stays: Callable[[int], bool], facts: Iterable[Facts]) -> Protected:
        """From what is known of all records that stay."""
        folders: set[Folder] = set()
        inherited: set[str] = set()
        for known in facts:
            folders.add(known.folder)
            inherited.update(known.inherited)
        return cls(stays, frozenset(folders), frozenset(inherited))

    def frees(self, record: Record, key: str) -> bool:
        """Whether a record that goes takes an object with it. Records are not trusted: nothing else is deleted.

        An object in the folder of another record goes with it only if the version of that folder does not stay: then
        that record was collected, or is.
        """
        folder = keys.parse_data(key)
        if folder is None or folder in self.folders or key in self.inherited:
            return False
        return folder == folder_of(record) or not self.stays(folder[0])


@dataclass
class Removed:
    """A tally."""

    versions: list[int] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    folders: set[Folder] = field(default_factory=set)
    """Of the records that went."""


@dataclass(frozen=True, slots=True)
class _Batch:
    versions: Sequence[int]
    anchors: Sequence[int]
    spans: Sequence[tuple[int, int]]


class Removal:
    """Removes versions, their anchors and the spans that touch them. COL-5, COL-6, COL-8

    Args:
        transfer: to the store.
        survey: reads the records.
        dry_run: only tally; delete nothing.
        stopped: asked between batches whether to stop early.
    """

    def __init__(self, transfer: Transfer, survey: Survey, *, dry_run: bool, stopped: Callable[[], bool]) -> None:
        self._transfer = transfer
        self._survey = survey
        self._dry_run = dry_run
        self._stopped = stopped
        self._gone: set[str] = set()
        """What went in folders of other records than those that named it, as many name the same."""
        self.removed = Removed()

    def run(
        self,
        protected: Protected,
        *,
        versions: Collection[int],
        anchors: Collection[int],
        spans: Collection[tuple[int, int]],
        deadline: Deadline,
    ) -> None:
        """Remove these. What another maintainer has removed already is no error. COL-8

        Raises:
            StoreError, DeadlineExceededError: the store did not answer; the next pass goes on from there.
        """
        for batch in _batches(versions, anchors, spans):
            if self._stopped():
                return
            self._remove(batch, protected, deadline)

    def delete(self, doomed: Iterable[str], deadline: Deadline) -> None:
        """Delete objects concurrently; not in a dry run."""
        if not self._dry_run:
            self._transfer.delete(doomed, deadline=deadline)

    def _remove(self, batch: _Batch, protected: Protected, deadline: Deadline) -> None:
        version_keys = [keys.version_key(number) for number in batch.versions]
        anchor_keys = [keys.anchor_key(number) for number in batch.anchors]
        span_keys = [keys.span_key(*span) for span in batch.spans]
        read = self._survey.read
        jobs: list[Callable[[], Record | DeltawireError]] = [
            *((lambda key=key: read(key, VersionRecord)) for key in version_keys),
            *((lambda key=key: read(key, AnchorRecord)) for key in anchor_keys),
            *((lambda key=key: read(key, SpanRecord)) for key in span_keys),
        ]
        objects: dict[str, int] = {}
        for record in self._transfer.map(lambda job: job(), jobs, deadline=deadline):
            if isinstance(record, DeltawireError):
                continue  # it names nothing that could be known; what it left behind are orphans. COL-7
            own = folder_of(record)
            self.removed.folders.add(own)
            for item in named_by(record):
                if protected.frees(record, item.key) and item.key not in self._gone:
                    objects[item.key] = item.bytes
                    if keys.parse_data(item.key) != own:
                        self._gone.add(item.key)
        # Records last, those of versions after all others: whatever interrupts this, the next pass finds them.
        for doomed in (list(objects), span_keys, anchor_keys, version_keys):
            self.delete(doomed, deadline)
        self.removed.versions += batch.versions
        self.removed.counts.update(
            anchors=len(anchor_keys), spans=len(span_keys), objects=len(objects), bytes=sum(objects.values())
        )


def _batches(
    versions: Collection[int], anchors: Collection[int], spans: Collection[tuple[int, int]]
) -> Iterable[_Batch]:
    """Versions in ascending order, each with its anchor and the spans that touch it; then what is left."""
    numbers, anchored = set(versions), set(anchors)
    by_end: dict[int, list[tuple[int, int]]] = {}
    loose = []
    for span in sorted(spans):
        end = next((end for end in span if end in numbers), None)
        if end is None:
            loose.append(span)
        else:
            by_end.setdefault(end, []).append(span)
    ordered = sorted(numbers)
    for start in range(0, len(ordered), _BATCH):
        chosen = ordered[start : start + _BATCH]
        yield _Batch(
            chosen,
            [number for number in chosen if number in anchored],
            [span for number in chosen for span in by_end.get(number, ())],
        )
    rest = sorted(anchored - numbers)
    for start in range(0, max(len(rest), len(loose)), _BATCH):
        yield _Batch([], rest[start : start + _BATCH], loose[start : start + _BATCH])
