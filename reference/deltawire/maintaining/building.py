"""Making what is missing of a stream's anchors and spans (SPEC.md section 11.12)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace

from deltawire.consumer.loading import check_room
from deltawire.deadline import Deadline
from deltawire.errors import (
    DeltawireError,
    FormatError,
    IntegrityError,
    OutcomeUnknownError,
    UnsupportedError,
    VersionNotFoundError,
)
from deltawire.format.records import StreamRecord
from deltawire.maintaining.ladder import Ladder, Span, worthwhile
from deltawire.maintaining.passing import Plan, run_pass
from deltawire.maintaining.replaying import Begin, Step, StepError, blaming
from deltawire.maintaining.routing import Route, route
from deltawire.maintaining.segments import (
    Segment,
    Survey,
    anchor_due,
    delta_of,
    part_bytes,
    snapshot_of,
    survey,
)
from deltawire.maintaining.writing import AnchorWriter, SpanWriter
from deltawire.parts.writer import PartOptions
from deltawire.producer.anchors import AnchorPolicy
from deltawire.producer.encoding import Encoder
from deltawire.producer.settling import Ready, create, look_after, remove_folders
from deltawire.producer.signing import Signing
from deltawire.producer.uploads import Uploads
from deltawire.reading.planner import Edge, plan
from deltawire.reading.stream import Committed, StreamReader
from deltawire.snapshots.writer import plan_shards

_BAD = (FormatError, UnsupportedError, IntegrityError)
"""What says that something stored, or to be stored, is no good."""

Pin = Callable[[int, int], AbstractContextManager[object]]
"""Keeps versions, from the first number to the second, from being collected while it is entered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a builder was told; see ``Builder``."""

    ladder: Ladder
    anchors: AnchorPolicy
    batch: int
    shard_bytes: int
    parts: PartOptions
    signing: Signing | None
    pin: Pin


@dataclass
class Learned:
    """What a builder keeps from one run to the next, so that it does not try in vain, or read twice."""

    known: dict[int, Committed] = field(default_factory=dict)
    """Version records."""
    bad_steps: set[Span] = field(default_factory=set)
    """Deltas and spans that cannot be applied."""
    bad_snapshots: set[int] = field(default_factory=set)
    """Versions whose snapshot cannot be loaded."""
    unwanted: set[Span] = field(default_factory=set)
    """Spans that would save nothing."""
    unchecked: list[Ready] = field(default_factory=list)
    """Records that were created and could not be looked after yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """What a run has made."""

    anchors: tuple[int, ...] = ()
    spans: tuple[tuple[int, int], ...] = ()
    """Base and target of each."""
    present: tuple[str, ...] = ()
    """Keys of records that somebody else had created first."""
    dropped: tuple[tuple[int, int], ...] = ()
    """Spans that would have saved nothing (MNT-2)."""
    bytes_read: int = 0
    """Of shards and parts."""
    bytes_written: int = 0
    """Of shards and parts, those of what was dropped included."""
    problems: tuple[str, ...] = ()
    """What could not be used or made, a sentence each."""


class Run:
    """One run of a builder."""

    def __init__(
        self, reader: StreamReader, stream: StreamRecord, options: Options, learned: Learned, deadline: Deadline
    ) -> None:
        self._reader = reader
        self._transfer = reader.transfer
        self._stream = stream
        self._options = options
        self._learned = learned
        self._deadline = deadline
        self._built = Built()
        self._tried: set[Span] = set()
        """Spans that are not made in this run, or not any more."""
        self._anchored = False
        """Whether an anchor was tried."""
        self._sizes: dict[Span, int] = {}
        """Bytes of the spans that were read or made."""

    def run(self, *, force: bool) -> Built:
        """See ``Builder.run``."""
        self._look_after()
        try:
            newest = self._reader.latest(self._deadline)
        except VersionNotFoundError:
            return self._built  # the stream is there, its first version not yet
        while True:
            seen = self._survey(newest)
            for problem in seen.problems:
                self._problem(problem)
            if not force and not self._due(seen):
                break
            force = True  # what was due is finished
            found = self._choose(seen)
            if found is None:
                break
            segment, way = found
            last = way.steps[-1].target if way.steps else way.start
            # If it is not retained any more, the next look shows what is.
            with suppress(VersionNotFoundError), self._options.pin(way.start, last):
                # Only now that it is pinned does it count that nothing on the way was collected. PIN-4
                if self._boundary() <= way.start:
                    self._make(segment, way)
        return self._built

    def look(self) -> Built:
        """See ``Builder.look``."""
        try:
            newest = self._reader.latest(self._deadline)
        except VersionNotFoundError:
            return self._built
        seen = self._survey(newest)
        anchor = self._anchor(seen)
        missing = (
            span
            for segment in seen.segments
            for span in self._options.ladder.spans(segment.first, segment.last)
            if span not in seen.listing.spans
        )
        return Built(
            anchors=() if anchor is None else (anchor,),
            spans=tuple(sorted({(span.base, span.target) for span in missing})),
            problems=tuple(seen.problems),
        )

    def _boundary(self) -> int:
        return self._reader.retention(self._deadline).boundary

    def _survey(self, newest: int) -> Survey:
        learned = self._learned
        return survey(
            self._reader,
            self._options.ladder,
            boundary=self._boundary(),
            newest=newest,
            unwanted=learned.unwanted | self._tried,
            useless=learned.bad_snapshots,
            known=learned.known,
            deadline=self._deadline,
        )

    def _due(self, seen: Survey) -> bool:
        snapshots = {number for segment in seen.segments for number in segment.owned} | seen.listing.anchors
        ends = snapshots | {span.target for span in seen.listing.spans}
        made = max((number for number in ends if number <= seen.newest), default=0)
        return worthwhile(newest=seen.newest, made=made, batch=self._options.batch) or self._anchor(seen) is not None

    def _anchor(self, seen: Survey) -> int | None:
        """The newest version, if it should have an anchor."""
        if self._anchored or not seen.segments:
            return None
        segment = seen.segments[-1]
        try:
            table = self._reader.table(segment.versions[segment.last], self._deadline)
        except _BAD as error:
            self._problem(f"the tensor table of version {segment.last} cannot be used: {error}")
            return None
        due = anchor_due(self._options.anchors, segment, self._snapshots(seen, segment), table, seen.newest)
        return seen.newest if due else None

    def _snapshots(self, seen: Survey, segment: Segment) -> set[int]:
        every = set(segment.owned) | (seen.listing.anchors & segment.versions.keys())
        return every - self._learned.bad_snapshots

    def _choose(self, seen: Survey) -> tuple[Segment, Route] | None:
        """What to make next: the oldest that is missing, and all else in the same stretch of the ladder."""
        ladder, anchor = self._options.ladder, self._anchor(seen)
        avoided = seen.listing.spans | self._learned.unwanted
        for segment in seen.segments:
            snapshots = self._snapshots(seen, segment)
            steps = {Span(number - 1, number) for number in range(segment.first + 1, segment.last + 1)}
            steps |= {span for span in seen.listing.spans if set(span) <= segment.versions.keys()}
            steps -= self._learned.bad_steps
            final = anchor if segment is seen.segments[-1] else None
            missing = [span for span in ladder.spans(segment.first, segment.last) if span not in avoided]
            while missing := [span for span in missing if span not in self._tried]:
                window = min(ladder.window(span) for span in missing)
                chosen = [span for span in missing if ladder.window(span) == window]
                way = route(
                    chosen,
                    anchor=final if len(chosen) == len(missing) else None,
                    snapshots=snapshots,
                    steps=steps,
                )
                if way is not None and way.spans:
                    return segment, way
                lowest = min(span.base for span in chosen)
                self._tried |= {span for span in chosen if span.base == lowest}  # nothing leads there
            if final is not None and (way := route((), anchor=final, snapshots=snapshots, steps=steps)):
                return segment, way
        return None

    def _make(self, segment: Segment, way: Route) -> None:
        """Make one pass, then the records. What is found to be no good on the way is remembered, and gone round."""
        uploads = Uploads(self._transfer.store, workers=2)
        writers: list[AnchorWriter | SpanWriter] = []
        try:
            planned = self._plan(segment, way, uploads, writers)
            encoder = Encoder.of(self._stream.writer_features)
            fetched = run_pass(self._transfer, planned, encoder, self._deadline)
            uploads.finish(self._deadline)  # CMT-1
        except BaseException as error:
            uploads.abandon()
            uploads.close(self._deadline.left())  # what is under way would be stored after it was removed
            if isinstance(error, (DeltawireError, StepError)):
                self._remove(writers)
            if not isinstance(error, StepError):
                raise
            self._note(way.start, error)
            return
        self._built = replace(
            self._built,
            bytes_read=self._built.bytes_read + fetched,
            bytes_written=self._built.bytes_written + sum(writer.stored_bytes for writer in writers),
        )
        try:
            self._settle(segment, writers)
        finally:
            uploads.close()

    def _plan(self, segment: Segment, way: Route, uploads: Uploads, writers: list[AnchorWriter | SpanWriter]) -> Plan:
        """What is read and written on a way; those who write are added to ``writers``, the shortest spans first."""
        reader, deadline, versions = self._reader, self._deadline, segment.versions
        first = versions[way.start]
        with blaming(None):
            table = reader.table(first, deadline)
            snapshot = snapshot_of(reader, first, deadline)
            check_room(self._transfer, snapshot, table, table.tensors, deadline)
        steps = [self._step(versions, span) for span in way.steps]
        groups = plan_shards(table.tensors, self._options.shard_bytes)
        anchor: AnchorWriter | None = None
        spans: dict[Span, SpanWriter] = {}
        for span in way.spans:
            spans[span] = SpanWriter(
                span,
                versions[span.base],
                versions[span.target],
                replaces_bytes=segment.delta_bytes(span.base, span.target),
                writer_features=self._stream.writer_features,
                uploads=uploads,
                options=self._options.parts,
                deadline=deadline,
            )
        if way.anchor is not None:
            anchor = AnchorWriter(
                versions[way.anchor],
                groups,
                writer_features=self._stream.writer_features,
                uploads=uploads,
                deadline=deadline,
            )
            writers.append(anchor)
        writers += spans.values()
        return Plan(
            table=table,
            groups=groups,
            begin=Begin(first, snapshot, whole_shards=reader.trust is not None),
            steps=steps,
            spans=spans,
            anchor=anchor,
        )

    def _step(self, versions: dict[int, Committed], span: Span) -> Step:
        delta = versions[span.target].record.delta
        if span.versions > 1:
            with blaming(span):
                base, target = versions[span.base], versions[span.target]
                delta = delta_of(self._reader, span, base, target, self._deadline)
            self._sizes[span] = sum(part.bytes for part in delta.parts)
        assert delta is not None  # noqa: S101 - within a segment only the first version has none
        return Step(span, delta)

    def _note(self, start: int, failure: StepError) -> None:
        step = failure.step
        if step is None:
            self._learned.bad_snapshots.add(start)
            what = f"the snapshot of version {start}"
        else:
            self._learned.bad_steps.add(step)
            what = (
                f"the delta of version {step.target}" if step.versions == 1 else f"the span {step.base}-{step.target}"
            )
        self._problem(f"{what} cannot be used: {failure.error}")

    def _problem(self, sentence: str) -> None:
        if sentence not in self._built.problems:
            self._built = replace(self._built, problems=(*self._built.problems, sentence))

    def _settle(self, segment: Segment, writers: Sequence[AnchorWriter | SpanWriter]) -> None:
        """Create the records of what a pass has made."""
        for index, writer in enumerate(writers):
            try:
                if isinstance(writer, AnchorWriter):
                    self._settle_anchor(writer)
                else:
                    self._settle_span(segment, writer)
            except DeltawireError:  # of the store, or of time: before anything was created
                self._remove(writers[index:])
                raise

    def _settle_anchor(self, writer: AnchorWriter) -> None:
        self._anchored = True
        try:
            writer.finish(self._transfer)
            data = writer.encode(self._options.signing, limits=self._transfer.limits)
        except _BAD as error:
            self._problem(f"the anchor of version {writer.version} cannot be made: {error}")
            self._remove([writer])
            return
        if self._create(writer, data, versions=(writer.version,)):
            self._built = replace(self._built, anchors=(*self._built.anchors, writer.version))

    def _settle_span(self, segment: Segment, writer: SpanWriter) -> None:
        span = writer.span
        self._tried.add(span)
        if writer.stored_bytes > self._bytes_without(segment, span):
            self._learned.unwanted.add(span)  # MNT-2
            self._built = replace(self._built, dropped=(*self._built.dropped, span))
            self._remove([writer])
            return
        try:
            data = writer.encode(self._options.signing, limits=self._transfer.limits)
        except _BAD as error:
            self._learned.unwanted.add(span)
            self._problem(f"the span {span.base}-{span.target} cannot be made: {error}")
            self._remove([writer])
            return
        if self._create(writer, data, versions=span):
            self._sizes[span] = writer.stored_bytes
            self._built = replace(self._built, spans=(*self._built.spans, span))

    def _bytes_without(self, segment: Segment, span: Span) -> int:
        """Bytes of the cheapest way over deltas and those shorter spans whose size is known. SPN-3"""
        shorter = [one for one in self._sizes if span.base <= one.base and one.target <= span.target and one != span]
        edges = [Edge("span", one.base, one.target, self._sizes[one]) for one in shorter]
        edges += [
            Edge("delta", number - 1, number, part_bytes(segment.versions[number]))
            for number in range(span.base + 1, span.target + 1)
        ]
        return sum(edge.bytes for edge in plan(edges, held=span.base, target=span.target))

    def _create(self, writer: AnchorWriter | SpanWriter, data: bytes, *, versions: tuple[int, ...]) -> bool:
        """Create a record and look after it; whether it is there and ours."""
        ready = Ready(
            key=writer.key, data=data, prefix=writer.prefix, named=tuple(writer.named), versions=tuple(versions)
        )
        try:
            if not create(self._transfer, ready, self._deadline):
                self._built = replace(self._built, present=(*self._built.present, ready.key))
                return False
        except OutcomeUnknownError as error:
            self._problem(str(error))
            return False
        self._learned.unchecked.append(ready)
        self._look_after()
        return True

    def _look_after(self) -> None:
        """Look whether what was created should be there. MNT-3"""
        for ready in [*self._learned.unchecked]:
            try:
                if not look_after(self._transfer, self._stream, ready):
                    self._problem(f"{ready.key} was removed again: what it names was collected meanwhile")
            except DeltawireError as error:
                self._problem(f"{ready.key} was created, but could not be looked after: {error}")
            else:
                self._learned.unchecked.remove(ready)

    def _remove(self, writers: Iterable[AnchorWriter | SpanWriter]) -> None:
        remove_folders(self._transfer, [writer.prefix for writer in writers])
