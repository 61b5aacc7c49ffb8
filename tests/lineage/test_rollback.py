"""Going back: the next version is bit for bit an earlier one, for everybody."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltawire import Follower, Publisher, rollback
from deltawire.errors import (
    BrokenChainError,
    FencedError,
    InvalidArgumentError,
    LeaseHeldError,
    MalformedRecordError,
    PathLostError,
    StreamNotFoundError,
    VersionNotFoundError,
)
from deltawire.format import keys, records
from deltawire.format.records import RollbackOf, VersionRecord
from deltawire.format.strict_json import sha256
from deltawire.inspecting.verification import verify_stream
from deltawire.limits import DEFAULT_LIMITS
from deltawire.producer.anchors import NEVER
from deltawire.reading.stream import Committed, check_chain
from deltawire.store.memory import MemoryStore
from tests.lineage.lines import (
    Given,
    check_sound,
    check_state,
    committed,
    contents,
    new_store,
    publish,
    same_table,
    streams,
)
from tests.strategies import next_states, same_bits


@given(stream=streams(), data=st.data())
def test_a_rollback_is_the_old_version_again(stream: Given, data: st.DataObject) -> None:
    store, last = stream.store, len(stream.states) - 1
    to = data.draw(st.integers(0, last))
    with Follower(store) as along:
        along.poll()
        done = rollback(store, to=to)
        assert done.version == last + 1
        assert done.record.rollback_of == RollbackOf(version=to, digest=committed(store, to).digest)
        assert done.state_digest == committed(store, to).record.state_digest
        assert done.record.metadata == {"step": to}
        update = along.poll()
        assert update is not None
        assert same_bits(along.arrays, stream.states[to])
        along.verify()
    is_delta = done.record.delta is not None
    assert is_delta == same_table(stream.states[to], stream.states[last])
    for number in range(last + 1):  # what was there is there still
        check_state(store, number, stream.states[number], stream.files[number])
    check_state(store, last + 1, stream.states[to], stream.files[to])
    following = data.draw(next_states(stream.states[to]))
    with Publisher(store) as publisher:  # training goes on from there
        publish(publisher, following)
        assert publisher.version == last + 2
    check_state(store, last + 2, following, stream.files[to])
    check_sound(store)


@settings(max_examples=25)
@given(stream=streams(), data=st.data())
def test_followers_of_some_tensors_go_back_too(stream: Given, data: st.DataObject) -> None:
    last = stream.states[-1]
    to = data.draw(st.integers(0, len(stream.states) - 1))
    state = stream.states[to]
    if not same_table(state, last):
        return
    name = data.draw(st.sampled_from([*state.bits, *state.aliases]))
    own = state.bits[state.aliases.get(name, name)]
    with Follower(stream.store, tensors=[name]) as follower:
        follower.poll()
        rollback(stream.store, to=to)
        assert follower.poll() is not None
        assert np.ascontiguousarray(follower.arrays[name]).tobytes() == own.tobytes()
        follower.verify()


def two_versions() -> tuple[MemoryStore, np.ndarray[tuple[int], np.dtype[np.uint8]]]:
    store, array = new_store(), np.arange(100, dtype=np.uint8)
    with Publisher(store, anchors=NEVER) as publisher:
        publisher.publish({"a": array}, metadata={"step": 0})
        publisher.publish({"a": array + 1}, metadata={"step": 1})
    return store, array


def test_back_to_the_newest_changes_nothing() -> None:
    store, _ = two_versions()
    done = rollback(store, to=1)
    assert done.changed_elements == 0
    assert done.record.delta is not None
    assert done.record.delta.parts == ()
    check_sound(store)


def test_back_to_a_rollback_names_the_rollback() -> None:
    store, array = two_versions()
    rollback(store, to=0, metadata={"why": "diverged"})
    done = rollback(store, to=2)
    assert done.record.rollback_of is not None
    assert done.record.rollback_of.version == 2
    assert done.record.metadata == {"why": "diverged"}
    with Follower(store) as follower:
        follower.poll()
        assert np.array_equal(follower.arrays["a"], array)
    check_sound(store)


def test_a_trainer_that_holds_the_stream_keeps_it_unless_taken_over() -> None:
    store, array = two_versions()
    with Publisher(store, lease_ttl=0.5) as trainer:
        with pytest.raises(LeaseHeldError):
            rollback(store, to=0)
        assert trainer.publish({"a": array + 2}).version == 2
        assert rollback(store, to=0, take_over=True).version == 3
        with pytest.raises(FencedError):
            trainer.publish({"a": array + 3})


@pytest.mark.parametrize("to", [2, -1, 10**9, 2**60])
def test_versions_that_are_not_there(to: int) -> None:
    store, _ = two_versions()
    before = contents(store)
    with pytest.raises(VersionNotFoundError):
        rollback(store, to=to)
    assert contents(store) == before


def test_a_lost_way_leaves_no_trace() -> None:
    store, _ = two_versions()
    store.delete(keys.version_key(0))
    before = contents(store)
    with pytest.raises(PathLostError):
        rollback(store, to=1)
    assert contents(store) == before


def test_no_stream_is_made(tmp_path: Path) -> None:
    with pytest.raises(StreamNotFoundError):
        rollback(tmp_path / "nothing", to=0)
    assert not (tmp_path / "nothing").exists()


def test_bad_metadata_leaves_no_version() -> None:
    store, _ = two_versions()
    with pytest.raises(InvalidArgumentError):
        rollback(store, to=0, metadata={"x": float("nan")})
    assert len(list(store.list(keys.VERSIONS))) == 2


def lie(store: MemoryStore, **changes: object) -> Committed:
    """Replace the last version, a rollback, by one whose record says something else."""
    last = max(info.key for info in store.list(keys.VERSIONS))
    record = records.decode(store.get(last, max_bytes=1 << 20).data, VersionRecord, what=last, limits=DEFAULT_LIMITS)
    data = records.encode(msgspec.structs.replace(record, **changes))
    store.put(last, data, mode="overwrite")
    return Committed(msgspec.structs.replace(record, **changes), sha256(data), data)


@pytest.mark.parametrize("what", ["digest", "state"])
def test_a_false_rollback_is_a_broken_chain(what: str) -> None:
    store, _ = two_versions()
    rollback(store, to=0)
    named = RollbackOf(version=0, digest="sha256:" + "0" * 64)
    if what == "state":
        named = RollbackOf(version=1, digest=committed(store, 1).digest)
    false = lie(store, rollback_of=named)
    chain = [committed(store, 0), committed(store, 1), false]
    with pytest.raises(BrokenChainError, match="rollback"):
        check_chain(chain)
    with Follower(store) as follower, pytest.raises(BrokenChainError, match="rollback"):
        follower.poll()
    assert [finding.code for finding in verify_stream(store).findings] == ["broken_chain"]
    check_chain(chain[1:] if what == "digest" else chain[:2])  # whoever does not see the other record cannot know


@pytest.mark.parametrize("version", [2, 3])
def test_a_rollback_to_what_is_not_older_is_malformed(version: int) -> None:
    store, _ = two_versions()
    rollback(store, to=0)
    lie(store, rollback_of=RollbackOf(version=version, digest="sha256:" + "0" * 64))
    with pytest.raises(MalformedRecordError):
        committed(store, 2)


def test_what_is_reported_is_what_is_stored() -> None:
    store, _ = two_versions()
    done = rollback(store, to=0)
    assert committed(store, done.version).record == done.record
