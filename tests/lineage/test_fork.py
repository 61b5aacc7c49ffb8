"""Forks: a new stream begins where another one was, and each goes its own way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltawire import AnchorPolicy, Follower, Publisher, check_origin, fork, rollback
from deltawire.errors import (
    BrokenChainError,
    ConflictError,
    DeltawireError,
    DigestMismatchError,
    InvalidArgumentError,
    MissingObjectError,
    PathLostError,
    SizeMismatchError,
    StoreUnfitError,
    StreamNotFoundError,
    UnsupportedFeatureError,
    VersionNotFoundError,
    WrongStreamError,
)
from deltawire.format import keys, records
from deltawire.format.records import Origin, StreamRecord, VersionRecord
from deltawire.inspecting.verification import verify_stream
from deltawire.limits import DEFAULT_LIMITS
from deltawire.lineage.origin import plain_url
from deltawire.producer.anchors import NEVER
from deltawire.store.base import Guarantees, Store
from deltawire.store.memory import MemoryStore
from tests.faults.faulty_store import FaultyStore
from tests.lineage.lines import (
    Given,
    check_sound,
    check_state,
    committed,
    contents,
    new_store,
    publish,
    streams,
)
from tests.strategies import next_states, same_bits


def has_snapshot(store: Store, number: int) -> bool:
    anchored = keys.anchor_key(number) in {info.key for info in store.list(keys.ANCHORS)}
    return anchored or committed(store, number).record.snapshot is not None


@given(stream=streams(), data=st.data(), through=st.booleans())
def test_a_fork_begins_with_the_version(stream: Given, data: st.DataObject, through: bool) -> None:
    source, destination = stream.store, new_store()
    number = data.draw(st.integers(0, len(stream.states) - 1))
    before = contents(source)
    outer = FaultyStore(destination) if through else destination  # a wrapper, between which nothing is copied
    done = fork(source, outer, version=number, shard_bytes=data.draw(st.sampled_from([1, 1 << 30])))
    assert contents(source) == before
    version = committed(source, number)
    origin = Origin(
        stream_id=version.record.stream_id,
        version=number,
        digest=version.digest,
        state_digest=version.record.state_digest,
        url=source.url,
    )
    assert done.origin == origin
    assert done.how == (("streamed" if through else "copied") if has_snapshot(source, number) else "rebuilt")
    assert (done.copied_bytes > 0) == (done.how == "copied")
    assert (done.written_bytes > 0) == (done.how != "copied")
    assert committed(destination, 0).record == done.record
    assert done.record.stream_id == done.stream_id != version.record.stream_id
    assert done.record.metadata == {"step": number}
    check_state(destination, 0, stream.states[number], stream.files[number])
    check_sound(destination)
    assert check_origin(destination, source) == origin
    # From here on each goes its own way.
    branches = [data.draw(next_states(stream.states[at])) for at in (len(stream.states) - 1, number)]
    for store, state in zip((source, destination), branches, strict=True):
        with Follower(store) as along, Publisher(store) as publisher:
            along.poll()
            publish(publisher, state)
            along.poll()
            assert same_bits(along.arrays, state)
            along.verify()
    check_sound(source)
    check_sound(destination)
    check_origin(destination, source)
    rollback(destination, to=0)
    check_state(destination, 2, stream.states[number], stream.files[number])


@settings(max_examples=25)
@given(stream=streams(), data=st.data())
def test_followers_of_some_tensors_of_a_fork(stream: Given, data: st.DataObject) -> None:
    number = data.draw(st.integers(0, len(stream.states) - 1))
    state = stream.states[number]
    name = data.draw(st.sampled_from([*state.bits, *state.aliases]))
    destination = new_store()
    fork(stream.store, destination, version=number)
    with Follower(destination, tensors=[name]) as follower:
        follower.poll()
        own = state.bits[state.aliases.get(name, name)]
        assert np.ascontiguousarray(follower.arrays[name]).tobytes() == own.tobytes()
        follower.verify()


_ARRAY = np.arange(5000, dtype=np.uint16)


def line(*, anchors: AnchorPolicy = NEVER, absolute: bool = False, **options: Any) -> MemoryStore:
    """Three versions, the first a snapshot."""
    store = new_store()
    with Publisher(store, anchors=anchors, absolute=absolute, **options) as publisher:
        for step in range(3):
            publisher.publish({"a": _ARRAY + step}, metadata={"step": step}, files={"config.json": b"{}"})
            publisher.wait_for_anchor()
    return store


def test_of_the_newest_unless_told() -> None:
    source, destination = line(), new_store()
    assert fork(source, destination, metadata={"lr": 1e-4}).origin.version == 2
    assert committed(destination, 0).record.metadata == {"lr": 1e-4}


def test_a_fork_of_a_fork_and_of_a_rollback() -> None:
    source, first, second = line(), new_store(), new_store()
    rollback(source, to=0)
    fork(source, first, version=3)
    done = fork(first, second)
    assert done.how == "copied"
    assert done.record.rollback_of is None
    check_origin(second, first)
    with pytest.raises(WrongStreamError):
        check_origin(second, source)
    with Follower(second) as follower:
        follower.poll()
        assert np.array_equal(follower.arrays["a"], _ARRAY)


def test_features_are_inherited() -> None:
    destination = new_store()
    assert fork(line(absolute=True), destination).record.writer_features == ("absolute",)
    with Publisher(destination, absolute=True) as publisher:
        publisher.publish({"a": _ARRAY + 9})
    check_sound(destination)


def test_a_feature_that_is_not_known_is_not_inherited() -> None:
    source, destination = line(), new_store()
    change(source, keys.STREAM, StreamRecord, writer_features=("novel",))
    with pytest.raises(UnsupportedFeatureError):
        fork(source, destination)
    assert contents(destination) == {}


def change(store: Store, key: str, kind: type[records.R], **changes: object) -> None:
    record = records.decode(store.get(key, max_bytes=1 << 20).data, kind, what=key, limits=DEFAULT_LIMITS)
    store.put(key, records.encode(msgspec.structs.replace(record, **changes)), mode="overwrite")


@pytest.mark.parametrize("what", ["stream", "fork", "other version", "itself"])
def test_what_is_there_stays(what: str) -> None:
    source, destination = line(), line()
    if what in {"fork", "other version"}:
        destination = new_store()
        fork(source, destination, version=1 if what == "fork" else 0)
    elif what == "itself":
        destination = source
    before = contents(destination)
    with pytest.raises(InvalidArgumentError, match="already"):
        fork(source, destination, version=1)
    assert contents(destination) == before


def test_versions_without_a_stream_stay() -> None:
    source, destination = line(), line()
    destination.delete(keys.STREAM)
    before = contents(destination)
    with pytest.raises(InvalidArgumentError, match="no stream"):
        fork(source, destination)
    assert contents(destination) == before


@pytest.mark.parametrize("version", [3, -1, 10**9, 2**60])
def test_versions_that_are_not_there(version: int) -> None:
    destination = new_store()
    with pytest.raises(VersionNotFoundError):
        fork(line(), destination, version=version)
    assert contents(destination) == {}


def test_no_stream_to_fork(tmp_path: Path) -> None:
    with pytest.raises(StreamNotFoundError):
        fork(tmp_path / "a", tmp_path / "b")
    assert not list(tmp_path.iterdir())


def test_a_lost_way() -> None:
    source, destination = line(), new_store()
    source.delete(keys.version_key(0))
    with pytest.raises(PathLostError):
        fork(source, destination)
    assert contents(destination) == {}


class Single(MemoryStore):
    guarantees = Guarantees(conditional_create=False, compare_and_swap=False)


def test_a_store_that_cannot_arbitrate_needs_a_single_writer() -> None:
    source, destination = line(), Single("lineage-single")
    with pytest.raises(StoreUnfitError):
        fork(source, destination)
    assert contents(destination) == {}
    fork(source, destination, single_writer=True)
    assert check_origin(destination, source).version == 2
    with Publisher(destination, single_writer=True) as publisher:
        publisher.publish({"a": _ARRAY})


@pytest.mark.parametrize("through", [False, True])
@pytest.mark.parametrize(
    ("damage", "error"),
    [("gone", MissingObjectError), ("short", SizeMismatchError), ("other", DigestMismatchError)],
)
def test_a_damaged_snapshot(damage: str, error: type[DeltawireError], through: bool) -> None:
    source, memory = line(), new_store()
    destination = FaultyStore(memory) if through else memory
    [key] = [info.key for info in source.list(keys.DATA) if info.key.endswith(".safetensors")]
    data = source.get(key, max_bytes=1 << 20).data
    if damage == "gone":
        source.delete(key)
    else:
        source.put(key, data[:-1] if damage == "short" else data[:-1] + b"x", mode="overwrite")
    if damage == "other" and not through:  # what the store copies is found by whoever reads it
        fork(source, destination, version=0)
        assert [finding.code for finding in verify_stream(memory).findings] == ["digest_mismatch"]
        return
    with pytest.raises(error):
        fork(source, destination, version=0)
    with pytest.raises(StreamNotFoundError):
        verify_stream(memory)


def test_an_anchor_is_taken_and_a_bad_one_is_not() -> None:
    source = line(anchors=AnchorPolicy(every=2, outweigh=None))
    assert fork(source, new_store(), version=2).how == "copied"
    source.put(keys.anchor_key(2), b"{}", mode="overwrite")
    destination = new_store()
    assert fork(source, destination, version=2).how == "rebuilt"
    check_sound(destination)


def test_a_snapshot_with_other_names_is_written_anew() -> None:
    source, destination = line(), new_store()
    record = committed(source, 0).record
    assert record.snapshot is not None
    [shard] = record.snapshot.shards
    other = msgspec.structs.replace(shard, key=shard.key.replace("model-", "weights-"))
    assert source.copy_from(source, shard.key, other.key)
    change(
        source, keys.version_key(0), VersionRecord, snapshot=msgspec.structs.replace(record.snapshot, shards=(other,))
    )
    assert fork(source, destination, version=0).how == "rebuilt"
    check_sound(destination)


def test_files_are_taken_from_the_version_and_not_from_its_snapshot() -> None:
    source, destination = line(), new_store()
    snapshot = committed(source, 0).record.snapshot
    assert snapshot is not None
    change(source, keys.version_key(0), VersionRecord, snapshot=msgspec.structs.replace(snapshot, files=()))
    done = fork(source, destination, version=0)
    assert done.how == "copied"
    folder = keys.data_prefix(0, done.record.commit_id)
    assert [file.key for file in done.record.files] == [folder + "config.json"]
    assert done.record.snapshot is not None
    assert done.record.snapshot.files == done.record.files
    check_sound(destination)


def test_a_fork_outlives_its_source() -> None:
    source, destination = line(), new_store()
    fork(source, destination, version=0)
    for key in contents(source):
        source.delete(key)
    check_sound(destination)


@pytest.mark.parametrize("lies", ["state", "version", "record", "files", "source", "no fork"])
def test_a_false_origin_is_found(lies: str) -> None:
    source, destination = line(), new_store()
    origin = fork(source, destination, version=1).origin
    error: type[DeltawireError] = BrokenChainError
    if lies == "state":
        false = msgspec.structs.replace(origin, state_digest="0" * 16)
        change(destination, keys.STREAM, StreamRecord, origin=false)
        with Follower(destination) as follower, pytest.raises(BrokenChainError, match="forked"):
            follower.poll()
        assert "broken_chain" in {finding.code for finding in verify_stream(destination).findings}
    elif lies == "version":
        change(destination, keys.STREAM, StreamRecord, origin=msgspec.structs.replace(origin, version=2))
    elif lies == "record":
        change(source, keys.version_key(1), VersionRecord, metadata={"step": 9})
    elif lies == "files":
        change(destination, keys.version_key(0), VersionRecord, files=())
    elif lies == "source":
        source, error = line(), WrongStreamError
    else:
        destination, error = line(), InvalidArgumentError
    with pytest.raises(error):
        check_origin(destination, source)


def test_a_race_has_one_winner() -> None:
    source, memory = line(), new_store()
    won: list[str] = []

    def before(call: Any) -> None:
        if call.verb == "create" and call.key == keys.STREAM and not won:
            won.append(fork(source, memory).stream_id)

    with pytest.raises(ConflictError):
        fork(source, FaultyStore(memory, before=before))
    check_origin(memory, source)
    assert committed(memory, 0).record.stream_id == won[0]
    assert not verify_stream(memory, deep=True).findings


def test_a_publisher_leaves_an_unfinished_fork_alone() -> None:
    source, memory = line(), new_store()
    fork(source, memory)
    memory.delete(keys.version_key(0))
    memory.delete(keys.HEAD)
    before = contents(memory)
    with pytest.raises(VersionNotFoundError, match="fork"):
        Publisher(memory)
    with pytest.raises(InvalidArgumentError):
        fork(source, memory, version=1)
    assert contents(memory) == before
    stream_id = msgspec.json.decode(before[keys.STREAM])["stream_id"]
    assert fork(source, memory).stream_id == stream_id
    check_origin(memory, source)


@pytest.mark.parametrize(
    ("url", "plain"),
    [
        ("s3://bucket/run-7?endpoint_url=http://10.0.0.1:9000&profile=me", "s3://bucket/run-7"),
        ("sftp://me:secret@host:22/x/y", "sftp://host:22/x/y"),
        ("gs://bucket/a@b", "gs://bucket/a@b"),
        ("file:///home/a%20b/s", "file:///home/a%20b/s"),
        ("memory://x#y", "memory://x"),
        ("hf://models/a b", ""),
        ("hf://" + "x" * 3000, ""),
        ("nonsense", ""),
    ],
)
def test_urls_hold_no_secrets(url: str, plain: str) -> None:
    assert plain_url(url) == plain
    if plain:
        values = {"stream_id": "6513270e-269e-4d37-b2a7-4de452e6b438", "version": 0, "url": plain}
        values |= {"digest": "sha256:" + "0" * 64, "state_digest": "0" * 16}
        assert msgspec.convert(values, Origin).url == plain


@pytest.mark.parametrize(
    "url", ["s3://me:pw@b/x", "s3://b/x?y", "s3://b/x#y", "s3://b/x y", "b/x", "", "s3://b/" + "x" * 2000]
)
def test_origins_with_other_urls_are_malformed(url: str) -> None:
    source, destination = line(), new_store()
    origin = fork(source, destination).origin
    change(destination, keys.STREAM, StreamRecord, origin=origin)
    data = destination.get(keys.STREAM, max_bytes=1 << 20).data
    value = msgspec.json.decode(data)
    value["origin"]["url"] = url
    destination.put(keys.STREAM, msgspec.json.encode(value), mode="overwrite")
    assert [finding.code for finding in verify_stream(destination).findings] == ["malformed_record"]
