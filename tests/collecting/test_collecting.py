"""What a collecting pass removes, and what it must not."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltawire import Follower, Publisher, fork
from deltawire.errors import (
    LimitExceededError,
    MalformedRecordError,
    StreamNotFoundError,
    UnsupportedFeatureError,
)
from deltawire.format import keys
from deltawire.inspecting.verification import verify_stream
from deltawire.limits import DEFAULT_LIMITS, MIB
from deltawire.maintaining.boundary import Boundary
from deltawire.maintaining.collecting import CollectOptions, Collector
from deltawire.maintaining.retaining import EVERYTHING, Choice, RetentionPolicy
from deltawire.producer import envelope as producer_envelope
from deltawire.producer.anchors import NEVER
from deltawire.reading.stream import StreamReader
from deltawire.reading.transfer import Transfer
from deltawire.store.memory import MemoryStore
from tests.collecting.lines import (
    NEVER_ENDS,
    Plan,
    add_anchor,
    add_orphan,
    add_span,
    check_applies,
    check_nothing_else,
    check_reachable,
    collect,
    collector,
    contents,
    descriptors,
    keep_last,
    line,
    new_store,
    numbers,
    pin,
    pins_of,
    reading,
    released,
    retention_of,
    rewrite,
    state,
    stream_of,
    version_of,
)
from tests.faults.faulty_store import FaultyStore

PLAN = Plan()


def move(store: MemoryStore, boundary: int, *kept: int) -> None:
    where = Boundary(store, stream_of(store), limits=DEFAULT_LIMITS)
    assert where.move(where.read(), Choice(boundary, kept))


def does_nothing(store: MemoryStore, policy: RetentionPolicy) -> bool:
    """Whether there is nothing left for a pass to do but to remove pins of readers that have ended."""
    return not replace(collect(store, policy), pins=0).changed


def test_the_newest_versions_stay() -> None:
    store = line(PLAN)
    done = collect(store, keep_last(2))
    assert (done.previous_boundary, done.boundary, done.newest) == (0, 6, 7)
    assert done.versions == ((0, 5),)
    assert numbers(store) == [6, 7]
    assert numbers(store, keys.ANCHORS) == [6]
    assert done.anchors == 1
    assert retention_of(store).boundary == 6
    check_reachable(store, PLAN, [6, 7])
    check_nothing_else(store, lambda number: number >= 6)
    assert verify_stream(store, deep=True).sound
    assert does_nothing(store, keep_last(2))


def test_a_new_version_and_a_new_pass() -> None:
    store = line(PLAN)
    with collector(store, keep_last(1)) as it:
        it.run(NEVER_ENDS)
        with Publisher(store, anchors=NEVER, take_over=True) as publisher:
            publisher.publish(state(8), files={"config.json": b"{}"})
            publisher.publish(state(9, wide=True), files={"config.json": b"{}"})
        done = it.run(NEVER_ENDS)
    assert done.boundary == 9
    assert numbers(store) == [9]


def test_no_policy_collects_no_version() -> None:
    store = line(PLAN)
    before = contents(store)
    assert not collect(store).changed
    assert contents(store) == before


def test_every_so_many_versions_stay() -> None:
    store = line(PLAN)
    policy = RetentionPolicy(keep_last=1, keep_every=3)
    done = collect(store, policy)
    assert (done.boundary, done.kept, done.versions) == (6, ((0, 0), (3, 3)), ((1, 2), (4, 5)))
    assert numbers(store) == [0, 3, 6, 7]
    check_reachable(store, PLAN, [0, 3, 6, 7])
    assert does_nothing(store, policy)
    fewer = collect(store, RetentionPolicy(keep_last=1, keep_every=6))
    assert (fewer.kept, numbers(store)) == (((0, 0),), [0, 6, 7])
    check_reachable(store, PLAN, [0, 6, 7])
    check_nothing_else(store, lambda number: number in {0, 6, 7})


def test_a_kept_version_must_have_its_snapshot() -> None:
    store = line(PLAN)
    shard = next(d["key"] for d in descriptors(store, keys.anchor_key(3)) if d["key"].endswith(".safetensors"))
    store.delete(shard)
    done = collect(store, RetentionPolicy(keep_last=1, keep_every=3))
    assert done.kept == ((0, 0),)


@pytest.mark.parametrize("what", ["missing", "short", "record"])
def test_the_boundary_must_have_its_snapshot(what: str) -> None:
    store = line(PLAN)
    shard = next(d["key"] for d in descriptors(store, keys.anchor_key(6)) if d["key"].endswith(".safetensors"))
    if what == "missing":
        store.delete(shard)
    elif what == "short":
        store.put(shard, b"?", mode="overwrite")
    else:
        store.put(keys.anchor_key(6), b"{}", mode="overwrite")
    done = collect(store, keep_last(1))
    assert done.boundary == 3
    check_reachable(store, PLAN, [3, 4, 5])


def test_by_size() -> None:
    store = line(PLAN)
    all_of_it = sum(info.bytes for prefix in (keys.DATA, keys.VERSIONS, keys.ANCHORS) for info in store.list(prefix))
    assert collect(store, RetentionPolicy(max_bytes=all_of_it)).boundary == 0
    assert collect(store, RetentionPolicy(max_bytes=all_of_it - 1)).boundary == 3
    assert collect(store, RetentionPolicy(max_bytes=0)).boundary == 6


def test_by_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the times in records: 0, 10, 5, 20, 30 s."""
    store, stamps = new_store(), [0, 10, 5, 20, 30]
    with Publisher(store, anchors=NEVER) as publisher:
        for number, second in enumerate(stamps):
            monkeypatch.setattr(producer_envelope, "now", lambda s=second: f"2026-12-01T09:00:{s:02d}.5Z")
            publisher.publish(PLAN.state(number))
    for number in range(1, 5):
        add_anchor(store, number)
    boundaries = {
        seconds: collect(store, RetentionPolicy(keep_for=seconds), dry_run=True).boundary
        for seconds in (0.0, 9.9, 10.0, 20.0, 24.9, 25.0, 30.0, 1e9)
    }
    assert boundaries == {0.0: 4, 9.9: 4, 10.0: 3, 20.0: 1, 24.9: 1, 25.0: 1, 30.0: 0, 1e9: 0}


def test_spans_go_with_either_end() -> None:
    store = line(PLAN)
    part = {span: add_span(store, *span) for span in [(0, 2), (2, 7), (3, 6), (6, 7)]}
    done = collect(store, keep_last(1))
    assert done.spans == 3
    assert {info.key for info in store.list(keys.SPANS)} == {keys.span_key(6, 7)}
    there = {info.key for info in store.list(keys.DATA)}
    assert {span for span, key in part.items() if key in there} == {(6, 7)}


def test_spans_between_kept_versions_stay() -> None:
    store = line(PLAN)
    parts = [add_span(store, *span) for span in [(0, 3), (3, 6)]]
    collect(store, RetentionPolicy(keep_last=1, keep_every=3))
    assert {info.key for info in store.list(keys.SPANS)} == {keys.span_key(0, 3), keys.span_key(3, 6)}
    assert {info.key for info in store.list(keys.DATA)} >= set(parts)


def test_files_and_tables_that_later_versions_name_stay() -> None:
    store = line(PLAN)
    collect(store, keep_last(1))
    check_applies(store, [6, 7])


def inherit(store: MemoryStore, owner: int, heirs: list[int]) -> str:
    """An auxiliary file that version ``owner`` has brought along, and that others repeat. KEY-9"""
    key = keys.data_prefix(owner, version_of(store, owner).commit_id) + "vocab.txt"
    store.put(key, b"words", mode="create")
    for number in [owner, *heirs]:
        record = json.loads(store.get(keys.version_key(number), max_bytes=MIB).data)
        file = dict(record["files"][0], name="vocab.txt", key=key)
        rewrite(store, keys.version_key(number), files=[*record["files"], file])
    return key


def test_what_is_inherited_goes_with_the_last_that_names_it() -> None:
    plan = Plan(anchors=())
    store = line(plan)
    gone = inherit(store, 1, [2, 3])
    stays = inherit(store, 2, [3, 4, 5])
    move(store, 5)
    collect(store)
    assert numbers(store) == [5, 6, 7]
    there = {info.key for info in store.list(keys.DATA)}
    assert gone not in there
    assert stays in there
    move(store, 6)
    collect(store)
    assert stays not in {info.key for info in store.list(keys.DATA)}


def test_what_a_kept_or_pinned_version_inherits_stays() -> None:
    store = line(PLAN)
    kept, pinned = inherit(store, 0, [1, 2, 3]), inherit(store, 4, [5])
    held = pin(store, 5, 5)
    move(store, 6, 3)
    collect(store)
    assert numbers(store) == [3, 5, 6, 7]
    assert {kept, pinned} <= {info.key for info in store.list(keys.DATA)}
    held.release()
    move(store, 6)
    collect(store)
    assert not {kept, pinned} & {info.key for info in store.list(keys.DATA)}


def test_a_record_that_goes_takes_nothing_with_it_that_is_anothers() -> None:
    """Records are not trusted: one that names what others have brought must not delete it."""
    store = line(PLAN)
    with Publisher(store, anchors=NEVER, take_over=True):
        pass
    victims = [d["key"] for number in (6, 7) for d in descriptors(store, keys.version_key(number))]
    victims += [d["key"] for d in descriptors(store, keys.anchor_key(6))]
    next_one = add_orphan(store, 8)
    victims += [next_one, keys.STREAM, keys.HEAD, keys.LEASE, keys.version_key(7), keys.anchor_key(6)]
    record = json.loads(store.get(keys.version_key(2), max_bytes=MIB).data)
    files = [dict(record["files"][0], name=f"f{n}", key=key) for n, key in enumerate(victims)]
    rewrite(store, keys.version_key(2), files=files)
    add_span(store, 2, 7)
    newest = json.loads(store.get(keys.version_key(7), max_bytes=MIB).data)
    rewrite(store, keys.span_key(2, 7), commit_id=newest["commit_id"], delta=newest["delta"])
    collect(store, keep_last(1))
    there = {info.key for info in store.list("")}
    assert set(victims) <= there
    check_reachable(store, PLAN, [6, 7])


def test_a_record_below_the_boundary_that_cannot_be_read_goes_too() -> None:
    store = line(PLAN)
    store.put(keys.version_key(2), b"{}", mode="overwrite")
    store.put(keys.anchor_key(3), b"{}", mode="overwrite")
    done = collect(store, keep_last(1))
    assert numbers(store) == [6, 7]
    assert done.orphans > 0  # what they named is not known any more
    check_nothing_else(store, lambda number: number >= 6)


@pytest.mark.parametrize("how", ["damaged", "missing"])
def test_a_version_that_stays_and_cannot_be_read_ends_the_collecting(how: str) -> None:
    """What it names cannot be known. COL-5"""
    store = line(PLAN)
    orphan = add_orphan(store, 2)
    move(store, 6)
    if how == "damaged":
        store.put(keys.version_key(6), b"{}", mode="overwrite")
    else:
        store.delete(keys.version_key(6))
    before = contents(store)
    done = collect(store)
    assert not done.changed
    assert "cannot be read" in done.notes[0]
    assert contents(store) == before
    assert orphan in before


def test_a_record_of_a_stalled_writer_goes_again() -> None:
    store = line(PLAN)
    late = {key: store.get(key, max_bytes=MIB).data for key in [keys.version_key(4), keys.anchor_key(3)]}
    named = {d["key"]: store.get(d["key"], max_bytes=MIB).data for k in late for d in descriptors(store, k)}
    collect(store, keep_last(1))
    for key, data in (named | late).items():
        store.put(key, data, mode="overwrite")
    done = collect(store)
    assert (done.versions, done.anchors) == (((4, 4),), 1)
    check_nothing_else(store, lambda number: number >= 6)
    check_reachable(store, PLAN, [6, 7])


def test_an_anchor_and_a_span_of_what_is_gone_go() -> None:
    store = line(PLAN)
    move(store, 6)
    add_span(store, 1, 4)
    for number in range(6):
        store.delete(keys.version_key(number))
    done = collect(store)
    assert (done.anchors, done.spans) == (1, 1)
    assert done.orphans > 0  # of the records that were lost
    check_nothing_else(store, lambda number: number >= 6)


# Streams in which nothing may be done


def test_a_stream_without_versions() -> None:
    store = new_store()
    with Publisher(store, anchors=NEVER):
        pass
    orphan = add_orphan(store, 0)
    before = contents(store)
    done = collect(store, keep_last(1))
    assert (done.newest, done.changed) == (None, False)
    assert contents(store) == before
    assert orphan in before  # FRK-8


def test_no_stream() -> None:
    with pytest.raises(StreamNotFoundError):
        collect(new_store())


def test_a_stream_with_a_feature_that_is_not_known() -> None:
    store = line(PLAN)
    rewrite(store, keys.STREAM, writer_features=["later"])
    with pytest.raises(UnsupportedFeatureError):  # VER-3
        collect(store, keep_last(1))
    assert numbers(store) == list(range(8))


@pytest.mark.parametrize("policy", [EVERYTHING, keep_last(1)])
def test_a_boundary_that_cannot_be_read(policy: RetentionPolicy) -> None:
    store = line(PLAN)
    store.put(keys.RETENTION, b"{}", mode="overwrite")
    before = contents(store)
    with pytest.raises(MalformedRecordError):  # RET-4
        collect(store, policy)
    assert contents(store) == before


def test_a_listing_that_claims_too_much() -> None:
    store = line(PLAN)
    store.put(keys.version_key(1 << 40), b"{}", mode="overwrite")
    with pytest.raises(LimitExceededError):
        collect(store, keep_last(1))
    assert numbers(store) == [*range(8), 1 << 40]


# Saying and stopping


@pytest.mark.parametrize("policy", [keep_last(1), RetentionPolicy(keep_last=2, keep_every=3)])
def test_a_dry_run_writes_nothing_and_says_what_a_pass_does(policy: RetentionPolicy) -> None:
    memory = line(PLAN)
    add_orphan(memory, 5)
    add_orphan(memory, 7)
    add_span(memory, 1, 6)
    released(memory, 2)
    store = FaultyStore(memory)
    said = collect(store, policy, dry_run=True)
    assert not store.effects
    done = collect(memory, policy)
    names = (
        "boundary",
        "kept",
        "versions",
        "anchors",
        "spans",
        "objects",
        "bytes",
        "orphans",
        "waiting_orphans",
        "pins",
    )
    assert {name: getattr(said, name) for name in names} == {name: getattr(done, name) for name in names}
    assert said.changed
    assert said.orphans == said.waiting_orphans == said.pins == said.spans == 1


def test_a_pass_that_is_stopped_is_taken_up_by_the_next() -> None:
    memory = line(PLAN)
    for stop_at in range(60):
        store, stop = FaultyStore(line(PLAN)), threading.Event()
        store.before = lambda call, stop=stop, at=stop_at: stop.set() if call.index == at else None  # type: ignore[misc]
        transfer = Transfer(store, workers=1)
        done = Collector(StreamReader(transfer), CollectOptions(policy=keep_last(1)), stop=stop).run(NEVER_ENDS)
        transfer.close()
        assert not stop.is_set() or any("stopped" in note for note in done.notes)
        memory = store.inner  # type: ignore[assignment]
        collect(memory, keep_last(1))
        assert numbers(memory) == [6, 7]
        check_nothing_else(memory, lambda number: number >= 6)


def test_a_fork_is_not_touched_by_collecting_in_its_source() -> None:
    source, copy = line(PLAN), new_store()
    fork(source, copy, version=3)
    collect(source, keep_last(1))
    with Follower(copy, pin=False) as follower:
        follower.poll()
        follower.verify()
        assert follower.arrays["a"].tobytes() == PLAN.state(3)["a"].tobytes()
    assert does_nothing(copy, keep_last(1))


# Everything together


@st.composite
def cases(draw: st.DrawFn) -> tuple[Plan, dict[str, Any]]:
    count = draw(st.integers(1, 7))
    anchors = tuple(sorted(draw(st.sets(st.integers(1, count - 1), max_size=3)))) if count > 1 else ()
    rebase = draw(st.none() | st.integers(1, count - 1)) if count > 1 else None
    what: dict[str, Any] = {
        "keep_last": draw(st.none() | st.integers(1, count)),
        "keep_every": draw(st.none() | st.integers(1, 4)),
        "max_bytes": draw(st.none() | st.integers(0, 20_000)),
    }
    if what["keep_last"] is None and what["max_bytes"] is None:
        what["keep_every"] = None
    return Plan(count, anchors, rebase), what


@given(cases(), st.data())
def test_what_stays_can_be_read_and_nothing_else_stays(case: tuple[Plan, dict[str, Any]], data: st.DataObject) -> None:
    plan, rules = case
    store = line(plan)
    if plan.count > 1 and data.draw(st.booleans()):
        collect(store, RetentionPolicy(keep_last=data.draw(st.integers(1, plan.count)), keep_every=2))
    for _ in range(data.draw(st.integers(0, 2))):
        add_orphan(store, data.draw(st.integers(0, plan.count - 1)))
    if plan.count > 2 and plan.rebase is None:
        for target in data.draw(st.sets(st.integers(2, plan.count - 1), max_size=2)):
            if {target, target - 2} <= set(numbers(store)):
                add_span(store, target - 2, target)
    held = {}
    for _ in range(data.draw(st.integers(0, 2))):
        first = data.draw(st.sampled_from(numbers(store)))
        last = data.draw(st.none() | st.integers(first, plan.count))
        if data.draw(st.booleans()):
            released(store, first)
        else:
            pin(store, first, last)
            held[first] = last
    before = set(numbers(store))
    done = collect(store, RetentionPolicy(**rules))
    retention = retention_of(store)

    def stays(number: int) -> bool:
        return number in retention or any(
            first <= number and (last is None or number <= last) for first, last in held.items()
        )

    assert set(numbers(store)) == {number for number in before if stays(number)}
    assert all(number in retention for number in before if stays(number))  # nobody's versions were given up
    assert retention.boundary == done.boundary
    check_reachable(store, plan, [number for number in numbers(store) if number in retention])
    check_nothing_else(store, stays)
    assert len(pins_of(store)) == len([p for p in pins_of(store) if not p.released])
    # The spans of this test are spans as far as collecting looks into them.
    assert not [f for f in verify_stream(store, deep=True).findings if not f.key.startswith(keys.SPANS)]
    with reading(store) as reader:
        assert reader.latest(NEVER_ENDS) == plan.count - 1
    assert does_nothing(store, RetentionPolicy(**rules))
