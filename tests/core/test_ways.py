"""Ways over deltas, spans, anchors and rebases: random streams of records against every way that there is."""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from deltawire.deadline import Deadline
from deltawire.errors import DeltawireError, DigestMismatchError, PathLostError, VersionNotFoundError
from deltawire.format import keys, records
from deltawire.format.records import (
    ARROW_TYPE,
    JSON_TYPE,
    SAFETENSORS_TYPE,
    AnchorRecord,
    Delta,
    Descriptor,
    Parent,
    Part,
    Shard,
    Snapshot,
    SpanRecord,
    StreamRecord,
    VersionRecord,
)
from deltawire.format.strict_json import sha256
from deltawire.producer.envelope import envelope
from deltawire.reading.planner import Edge, Link, Routes, plan
from deltawire.reading.stream import Committed, StreamReader
from deltawire.reading.transfer import Transfer
from deltawire.reading.ways import Step, WayFinder
from deltawire.store.base import Store
from deltawire.store.memory import MemoryStore
from tests.faults.faulty_store import Call, FaultyStore
from tests.retaining import retain

UUID = "00000000-0000-4000-8000-000000000000"
FOREVER = Deadline(None)
MASK = (1 << 64) - 1
_NUMBERS = itertools.count()


def descriptor(name: str, size: int = 8) -> Descriptor:
    return Descriptor(key=f"data/{name}", media_type=JSON_TYPE, bytes=size, digest=sha256(name.encode()))


def snapshot(name: str, size: int) -> Snapshot:
    shard = Shard(
        key=f"data/{name}.safetensors",
        media_type=SAFETENSORS_TYPE,
        bytes=size,
        digest=sha256(b""),
        header_bytes=8,
        header_digest=sha256(b""),
        first_tensor=0,
        last_tensor=0,
    )
    return Snapshot(shards=(shard,), index=descriptor("index"))


def delta(name: str, size: int, before: int, after: int) -> Delta:
    part = Part(key=f"data/{name}.arrow", media_type=ARROW_TYPE, bytes=size, digest=sha256(b""), streams=(), batches=())
    return Delta(
        changed_elements=1,
        changed_tensors=1,
        digest_before="0" * 16,
        digest_after=f"{(after - before) & MASK:016x}",
        parts=(part,),
    )


@dataclass
class Line:
    """Records alone, of any sizes: nothing that they name is there."""

    store: MemoryStore = field(default_factory=lambda: MemoryStore(f"ways-{next(_NUMBERS) % 8}"))
    edges: dict[Link, Edge] = field(default_factory=dict)
    """All that leads somewhere."""
    versions: list[Committed] = field(default_factory=list)
    rebases: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        for info in list(self.store.list("")):
            self.store.delete(info.key)
        self._put(keys.STREAM, StreamRecord(**self._head("stream"), writers="many"))

    def _head(self, kind: str) -> dict[str, Any]:
        return envelope(UUID, kind, epoch=0, writer_features=()) | {"stream_id": UUID}

    def _put(self, key: str, record: records.Envelope) -> bytes:
        data = records.encode(record)
        self.store.put(key, data, mode="overwrite")
        return data

    def _state(self, number: int) -> int:
        return (number * 0x9E3779B97F4A7C15) & MASK

    def _table(self, number: int) -> Descriptor:
        return descriptor(f"table-{max(rebase for rebase in self.rebases if rebase <= number)}")

    def add(self, size: int, *, rebase: bool = False) -> int:
        number = len(self.versions)
        kind: Any = "snapshot" if rebase else "delta"
        if rebase:
            self.rebases.add(number)
        before = self.versions[-1] if self.versions else None
        record = VersionRecord(
            **self._head("version"),
            version=number,
            parent=None if before is None else Parent(version=number - 1, digest=before.digest),
            tensors=self._table(number),
            state_digest=f"{self._state(number):016x}",
            snapshot=snapshot(f"v{number}", size) if rebase else None,
            delta=None if rebase else delta(f"v{number}", size, self._state(number - 1), self._state(number)),
        )
        data = self._put(keys.version_key(number), record)
        self.versions.append(Committed(record, sha256(data), data))
        self._edge(Edge(kind, None if rebase else number - 1, number, size))
        return number

    def anchor(self, number: int, size: int) -> None:
        version = self.versions[number]
        record = AnchorRecord(
            **self._head("anchor"),
            version=number,
            version_digest=version.digest,
            tensors=version.record.tensors,
            state_digest=version.record.state_digest,
            snapshot=snapshot(f"a{number}", size),
        )
        self._put(keys.anchor_key(number), record)
        self._edge(Edge("anchor", None, number, size))

    def span(self, base: int, target: int, size: int, **members: Any) -> None:
        """A span; a lie if members are given, and then no edge."""
        first, last = self.versions[base], self.versions[target]
        values: dict[str, Any] = {
            **self._head("span"),
            "base": base,
            "base_digest": first.digest,
            "version": target,
            "version_digest": last.digest,
            "tensors": last.record.tensors,
            "state_digest": last.record.state_digest,
            "delta": delta(f"s{base}-{target}", size, self._state(base), self._state(target)),
            "replaces_bytes": self.replayed(base, target),
        }
        self._put(keys.span_key(base, target), SpanRecord(**(values | members)))
        if not members:
            self._edge(Edge("span", base, target, size))

    def _edge(self, edge: Edge) -> None:
        self.edges[edge.link] = edge

    def replayed(self, base: int, target: int) -> int:
        return sum(self.edges[Link("delta", number - 1, number)].bytes for number in range(base + 1, target + 1))

    def straight(self, base: int, target: int) -> bool:
        """Whether deltas lead from one version to the other."""
        return not any(base < rebase <= target for rebase in self.rebases)

    def finder(self, store: Store | None = None) -> tuple[WayFinder, Transfer]:
        transfer = Transfer(self.store if store is None else store, workers=2)
        return WayFinder(StreamReader(transfer), FOREVER), transfer

    def find(self, target: int, held: int | None) -> list[Step]:
        finder, transfer = self.finder()
        try:
            return finder.find(target, None if held is None else self.versions[held])
        finally:
            transfer.close()


sizes = st.integers(8, 60)


@st.composite
def random_lines(draw: st.DrawFn) -> Line:
    """A few versions, some of them rebases, with anchors, true spans that obey SPN-3, and some that lie."""
    line = Line()
    line.add(draw(st.integers(8, 300)), rebase=True)
    for _ in range(draw(st.integers(0, 14))):
        rebase = draw(st.integers(0, 11)) == 0
        line.add(draw(st.integers(8, 300) if rebase else sizes), rebase=rebase)
    newest = len(line.versions) - 1
    for number in draw(st.sets(st.integers(0, newest), max_size=4)):
        line.anchor(number, draw(st.integers(8, 300)))
    pairs = st.tuples(st.integers(0, newest), st.integers(0, newest)).filter(lambda pair: pair[0] < pair[1])
    for base, target in draw(st.sets(pairs, max_size=8)) if newest else ():
        if not line.straight(base, target):
            continue
        if draw(st.integers(0, 4)):
            line.span(base, target, draw(st.integers(0, line.replayed(base, target))))
        else:
            line.span(base, target, 0, version_digest=sha256(b""))
    return line


def check_way(line: Line, way: list[Step], held: int | None, target: int, retained: set[int]) -> int:
    """It leads there over what is there, and never back; its bytes."""
    at = held
    for step in way:
        edge = step.edge
        assert line.edges[edge.link] == edge
        assert edge.base is None or edge.base == at
        assert at is None or edge.target > at
        assert edge.target in retained
        assert step.version == line.versions[edge.target]
        assert (step.snapshot is None) == (edge.kind in ("delta", "span"))
        assert (step.delta is None) == (edge.kind in ("anchor", "snapshot"))
        at = edge.target
    assert at == target
    return sum(step.edge.bytes for step in way)


@settings(max_examples=120)
@given(random_lines(), st.data())
def test_any_line(line: Line, data: st.DataObject) -> None:
    newest = len(line.versions) - 1
    target = data.draw(st.integers(0, newest))
    held = data.draw(st.one_of(st.none(), st.integers(0, target)))
    snapshots = sorted({edge.target for edge in line.edges.values() if edge.base is None})
    boundary = data.draw(st.sampled_from([0, 0, *snapshots]))
    kept = data.draw(st.sets(st.sampled_from([n for n in snapshots if n < boundary] or [newest])))
    kept = {number for number in kept if number < boundary}
    if boundary:
        retain(line.store, boundary, *sorted(kept))
    retained = {*range(boundary, newest + 1), *kept}
    collected = data.draw(st.booleans())
    for number in set(range(newest + 1)) - retained if collected else ():
        line.store.delete(keys.version_key(number))
    usable = [
        edge
        for edge in line.edges.values()
        if edge.target in retained
        and (edge.base is None or edge.base in retained or edge.base == held)
        and (held is None or edge.target > held)
    ]
    if held == target:
        assert line.find(target, held) == []
        return
    if target not in retained:
        with pytest.raises(VersionNotFoundError):
            line.find(target, held)
        return
    best = sum(edge.bytes for edge in plan(usable, held=held, target=target))  # RET-2: there is a way
    found = check_way(line, line.find(target, held), held, target, retained)
    assert found >= best
    starts = [held] if held is not None and held >= boundary - 1 else []
    for start in starts:
        if line.straight(start, target):
            assert found <= line.replayed(start, target)
    anchors = [edge for edge in usable if edge.kind in ("anchor", "snapshot") and edge.target <= target]
    near = held is not None and target - held <= 4
    for edge in sorted(anchors, key=lambda edge: edge.target)[-1:]:
        # From the newest snapshot by replaying; a near reader knows only of rebases.
        if target >= boundary and (not near or edge.kind == "snapshot"):
            assert found <= edge.bytes + line.replayed(edge.target, target)


@settings(max_examples=100)
@given(random_lines(), st.data())
def test_every_way_is_tried_until_none_is_left(line: Line, data: st.DataObject) -> None:
    """One step after the other proves to be no good: each new way does without them, as long as there is one."""
    newest = len(line.versions) - 1
    target = data.draw(st.integers(0, newest))
    held = data.draw(st.one_of(st.none(), st.integers(0, target)))
    assume(held != target)
    chance = random.Random(data.draw(st.integers(0, 1000)))  # drawn before: of equally good ways any may be found
    good = {link: edge for link, edge in line.edges.items() if held is None or edge.target > held}
    first: DeltawireError | None = None
    finder, transfer = line.finder()
    try:
        while True:
            try:
                plan(good.values(), held=held, target=target)
            except PathLostError:
                with pytest.raises(DeltawireError) as raised:
                    finder.find(target, None if held is None else line.versions[held])
                assert raised.value is first or (first is None and isinstance(raised.value, PathLostError))
                return
            way = finder.find(target, None if held is None else line.versions[held])
            check_way(line, way, held, target, set(range(newest + 1)))
            assert all(step.edge.link in good for step in way)
            worst = chance.choice(way).edge.link
            error = DigestMismatchError(f"{worst} is damaged")
            first = first or error
            finder.pass_over(worst, error)
            del good[worst]
    finally:
        transfer.close()


@given(random_lines(), st.data())
def test_records_that_are_not_there(line: Line, data: st.DataObject) -> None:
    """Holes, which only an accident makes: what is left of the ways is found."""
    newest = len(line.versions) - 1
    target = data.draw(st.integers(0, newest))
    held = data.draw(st.one_of(st.none(), st.integers(0, target)))
    gone = data.draw(st.sets(st.integers(0, newest), max_size=3)) - {target}
    assume(held != target)
    for number in gone:
        line.store.delete(keys.version_key(number))
    usable = [
        edge
        for edge in line.edges.values()
        if edge.target not in gone
        and (edge.base is None or edge.base == held or edge.base not in gone)
        and (held is None or edge.target > held)
    ]
    try:
        plan(usable, held=held, target=target)
    except PathLostError:
        with pytest.raises(DeltawireError):
            line.find(target, held)
        return
    check_way(line, line.find(target, held), held, target, set(range(newest + 1)) - gone)


def ladder(newest: int, *, smallest: int = 4, largest: int = 1024) -> list[tuple[int, int]]:
    lengths = itertools.takewhile(lambda length: length <= largest, (smallest << k for k in itertools.count()))
    return [(start, start + length) for length in lengths for start in range(0, newest - length + 1, length)]


@given(st.integers(0, 900), st.integers(1, 900))
def test_a_ladder_makes_any_distance_short(start: int, distance: int) -> None:
    target = start + distance
    routes = Routes(ladder(target), target=target, starts=[start])
    way = list(routes.way(start))
    assert len(way) == routes.steps(start)
    assert len(way) <= 2 * math.log2(distance) + 6
    assert [link.base for link in way] == [start, *(link.target for link in way[:-1])]
    assert way[-1].target == target


@settings(max_examples=80)
@given(st.sets(st.tuples(st.integers(0, 9), st.integers(1, 9)), max_size=12), st.integers(0, 8), st.data())
def test_routes_have_the_fewest_steps(pairs: set[tuple[int, int]], start: int, data: st.DataObject) -> None:
    spans = {(base, min(base + length, 9)) for base, length in pairs if base < 9}
    links = [Link("span", *span) for span in spans] + [Link("delta", n - 1, n) for n in range(1, 10)]
    bad = data.draw(st.sets(st.sampled_from(links), max_size=3))
    gone = data.draw(st.sets(st.integers(0, 8), max_size=2)) - {start}
    usable = [Edge(*link, 1) for link in links if link not in bad and link.target not in gone and link.base not in gone]
    routes = Routes(spans, target=9, starts=[start], gone=gone, bad=bad)
    try:
        best = plan(usable, held=start, target=9)
    except PathLostError:
        assert routes.steps(start) is None
        return
    way = list(routes.way(start))
    assert len(way) == len(best) == routes.steps(start)
    assert all(Edge(*link, 1) in usable for link in way)


def read(line: Line, target: int, held: int | None) -> tuple[list[Step], list[Call]]:
    store = FaultyStore(line.store)
    finder, transfer = line.finder(store)
    try:
        return finder.find(target, None if held is None else line.versions[held]), store.log
    finally:
        transfer.close()


def long_line(newest: int) -> Line:
    line = Line()
    line.add(10_000, rebase=True)
    for _ in range(newest):
        line.add(100)
    for base, target in ladder(newest):
        line.span(base, target, 60 * (target - base))
    return line


def test_far_behind_few_records_are_read() -> None:
    line = long_line(300)
    line.anchor(256, 20_000)
    way, log = read(line, 299, 3)
    assert {step.edge.kind for step in way} == {"delta", "span"}
    assert len(way) <= 12
    assert len(log) <= 4 + 3 * len(way)
    assert len([call for call in log if call.verb == "list"]) == 2
    way, log = read(line, 299, None)
    assert way[0].edge.link == Link("anchor", None, 256)
    assert len(log) <= 5 + 3 * len(way)


def test_few_versions_behind_nothing_is_listed() -> None:
    line = long_line(40)
    way, log = read(line, 40, 36)
    assert [step.edge.kind for step in way] == ["delta"] * 4
    assert not [call for call in log if call.verb == "list"]
    assert [call.key for call in log][-1] == keys.RETENTION  # after the records. RET-3
    assert len(log) == 6


@pytest.mark.parametrize("bad", [(0, 4), (4, 8), (0, 8)])
def test_a_span_that_is_gone_or_lies_is_replaced(bad: tuple[int, int]) -> None:
    line = long_line(12)
    line.store.delete(keys.span_key(*bad))
    line.span(*bad, 1, state_digest="0" * 16)
    way = line.find(12, 0)
    assert bad not in [(step.edge.base, step.edge.target) for step in way]
    assert check_way(line, way, 0, 12, set(range(13))) < line.replayed(0, 12)


def test_what_was_passed_over_is_said_in_one_sentence() -> None:
    line = long_line(20)
    line.anchor(16, 30)
    line.anchor(8, 30)
    finder, transfer = line.finder()
    try:
        newest, older = Link("anchor", None, 16), Link("anchor", None, 8)
        assert str(newest) == "the anchor of version 16"
        assert finder.find(20, None)[0].edge.link == newest
        finder.pass_over(newest, DigestMismatchError("x is not what its record says"))
        assert finder.find(20, None)[0].edge.link == older
        [note] = finder.notes
        assert note == f"{newest} could not be used (digest_mismatch: x is not what its record says): took {older}"
    finally:
        transfer.close()


def test_a_record_where_one_was_collected_is_not_followed() -> None:
    line = long_line(20)
    line.anchor(16, 30)
    retain(line.store, 16)
    for number in (*range(10), *range(11, 16)):
        line.store.delete(keys.version_key(number))
    way = line.find(20, 9)  # version 10, which follows from what is held, was created by a writer that had stalled
    assert [step.edge.link for step in way] == [Link("anchor", None, 16), Link("span", 16, 20)]
    with pytest.raises(VersionNotFoundError, match="retained"):
        line.find(10, 9)
