"""Every state of a stream rebuilt: each snapshot loaded, each delta applied, each span tried (SPEC.md section 11.8)."""

from __future__ import annotations

from deltawire.consumer.loading import check_room, load_snapshot
from deltawire.consumer.steps import stage_delta, take_delta, take_snapshot
from deltawire.consumer.timings import Clock
from deltawire.deadline import Deadline
from deltawire.errors import DeltawireError, StateMismatchError
from deltawire.format import keys
from deltawire.format.records import AnchorRecord, Descriptor, SpanRecord
from deltawire.format.tensors import TensorTable
from deltawire.inspecting.findings import Findings, Role, Use
from deltawire.inspecting.stream_records import StreamRecords
from deltawire.inspecting.ways import Ways
from deltawire.reading.planner import Edge
from deltawire.reading.transfer import Transfer
from deltawire.targets.arrays import ArraysTarget
from deltawire.targets.digests import digest_held


class Replay:
    """Takes every step of ``ways`` from the state where it begins; those that fail are taken out of it. DIG-6

    Holds up to two copies of the model in memory.
    """

    def __init__(
        self,
        transfer: Transfer,
        records: StreamRecords,
        tables: dict[Descriptor, TensorTable],
        ways: Ways,
        findings: Findings,
        deadline: Deadline,
    ) -> None:
        self._transfer = transfer
        self._records = records
        self._tables = tables
        self._ways = ways
        self._findings = findings
        self._deadline = deadline
        self._clock = Clock()
        self._target = ArraysTarget()
        self._spans: dict[int, list[SpanRecord]] = {}
        for (base, _), span in sorted(records.spans.items()):
            self._spans.setdefault(base, []).append(span)
        self.states = 0
        """States rebuilt that had the digest they should have."""
        self.spans = 0
        """Spans that led to the state that they should."""

    def run(self) -> None:
        """Rebuild every version that can be reached, each from the one before where that is possible."""
        for number, anchor in sorted(self._records.anchors.items()):
            if ("anchor", None, number) in self._ways:
                self._load_anchor(anchor)
        for number in sorted(self._ways.reached()):
            if self._reach(number) and self._has_its_digest(number):
                self.states += 1
                for span in self._spans.get(number, ()):
                    self._try_span(span)

    def _load_anchor(self, anchor: AnchorRecord) -> None:
        edge = Edge("anchor", None, anchor.version, 0)
        table = self._tables[self._records.versions[anchor.version].record.tensors]
        target = ArraysTarget()
        digest = int(anchor.state_digest, 16)
        try:
            check_room(self._transfer, anchor.snapshot, table, table.tensors, self._deadline)
            target.begin_snapshot(table, table.tensors)
            load_snapshot(
                self._transfer,
                anchor.snapshot,
                table,
                table.tensors,
                target,
                self._deadline,
                state_digest=digest,
            )
        except DeltawireError as error:
            self._fail(edge, error)
        else:
            self.states += 1

    def _held(self) -> int | None:
        return None if self._target.held is None else self._target.held.committed.record.version

    def _reach(self, number: int) -> bool:
        """Become a version, by its own step if that can be taken; False if no way is left."""
        while (steps := self._steps_to(number)) is not None:
            for edge in steps:
                try:
                    self._take(edge)
                except DeltawireError as error:
                    self._fail(edge, error)
                    break
            else:
                return True
        return False

    def _steps_to(self, number: int) -> list[Edge] | None:
        if ("snapshot", None, number) in self._ways:
            return [self._ways.edge(("snapshot", None, number))]
        if self._held() == number - 1 and ("delta", number - 1, number) in self._ways:
            return [self._ways.edge(("delta", number - 1, number))]
        return self._ways.way(number, held=self._held())

    def _take(self, edge: Edge) -> None:
        version = self._records.versions[edge.target]
        record = version.record
        table = self._tables[record.tensors]
        held = self._target.held
        if edge.kind in {"anchor", "snapshot"}:
            anchor = self._records.anchors.get(edge.target)
            snapshot = anchor.snapshot if edge.kind == "anchor" and anchor is not None else record.snapshot
            assert snapshot is not None  # noqa: S101 - the edge comes from it
            self._target = ArraysTarget()  # the old state goes first: two in memory would be one too many
            take_snapshot(
                self._transfer, self._target, snapshot, version, table, table.tensors, self._deadline, self._clock
            )
            return
        assert edge.base is not None  # noqa: S101 - of a delta or a span
        assert held is not None  # noqa: S101 - the way leads from there
        delta = self._records.spans[edge.base, edge.target].delta if edge.kind == "span" else record.delta
        assert delta is not None  # noqa: S101 - the edge comes from it
        take_delta(self._transfer, self._target, delta, version, table, held, self._deadline, self._clock)

    def _has_its_digest(self, number: int) -> bool:
        """The digest of the whole state, element by element."""
        held = self._target.held
        assert held is not None  # noqa: S101 - the version was reached
        digest = digest_held(self._target, held)
        if digest == int(held.committed.record.state_digest, 16):
            return True
        wrong = StateMismatchError(f"version {number} was rebuilt with digest {digest:016x}")
        self._findings.add(wrong, keys.version_key(number), Use("version", number), requirement="DIG-6")
        self._target = ArraysTarget()
        return False

    def _try_span(self, span: SpanRecord) -> None:
        """What a span makes of the state held, without making it. SPN-2"""
        edge = Edge("span", span.base, span.version, 0)
        held = self._target.held
        assert held is not None  # noqa: S101 - it is the base
        if ("span", span.base, span.version) not in self._ways:
            return
        try:
            staged = stage_delta(
                self._transfer, span.delta, held.table, held.tensors, self._target.bits, self._deadline, self._clock
            )
            if staged.digest_from(held.digest) != int(span.state_digest, 16):
                raise StateMismatchError(f"the span does not lead to version {span.version}")
        except DeltawireError as error:
            self._fail(edge, error)
        else:
            self.spans += 1

    def _fail(self, edge: Edge, error: DeltawireError) -> None:
        """Note that a step does not lead where it should, and take it no more."""
        number, base = edge.target, edge.base
        requirement = None
        if edge.kind == "span":
            assert base is not None  # noqa: S101 - of a span
            key, requirement = keys.span_key(base, number), "SPN-2" if error.code == "state_mismatch" else None
        elif edge.kind == "anchor":
            key, requirement = keys.anchor_key(number), "ANC-3" if error.code == "state_mismatch" else None
        else:
            key = keys.version_key(number)
        role: Role = edge.kind if edge.kind in {"anchor", "span"} else "version"
        self._findings.add(error, key, Use(role, number, kind=edge.kind, base=base), requirement=requirement)
        self._ways.close((edge.kind, base, number))
