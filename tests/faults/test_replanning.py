"""Ways that turn out to be no good, damaged or collected: another one is taken, as long as there is one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from deltawire import Follower, rollback
from deltawire.errors import (
    DigestMismatchError,
    MalformedRecordError,
    MissingObjectError,
    PathLostError,
    VersionNotFoundError,
)
from deltawire.format import keys, records
from deltawire.format.records import AnchorRecord, HeadRecord, VersionRecord
from deltawire.inspecting.verification import verify_stream
from deltawire.limits import DEFAULT_LIMITS, MIB
from deltawire.materializing import materialize
from deltawire.producer.anchors import NEVER, AnchorPolicy
from deltawire.producer.envelope import envelope
from deltawire.store.base import Store
from deltawire.store.memory import MemoryStore
from tests.faults.conftest import new_memory
from tests.faults.faulty_store import Call, FaultyStore
from tests.faults.line import Version, assert_same, first_state, open_publisher, publish, stepped
from tests.retaining import collect, retain
from tests.spans import add_span

LENGTH = 21
NEWEST = LENGTH - 1
EVERY_8 = AnchorPolicy(every=8, outweigh=None)


def versions() -> list[Version]:
    line = [Version(first_state(), {"config.json": b"{}"})]
    for number in range(1, LENGTH):
        line.append(Version(stepped(line[-1].state, number, fraction=0.01), line[0].files))
    return line


LINE = versions()


@pytest.fixture
def memory() -> MemoryStore:
    """Versions 0 to 20 with anchors of 8 and 16."""
    store = new_memory()
    with open_publisher(store, anchors=EVERY_8) as publisher:
        for version in LINE:
            publish(publisher, version)
    return store


def shard_of(store: Store, anchor: int) -> str:
    data = store.get(keys.anchor_key(anchor), max_bytes=MIB).data
    record = records.decode(data, AnchorRecord, what="anchor", limits=DEFAULT_LIMITS)
    return record.snapshot.shards[-1].key


def part_of(store: Store, number: int) -> str:
    data = store.get(keys.version_key(number), max_bytes=MIB).data
    delta = records.decode(data, VersionRecord, what="version", limits=DEFAULT_LIMITS).delta
    assert delta is not None
    return delta.parts[0].key


def flip(store: Store, key: str) -> None:
    data = store.get(key, max_bytes=MIB).data
    middle = len(data) // 2
    store.put(key, data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :], mode="overwrite")


def cut(store: Store, key: str) -> None:
    store.put(key, store.get(key, max_bytes=MIB).data[:-9], mode="overwrite")


def remove(store: Store, key: str) -> None:
    store.delete(key)


@pytest.mark.parametrize(
    ("damage", "code"), [(flip, "digest_mismatch"), (cut, "size_mismatch"), (remove, "missing_object")]
)
def test_an_older_anchor_in_place_of_a_damaged_one(
    memory: MemoryStore, damage: Callable[[Store, str], None], code: str
) -> None:
    damage(memory, shard_of(memory, 16))
    with Follower(memory) as follower:
        update = follower.poll()
        assert update is not None
        assert update.steps == ("anchor", *["delta"] * 12)
        assert update.snapshot == 8
        [note] = update.replanned
        assert note.startswith(f"the anchor of version 16 could not be used ({code}: ")
        assert note.endswith(": took the anchor of version 8")
        assert_same(follower.arrays, LINE[NEWEST].state)
        follower.verify()


def test_all_anchors_are_damaged(memory: MemoryStore, tmp_path: Path) -> None:
    flip(memory, shard_of(memory, 16))
    cut(memory, keys.anchor_key(8))
    with Follower(memory, tmp_path / "copy") as follower:
        update = follower.poll()
        assert update is not None
        assert update.steps == ("snapshot", *["delta"] * NEWEST)
        assert [note.split(" (")[0] for note in update.replanned] == [
            "the anchor of version 16 could not be used",
            "the anchor of version 8 could not be used",
        ]
        follower.verify()


def test_the_first_failure_is_reported_when_nothing_is_left(memory: MemoryStore) -> None:
    flip(memory, shard_of(memory, 16))
    remove(memory, shard_of(memory, 8))
    flip(memory, part_of(memory, 4))
    with Follower(memory) as follower:
        with pytest.raises(DigestMismatchError):
            follower.poll()
        assert follower.version == 3  # as far as any way led
        assert_same(follower.arrays, LINE[3].state)
        with pytest.raises(DigestMismatchError):
            follower.poll(to=4)


def test_a_damaged_delta_is_got_round_by_a_span_and_by_an_anchor(memory: MemoryStore) -> None:
    add_span(memory, 4, 6)
    flip(memory, part_of(memory, 5))
    for held, steps in ((4, ("span",)), (3, ("delta", "span"))):
        with Follower(memory) as follower:
            follower.poll(to=held)
            update = follower.poll(to=6)
            assert update is not None
            assert update.steps == steps
            [note] = update.replanned
            assert note.startswith("the delta of version 5 could not be used (digest_mismatch: ")
            assert note.endswith(": took the span from version 4 to 6")
            assert_same(follower.arrays, LINE[6].state)
    remove(memory, keys.span_key(4, 6))
    with Follower(memory) as follower:
        follower.poll(to=4)
        update = follower.poll()
        assert update is not None
        assert update.snapshot == 16
        assert_same(follower.arrays, LINE[NEWEST].state)


def test_a_damaged_version_record_on_the_way(memory: MemoryStore) -> None:
    """PLN-3"""
    cut(memory, keys.version_key(6))
    with Follower(memory) as follower:
        follower.poll(to=4)
        with pytest.raises(MalformedRecordError):
            follower.poll(to=6)
        with pytest.raises(MalformedRecordError):
            follower.poll(to=7)
        update = follower.poll(to=8)
        assert update is not None
        assert update.steps == ("anchor",)
        assert update.replanned[0].startswith("version 6 could not be used (malformed_record: ")


def test_each_version_but_those_that_are_damaged(memory: MemoryStore) -> None:
    flip(memory, part_of(memory, 6))
    with Follower(memory) as follower:
        follower.poll(to=3)
        updates = [*follower.follow(until=NEWEST, every_version=True, timeout=10)]
        for update in updates:
            assert update.record.version == update.version
        assert [update.version for update in updates] == [4, 5, NEWEST]
        assert updates[-1].replanned[0].startswith("version 6 was passed over (digest_mismatch: ")
        assert_same(follower.arrays, LINE[NEWEST].state)


@pytest.mark.parametrize("goal", [16, NEWEST])
def test_an_auxiliary_file_that_is_gone(memory: MemoryStore, tmp_path: Path, goal: int) -> None:
    """Every way to a version needs its files."""
    with Follower(memory) as follower:
        follower.poll()
        assert follower.record is not None
        [file] = follower.record.files
    memory.delete(file.key)
    with Follower(memory, tmp_path / "copy") as follower, pytest.raises(MissingObjectError, match=r"config\.json"):
        follower.poll(to=goal)


@pytest.mark.parametrize("goal", [16, NEWEST])
@pytest.mark.parametrize("damage", [flip, remove])
def test_a_tensor_table_that_is_no_good(memory: MemoryStore, damage: Callable[[Store, str], None], goal: int) -> None:
    """Every way needs it: not all anchors are tried in vain."""
    with Follower(memory) as follower:
        follower.poll()
        assert follower.record is not None
        damage(memory, follower.record.tensors.key)
    store = FaultyStore(memory)
    with Follower(store) as follower:
        with pytest.raises((DigestMismatchError, MissingObjectError), match=r"table\.json"):
            follower.poll(to=goal)
        assert follower.version is None
    assert sum(call.key.startswith(keys.ANCHORS) and call.verb == "get" for call in store.log) == 1


def test_who_opens_goes_back_or_materializes_does_not_need_the_newest_anchor(
    memory: MemoryStore, tmp_path: Path
) -> None:
    flip(memory, shard_of(memory, 16))
    with open_publisher(memory, anchors=NEVER) as publisher:
        assert (publisher.version, publisher.anchor_version) == (NEWEST, 8)
        assert publish(publisher, Version(stepped(LINE[NEWEST].state, 99), {})).version == LENGTH
    assert rollback(memory, to=18, take_over=True).version == LENGTH + 1
    done = materialize(memory, tmp_path / "out", version=17)
    assert len(done.replanned) == 1
    with Follower(memory) as follower:
        follower.poll()
        assert_same(follower.arrays, LINE[18].state)
    result = verify_stream(memory, deep=True)
    assert {finding.code for finding in result.findings} == {"digest_mismatch"}  # of that shard
    assert result.states >= LENGTH + 2


# What was collected.


def requests(store: FaultyStore) -> list[tuple[str, str]]:
    return [(call.verb, call.key) for call in store.log]


@pytest.mark.parametrize("pin", [True, False])
def test_a_poll_that_finds_nothing_costs_a_request_or_two_and_an_update_one_for_the_boundary(
    memory: MemoryStore, *, pin: bool
) -> None:
    store = FaultyStore(memory)
    with Follower(store, pin=pin) as follower:
        follower.poll(to=NEWEST - 1)
        store.log.clear()
        follower.poll()
        asked = requests(store)
        look = [("get", keys.version_key(NEWEST)), ("head", keys.version_key(LENGTH)), ("get", keys.RETENTION)]
        assert asked[:3] == look  # no request more before the data, and the record once
        assert {verb for verb, _ in asked[3:]} == {"get_range"}
        store.log.clear()
        assert follower.poll() is None
        boundary = [] if pin else [("get", keys.RETENTION)]  # a pin spares it. LAT-5
        assert requests(store) == [("get", keys.version_key(LENGTH)), *boundary]


@pytest.mark.parametrize("every_version", [True, False])
def test_who_holds_a_version_below_the_boundary_goes_on_from_it(memory: MemoryStore, *, every_version: bool) -> None:
    with Follower(memory) as follower:
        follower.poll(to=3)
        collect(memory, 16)
        updates = [*follower.follow(until=NEWEST, every_version=every_version, interval=0.01, timeout=10)]
        assert [update.version for update in updates] == ([16, 17, 18, 19, 20] if every_version else [20])
        assert_same(follower.arrays, LINE[NEWEST].state)


def test_a_kept_version_is_not_the_end_of_the_line(memory: MemoryStore, tmp_path: Path) -> None:
    """LAT-5: its record is there for ever, and the next one is not."""
    with Follower(memory, pin=False) as follower:
        follower.poll(to=8)
        collect(memory, 16, 8)
        head = envelope(follower.record.stream_id if follower.record else "", "head", epoch=0, writer_features=())
        memory.put(keys.HEAD, records.encode(HeadRecord(**head, version=8)), mode="overwrite")
        update = follower.poll()
        assert update is not None
        assert (update.version, update.snapshot) == (NEWEST, 16)
    with Follower(memory) as newcomer:
        update = newcomer.poll()
        assert update is not None
        assert update.version == NEWEST
    assert materialize(memory, tmp_path / "kept", version=8).steps == ("anchor",)
    with Follower(memory) as follower:
        for number in (0, 7, 9, 15):
            with pytest.raises(VersionNotFoundError):
                follower.poll(to=number)


def test_kept_versions_are_shown_too(memory: MemoryStore) -> None:
    with Follower(memory) as follower:
        follower.poll(to=2)
        collect(memory, 16, 8)
        updates = [*follower.follow(until=NEWEST, every_version=True, interval=0.01, timeout=10)]
        assert [update.version for update in updates] == [8, 16, 17, 18, 19, 20]


@pytest.mark.parametrize("every_version", [True, False])
@pytest.mark.parametrize("more", [1, 3])
def test_records_of_a_writer_that_stalled_are_not_followed(
    memory: MemoryStore, *, every_version: bool, more: int
) -> None:
    """RET-3: what follows from the version held, by every hash, was created after it had been collected."""
    late = {key: memory.get(key, max_bytes=MIB).data for key in map(keys.version_key, range(4, 4 + more))}
    with Follower(memory) as follower:
        follower.poll(to=3)
        collect(memory, 16)
        for key, data in late.items():
            memory.put(key, data, mode="create")
        with pytest.raises(VersionNotFoundError, match="retained"):
            follower.poll(to=4)
        updates = [*follower.follow(until=NEWEST, every_version=every_version, interval=0.01, timeout=10)]
        assert [update.version for update in updates] == ([16, 17, 18, 19, 20] if every_version else [20])
    with Follower(memory) as newcomer:
        update = newcomer.poll()
        assert update is not None
        assert update.version == NEWEST
    with pytest.raises(VersionNotFoundError, match="retained"):
        rollback(memory, to=4, take_over=True)


class Meanwhile:
    """Do something when a certain object is first asked for."""

    def __init__(self, key: str, act: Callable[[], object]) -> None:
        self._key, self._act, self._done = key, act, False

    def __call__(self, call: Call) -> None:
        if call.key == self._key and call.verb in ("get", "get_range") and not self._done:
            self._done = True
            self._act()


def test_the_plan_was_collected_while_it_was_carried_out(memory: MemoryStore) -> None:
    """What is on the way goes, and the target stays."""
    store = FaultyStore(memory)
    with Follower(store, workers=1) as follower:
        follower.poll(to=12)
        store.before = Meanwhile(part_of(memory, 14), lambda: collect(memory, 16))
        update = follower.poll(to=16)
        assert update is not None
        assert update.steps == ("delta", "anchor")
        assert update.replanned[0].startswith("the delta of version 14 could not be used (missing_object: ")
        assert_same(follower.arrays, LINE[16].state)


def test_the_newest_version_itself_was_collected_meanwhile(memory: MemoryStore) -> None:
    store = FaultyStore(memory)
    with Follower(store, workers=1) as follower:
        follower.poll(to=NEWEST - 2)

        def go_on() -> None:
            with open_publisher(memory, anchors=EVERY_8) as publisher:
                for number in range(LENGTH, 26):
                    publish(publisher, Version(stepped(LINE[NEWEST].state, number), {}))
            collect(memory, 24)

        store.before = Meanwhile(part_of(memory, NEWEST), go_on)
        update = follower.poll()
        assert update is not None
        assert (update.version, update.previous) == (25, NEWEST - 2)
        follower.verify()
    with Follower(memory) as follower, pytest.raises(VersionNotFoundError):
        follower.poll(to=NEWEST)


@pytest.mark.parametrize("behind", [2, 6])
def test_the_whole_way_was_collected_while_it_was_planned(memory: MemoryStore, behind: int) -> None:
    """A reader that stalled there had read the record of the newest version, and nothing that leads to it. PLN-6"""
    store = FaultyStore(memory)
    with Follower(store, workers=1, pin=False) as follower:
        follower.poll(to=NEWEST - behind)

        def go_on() -> None:
            with open_publisher(memory, anchors=EVERY_8) as publisher:
                for number in range(LENGTH, 26):
                    publish(publisher, Version(stepped(LINE[NEWEST].state, number), {}))
            collect(memory, 24)

        store.before = Meanwhile(keys.version_key(NEWEST - 1), go_on)
        update = follower.poll()
        assert update is not None
        assert (update.version, update.previous) == (25, NEWEST - behind)
        follower.verify()


def test_the_boundary_passes_between_the_records_and_the_first_step(memory: MemoryStore) -> None:
    """The records of the way were read, and all are there still: only the boundary tells."""
    store = FaultyStore(memory)
    with Follower(store, workers=1) as follower:
        follower.poll(to=11)
        store.before = Meanwhile(keys.RETENTION, lambda: retain(memory, 16))
        update = follower.poll(to=16)
        assert update is not None
        assert update.steps == ("anchor",)
        assert update.replanned == ()


def test_what_says_what_is_retained_must_be_readable(memory: MemoryStore) -> None:
    """RET-4"""
    with Follower(memory) as follower:
        follower.poll(to=NEWEST - 1)
        memory.put(keys.RETENTION, b"{}", mode="overwrite")
        with pytest.raises(MalformedRecordError):
            follower.poll()
        assert follower.version == NEWEST - 1


def test_a_boundary_without_a_snapshot(memory: MemoryStore) -> None:
    """Against RET-2: then nothing leads there for a newcomer."""
    retain(memory, 18)
    with Follower(memory) as follower:
        with pytest.raises(PathLostError):
            follower.poll()
        assert follower.version is None
