"""One pass over a model: groups of tensors, each along the whole way (SPEC.md section 11.12)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from deltawire.consumer.staging import check_totals
from deltawire.deadline import Deadline
from deltawire.errors import StateMismatchError
from deltawire.format.tensors import Tensor, TensorTable
from deltawire.kernels.scan import Room
from deltawire.maintaining.ladder import Span
from deltawire.maintaining.merging import Earlier
from deltawire.maintaining.replaying import Begin, Replay, Step, blaming
from deltawire.maintaining.writing import AnchorWriter, SpanWriter
from deltawire.parts.rows import Row
from deltawire.producer.encoding import BOX_ELEMENTS, Encoder
from deltawire.reading.transfer import Transfer

_MASK = (1 << 64) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A way, with all that is read and written on it."""

    table: TensorTable
    groups: Sequence[Sequence[Tensor]]
    """Consecutive tensors; each group is a shard of the anchor."""
    begin: Begin
    steps: Sequence[Step]
    spans: Mapping[Span, SpanWriter]
    """No span reaches from inside another one out of it."""
    anchor: AnchorWriter | None
    """Of the version at which the way ends."""


@dataclass(frozen=True, slots=True)
class _Open:
    """A span that has begun and not ended, and what each tensor of the group was at its base, by ordinal."""

    span: Span
    earlier: dict[int, Earlier] = field(default_factory=dict)


def run_pass(transfer: Transfer, plan: Plan, encoder: Encoder, deadline: Deadline) -> int:
    """Make the parts of all spans and the shards of the anchor; the bytes read.

    Holds one group of tensors, what one step changes in it, for each span that is open at one time (one of each length)
    what has changed in it, but no more than the group itself, and one part.

    Raises:
        StepError: what is stored for a step is missing or no good.
        StateMismatchError: a span or the anchor is not what its versions' records say.
    """
    room = Room(BOX_ELEMENTS)
    digest = fetched = 0
    for group in plan.groups:
        replay = Replay(transfer, plan.table, group, deadline)
        replay.begin(plan.begin)
        for span, rows in _spans(replay, plan, encoder, room):
            plan.spans[span].add(rows)
        if plan.anchor is not None:
            plan.anchor.add(group, {tensor.ordinal: replay.bits(tensor) for tensor in group})
        digest = (digest + replay.digest) & _MASK
        fetched += replay.fetched
    with blaming(None):
        if digest != int(plan.begin.version.record.state_digest, 16):
            raise StateMismatchError("the snapshot is not the version that its record says")  # ANC-3
    for step in plan.steps:
        with blaming(step.span):
            check_totals(step.totals, step.delta)  # DLT-3
    for writer in plan.spans.values():
        writer.check()
    return fetched


def _spans(replay: Replay, plan: Plan, encoder: Encoder, room: Room) -> Iterator[tuple[Span, Iterator[Row]]]:
    """Take the group along the way; at the target of each span, the rows that it has in the group."""
    beginning: dict[int, list[Span]] = {}
    for span in sorted(plan.spans, key=lambda span: -span.versions):
        beginning.setdefault(span.base, []).append(span)
    here = plan.begin.version.record.version
    under_way = [_Open(span) for span in beginning.get(here, ())]
    for step, undos in zip(plan.steps, replay.take(plan.steps), strict=True):
        here = step.span.target
        if under_way:
            earlier = under_way[-1].earlier  # the shortest; the longer ones learn of it when that one ends
            for ordinal, undo in undos.items():
                now = replay.bits(plan.table.tensors[ordinal])
                earlier.setdefault(ordinal, Earlier()).note(undo, now)
        while under_way and under_way[-1].span.target == here:
            done = under_way.pop()
            yield done.span, _rows(replay, plan.table, done.earlier, encoder, room)
            if under_way:
                outer = under_way[-1].earlier
                for ordinal, inner in done.earlier.items():
                    outer.setdefault(ordinal, Earlier()).absorb(inner, replay.bits(plan.table.tensors[ordinal]))
        under_way += [_Open(span) for span in beginning.get(here, ())]


def _rows(
    replay: Replay, table: TensorTable, earlier: Mapping[int, Earlier], encoder: Encoder, room: Room
) -> Iterator[Row]:
    for ordinal in sorted(earlier):
        tensor, was = table.tensors[ordinal], earlier[ordinal]
        now = replay.bits(tensor)
        if was.copy is not None:
            yield from encoder.rows(tensor, was.copy, now, room)
        else:
            changed = was.changed(now)
            yield from encoder.changed_rows(tensor, changed.where, changed.bits, now)
