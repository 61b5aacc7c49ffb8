"""Finding the way to a version, and another one if that turns out to be no good (SPEC.md section 11.5)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from deltawire.deadline import Deadline
from deltawire.errors import (
    BrokenChainError,
    DeltawireError,
    DigestMismatchError,
    FormatError,
    IntegrityError,
    LimitExceededError,
    MalformedPartError,
    MalformedRecordError,
    MalformedRowError,
    MalformedShardError,
    MissingObjectError,
    PathLostError,
    SizeMismatchError,
    StateMismatchError,
    UnsupportedCodecError,
    UnsupportedDtypeError,
    UnsupportedProtocolError,
    VersionNotFoundError,
)
from deltawire.format import keys
from deltawire.format.records import AnchorRecord, Delta, Snapshot, SpanRecord
from deltawire.reading.planner import Edge, Link, Routes, lost, plan
from deltawire.reading.retention import Retention, check_retained
from deltawire.reading.stream import (
    Committed,
    StreamReader,
    check_anchor,
    check_follows,
    check_rollbacks,
    check_span,
)

NO_GOOD = (
    MissingObjectError,
    SizeMismatchError,
    DigestMismatchError,
    MalformedPartError,
    MalformedRowError,
    MalformedShardError,
    UnsupportedCodecError,
    LimitExceededError,
    StateMismatchError,
)
"""What says that something stored for a step is no good: another way may do. PLN-5"""

NO_TABLE = (MalformedRecordError, UnsupportedDtypeError, UnsupportedProtocolError)
"""What says so of a tensor table besides. PLN-5"""

_NEAR = 4
"""A reader that is no more versions behind than this replays, and asks for neither anchors nor spans. PLN-1"""
_ROUNDS = 100
"""How often the boundary may pass the way that was just planned."""


@dataclass(frozen=True, slots=True)
class Step:
    """One checked step of a way: apply a delta that leads to ``version``, or load a snapshot of it."""

    edge: Edge
    version: Committed
    anchor: AnchorRecord | None = None
    span: SpanRecord | None = None

    @property
    def delta(self) -> Delta | None:
        """What to apply; None if the step is a snapshot."""
        if self.span is not None:
            return self.span.delta
        return self.version.record.delta if self.edge.kind == "delta" else None

    @property
    def snapshot(self) -> Snapshot | None:
        """What to load; None if the step is a delta."""
        if self.anchor is not None:
            return self.anchor.snapshot
        return self.version.record.snapshot if self.edge.kind == "snapshot" else None


@dataclass
class _Chain:
    """Records of consecutive places of a way, checked against each other."""

    versions: list[Committed]
    whole: bool
    """Whether it is a way of its own: it begins with what is held, or with a snapshot."""
    edges: list[Edge] = field(default_factory=list)
    spans: dict[Link, SpanRecord] = field(default_factory=dict)

    @property
    def first(self) -> int:
        return self.versions[0].record.version

    @property
    def bytes(self) -> int:
        return sum(edge.bytes for edge in self.edges)


class Keeping(Protocol):
    """Keeps what a reader needs from being collected (SPEC.md section 11.13)."""

    def need(self, first: int, last: int | None = None, *, deadline: Deadline) -> None:
        """Pin versions; costs nothing if they are pinned already."""

    def confirm(self, read: Callable[[], Retention], *, holding: int | None = None) -> Retention:
        """Read what is retained, which confirms the pin."""


class WayFinder:
    """Finds ways for one reader that goes somewhere, and remembers what proved to be of no use on the way."""

    def __init__(self, reader: StreamReader, deadline: Deadline, keeping: Keeping | None = None) -> None:
        self._reader = reader
        self._keeping = keeping
        self._deadline = deadline
        self._retention = Retention()
        self._looked = False
        self._anchors: list[int] = []
        self._spans: list[tuple[int, int]] = []
        self._versions: dict[int, Committed] = {}
        self._anchor_records: dict[int, AnchorRecord] = {}
        self._span_records: dict[Link, SpanRecord] = {}
        self._bad: set[Link] = set()
        self._gone: set[int] = set()
        self._failed: DeltawireError | None = None
        self._passed: DeltawireError | None = None
        self._problems: list[str] = []
        self._notes: list[str] = []

    @property
    def boundary(self) -> int:
        """The boundary as it was last seen."""
        return self._retention.boundary

    @property
    def notes(self) -> tuple[str, ...]:
        """What could not be used, and what was taken instead: one sentence each. PLN-5"""
        return tuple(self._notes)

    def find(self, target: int, held: Committed | None) -> list[Step]:
        """The cheapest checked way to ``target``, never over a version older than what is held. PLN-1 to PLN-4, CHN-1

        Args:
            target: where to.
            held: from where; None if nothing is held.

        Raises:
            VersionNotFoundError: the target does not exist, or is no longer retained.
            PathLostError: nothing leads there.
            BrokenChainError, WrongStreamError: the records do not follow from each other, or not from what is held.
            IntegrityError, FormatError: nothing leads there but what was found to be no good.
        """
        start = None if held is None else held.record.version
        if start == target:
            return []
        if start is None or target - start > _NEAR or self._bad or self._gone:
            self._look()
        for _ in range(_ROUNDS):
            try:
                steps = self._checked(target, held)
            except (PathLostError, IntegrityError, FormatError):
                if not self._look():
                    raise
                continue  # what was missing, or of another line, had been collected meanwhile. PLN-6
            # Only now: a record that was created where one had been collected is found out by the boundary. RET-3
            self._retention = self._keep(steps[0], start)
            if all(step.edge.target in self._retention for step in steps):
                self._notes += [f"{problem}: took {steps[0].edge.link}" for problem in self._problems]
                self._problems.clear()
                return steps
            self._look()  # again: the snapshot at which the boundary is now may be newer than the last look. RET-2
        raise PathLostError(f"the boundary passed every way to version {target} that was found")

    def _keep(self, first: Step, start: int | None) -> Retention:
        """Read what is retained, once what the way needs is pinned, if the reader pins. PIN-3, PIN-4"""
        if self._keeping is None:
            return self._reader.retention(self._deadline)
        needed = first.edge.target if first.snapshot is not None or start is None else start
        self._keeping.need(needed, deadline=self._deadline)
        return self._keeping.confirm(lambda: self._reader.retention(self._deadline), holding=start)

    def pass_over(self, link: Link, error: DeltawireError) -> None:
        """From now on find ways without this step, which failed."""
        self._bad.add(link)
        self._failed = self._failed or self._note(str(link), error)

    def pass_over_version(self, number: int, error: DeltawireError) -> None:
        """From now on find ways without this version."""
        self._gone.add(number)
        self._failed = self._failed or self._note(f"version {number}", error)

    def _pass_over_record(self, link: Link, error: DeltawireError) -> None:
        """From now on find ways without this anchor or span, whose record is no good. PLN-4, SPN-6"""
        self._bad.add(link)
        self._passed = self._passed or self._note(str(link), error)

    def _note(self, what: str, error: DeltawireError) -> DeltawireError | None:
        if isinstance(error, VersionNotFoundError):
            return None  # it was collected since it was listed, or withdrawn by its writer
        self._problems.append(f"{what} could not be used ({error.code}: {error})")
        return error.with_traceback(None)  # which would hold what the failed step had in memory

    def _lost(self, start: int | None, target: int) -> DeltawireError:
        """Why there is no way: the first step that failed, or else a record that was no good. PLN-5"""
        return self._failed or self._passed or lost(start, target)

    def _look(self) -> bool:
        """See what anchors and spans there are. What cannot be listed is done without. PLN-4, SPN-6

        Returns:
            Whether what is retained has changed since it was last looked at.
        """
        before = self._retention
        self._looked = True
        self._retention = self._reader.retention(self._deadline)
        try:
            self._anchors = self._reader.numbers(keys.ANCHORS, self._deadline)
        except LimitExceededError as error:
            self._passed = self._passed or self._note("the anchors", error)
        try:
            self._spans = self._reader.spans(self._deadline)
        except LimitExceededError as error:
            self._passed = self._passed or self._note("the spans", error)
        return (self._retention.boundary, self._retention.kept) != (before.boundary, before.kept)

    def _checked(self, target: int, held: Committed | None) -> list[Step]:
        while True:
            check_retained(target, self._retention)
            if target in self._gone:
                raise self._lost(None if held is None else held.record.version, target)
            steps = self._attempt(target, held)
            if steps is not None:
                return steps
            # Something proved to be of no use, and is known as such from now on, so that this ends.
            if not self._looked:
                self._look()

    def _attempt(self, target: int, held: Committed | None) -> list[Step] | None:
        """The cheapest way by all that is known; None if something else must be tried."""
        start = None if held is None else held.record.version
        lowest = self._lowest(target, start)
        anchors = [number for number in self._anchors if lowest <= number <= target and number in self._retention]
        routes = Routes(
            self._spans,
            target=target,
            starts={lowest, *anchors, *([] if start is None else [start])},
            held=start,
            boundary=self._retention.boundary,
            kept=self._retention.kept,
            gone=self._gone,
            bad=self._bad,
        )
        chains: list[_Chain] = []
        if start is not None and self._lead(routes, start, target):
            chain = self._chain(list(routes.way(start)), start, target, held)
            if chain is None:
                return None
            chains.append(chain)
            lowest = max(lowest, chain.first)  # if that is a rebase, what leads to it is of no use
        elif not self._looked:
            return None
        anchor = self._newest_anchor([number for number in anchors if number >= lowest], routes, target)
        if anchor is not None and not (chains and chains[0].whole and chains[0].bytes < _size(anchor.snapshot)):
            chain = self._chain(list(routes.way(anchor.version)), anchor.version, target, None)
            if chain is None or not self._anchored(chain, anchor):
                return None
            chains.append(chain)
        elif not chains and self._lead(routes, routes.lowest, target):
            chain = self._chain(list(routes.way(routes.lowest)), routes.lowest, target, None)
            if chain is None:
                return None
            chains.append(chain)
        return self._cheapest(chains, anchor, held, target)

    def _lowest(self, target: int, start: int | None) -> int:
        """Where a way to the target can begin at the earliest, if not at what is held. RET-2"""
        lowest = self._retention.boundary
        if target < lowest:
            lowest = target
            while lowest - 1 in self._retention:
                lowest -= 1
        return lowest if start is None else max(lowest, start + 1)

    def _lead(self, routes: Routes, start: int, target: int) -> bool:
        """Whether a way leads on from there that is not too long."""
        steps = routes.steps(start)
        if steps is None:
            return False
        limit = self._reader.transfer.limits.path_records
        if steps > limit and self._failed is None:
            self._failed = LimitExceededError(f"{steps:,} records lead to version {target}")
        return steps <= limit

    def _newest_anchor(self, numbers: list[int], routes: Routes, target: int) -> AnchorRecord | None:
        for number in reversed(numbers):
            link = Link("anchor", None, number)
            if link in self._bad or not self._lead(routes, number, target):
                continue
            if number not in self._anchor_records:
                try:
                    self._anchor_records[number] = self._reader.anchor(number, self._deadline)
                except DeltawireError as error:
                    if error.retryable:
                        raise
                    self._pass_over_record(link, error)  # an older one may do. PLN-4
                    continue
            return self._anchor_records[number]
        return None

    def _anchored(self, chain: _Chain, anchor: AnchorRecord) -> bool:
        """Let a chain begin with an anchor, unless a rebase after it makes that useless; whether it may. ANC-2"""
        if chain.first == anchor.version:
            link = Link("anchor", None, anchor.version)
            try:
                check_anchor(anchor, chain.versions[0])
            except BrokenChainError as error:
                self._pass_over_record(link, error)
                return False
            chain.edges.append(Edge(*link, _size(anchor.snapshot)))
        return True

    def _chain(self, links: list[Link], start: int, target: int, held: Committed | None) -> _Chain | None:
        """Read and check the records of a way, from its last snapshot on if there is one; None if one is no good."""
        numbers = [link.target for link in reversed(links)] + ([start] if held is None else [])
        found: list[Committed] = []
        for number, record in zip(numbers, self._records(numbers), strict=True):
            if isinstance(record, DeltawireError):
                self._unusable(number, target, record)
                return None
            found.append(record)
            self._versions[number] = record
            if record.record.snapshot is not None:
                break
        else:
            found += [] if held is None else [held]
        chain = _Chain(found[::-1], whole=found[-1] is held)
        links = links[len(links) - len(found) + 1 :]
        return chain if self._join(chain, links) else None

    def _records(self, numbers: Sequence[int]) -> Iterator[Committed | DeltawireError]:
        loading = self._reader.versions([n for n in numbers if n not in self._versions], self._deadline)
        for number in numbers:
            yield self._versions[number] if number in self._versions else next(loading)

    def _unusable(self, number: int, target: int, error: DeltawireError) -> None:
        no_good = (VersionNotFoundError, MalformedRecordError, LimitExceededError)
        if number == target or not isinstance(error, no_good):
            raise error
        self._gone.add(number)  # PLN-3
        self._passed = self._passed or self._note(f"version {number}", error)

    def _join(self, chain: _Chain, links: list[Link]) -> bool:
        """Check the links between the versions of a chain. CHN-1 to CHN-6, SPN-4"""
        if not self._read_spans(link for link in links if link.kind == "span"):
            return False
        good = True
        for link, (before, after) in zip(links, itertools.pairwise(chain.versions), strict=True):
            if link.kind == "span":
                span = chain.spans[link] = self._span_records[link]
                try:
                    check_span(span, before, after)
                except BrokenChainError as error:
                    self._pass_over_record(link, error)
                    good = False
                chain.edges.append(Edge(*link, _parts(span.delta)))
            else:
                check_follows(before, after)
                assert after.record.delta is not None  # noqa: S101 - only the first of a chain can be a snapshot
                chain.edges.append(Edge(*link, _parts(after.record.delta)))
        check_rollbacks(chain.versions)
        snapshot = chain.versions[0].record.snapshot
        beginning = Link("snapshot", None, chain.first)
        if snapshot is not None and not chain.whole and beginning not in self._bad:
            chain.edges.append(Edge(*beginning, _size(snapshot)))
            chain.whole = True
        return good

    def _read_spans(self, links: Iterable[Link]) -> bool:
        missing = [link for link in links if link not in self._span_records]
        pairs = [(base, target) for _, base, target in missing if base is not None]
        for link, record in zip(missing, self._reader.span_records(pairs, self._deadline), strict=True):
            if isinstance(record, DeltawireError):
                self._pass_over_record(link, record)  # SPN-6
            else:
                self._span_records[link] = record
        return not self._bad.intersection(missing)

    def _cheapest(
        self, chains: Sequence[_Chain], anchor: AnchorRecord | None, held: Committed | None, target: int
    ) -> list[Step]:
        edges = {edge.link: edge for chain in chains for edge in chain.edges}
        spans = {link: span for chain in chains for link, span in chain.spans.items()}
        versions = {committed.record.version: committed for chain in chains for committed in chain.versions}
        start = None if held is None else held.record.version
        try:
            way = plan(edges.values(), held=start, target=target)
        except PathLostError:
            raise self._lost(start, target) from None
        return [
            Step(edge, versions[edge.target], anchor if edge.kind == "anchor" else None, spans.get(edge.link))
            for edge in way
        ]


def _parts(delta: Delta) -> int:
    return sum(part.bytes for part in delta.parts)


def _size(snapshot: Snapshot) -> int:
    return sum(shard.bytes for shard in snapshot.shards)
