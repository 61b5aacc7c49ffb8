"""Every store call of a rollback and of a fork fails in every way; nothing is there by half, and trying again works."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from deltawire import Follower, Publisher, check_origin, fork, rollback
from deltawire.errors import (
    DeltawireError,
    InvalidArgumentError,
    OutcomeUnknownError,
    StreamNotFoundError,
    VersionNotFoundError,
)
from deltawire.format import keys
from deltawire.inspecting.verification import verify_stream
from deltawire.parts.writer import PartOptions
from deltawire.producer.anchors import NEVER
from deltawire.reading.stream import StreamReader
from deltawire.reading.transfer import Transfer
from deltawire.store.base import Store
from deltawire.store.memory import MemoryStore
from tests.faults.faulty_store import APPLICABLE, Fault, FaultyStore
from tests.lineage.lines import FOREVER, contents, new_store

FAULTS = sorted(set().union(*APPLICABLE.values()))
State = dict[str, npt.NDArray[Any]]
OLD: State = {"a": np.arange(300, dtype=np.uint16), "b": np.zeros(3, np.float32)}
NEW: State = {name: array + 1 for name, array in OLD.items()}
FILES = {"config.json": b"{}"}


class Copying(FaultyStore):
    """Copies fail as streams do, but may also be whole."""

    def copy_from(self, source: Store, source_key: str, key: str) -> bool:
        call = self._begin("put", key)
        return self._write(call, lambda: self.inner.copy_from(source, source_key, key))


def line() -> MemoryStore:
    store = new_store()
    with Publisher(store, anchors=NEVER) as publisher:
        publisher.publish(OLD, files=FILES)
        publisher.publish(NEW, files={"config.json": b"[]"})
    return store


def newest(store: Store) -> int:
    transfer = Transfer(store)
    try:
        return StreamReader(transfer).latest(FOREVER)
    finally:
        transfer.close()


def check_holds(store: Store, state: State, number: int) -> None:
    with Follower(store) as follower:
        assert follower.poll(to=number) is not None
        assert all(np.array_equal(follower.arrays[name], array) for name, array in state.items())
        follower.verify()


@cache
def calls_of_a_rollback() -> int:
    store = FaultyStore(line())
    rollback(store, to=0)
    return len(store.log)


@pytest.mark.parametrize("fault", FAULTS)
def test_rollbacks(fault: Fault) -> None:
    failed = 0
    for index in range(calls_of_a_rollback()):
        memory = line()
        store = FaultyStore(memory, {index: fault})
        try:
            done = rollback(store, to=0, parts=PartOptions(batch_bytes=100, part_bytes=100))
        except OutcomeUnknownError:
            assert newest(memory) in {1, 2}
            failed += 1
        except DeltawireError:
            assert newest(memory) == 1
            failed += 1
        else:
            assert done.version == newest(memory) == 2
        assert not verify_stream(memory, deep=True).findings
        again = rollback(memory, to=0)
        check_holds(memory, OLD, again.version)
        check_holds(memory, NEW, 1)
    assert failed or fault in {Fault.EXISTS, Fault.STALE, Fault.ANSWER_LOST, Fault.CUT}


def attempt(source: Store, memory: MemoryStore, store: FaultyStore, version: int) -> bool:
    """Fork once, and see that what is left is nothing, a stream without versions, or all of it; whether it failed."""
    before = contents(source)
    error: DeltawireError | None = None
    try:
        fork(source, store, version=version)
    except DeltawireError as caught:
        error = caught
    assert contents(source) == before
    created = [call.key for call in store.effects if call.verb == "create" and not call.key.startswith(keys.PROBES)]
    commits = [key for key in created if key in {keys.STREAM, keys.version_key(0)}]
    assert commits == [keys.STREAM, keys.version_key(0)][: len(commits)]
    if commits:  # everything else was there before
        assert created[-len(commits) :] == commits
        writes = [call.key for call in store.effects if call.verb != "delete" and call.key != keys.HEAD]
        assert writes[-len(commits) :] == commits
    if keys.STREAM not in commits:
        assert error is not None
        with pytest.raises(StreamNotFoundError):
            Follower(memory).poll()
    elif len(commits) == 1:
        assert error is not None
        with Follower(memory) as follower, pytest.raises(VersionNotFoundError):
            follower.poll()
        with pytest.raises(VersionNotFoundError):
            Publisher(memory)
    elif error is not None:
        assert isinstance(error, OutcomeUnknownError)
    return error is not None


def finish(source: Store, memory: MemoryStore, version: int) -> None:
    """The same fork again finishes what is not finished, and leaves alone what is."""
    try:
        fork(source, memory, version=version)
    except InvalidArgumentError as error:
        assert "this very fork" in str(error)  # noqa: PT017 - either outcome is right
    check_origin(memory, source)
    check_holds(memory, OLD if version == 0 else NEW, 0)
    assert not verify_stream(memory, deep=True).findings


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("how", ["copied", "streamed", "rebuilt"])
def test_forks(fault: Fault, how: str) -> None:
    kind = Copying if how == "copied" else FaultyStore
    version, failed = int(how == "rebuilt"), 0
    source = line()
    plain = kind(new_store())
    assert fork(source, plain, version=version).how == how
    for index in range(len(plain.log)):
        memory = new_store()
        failed += attempt(source, memory, kind(memory, {index: fault}), version)
        finish(source, memory, version)
    harmless = {Fault.EXISTS, Fault.STALE, Fault.ANSWER_LOST} | ({Fault.CUT} if how == "copied" else set())
    assert failed or fault in harmless


@pytest.mark.parametrize("how", ["streamed", "rebuilt"])
@pytest.mark.parametrize("first", [Fault.UNAVAILABLE, Fault.DENIED])
def test_stores_that_go_away(how: str, first: Fault) -> None:
    """From some call on, everything fails."""
    version = int(how == "rebuilt")
    source = line()
    plain = FaultyStore(new_store())
    fork(source, plain, version=version)
    for index in range(len(plain.log)):
        memory = new_store()
        store = FaultyStore(memory, dict.fromkeys(range(index, 1000), first))
        assert attempt(source, memory, store, version) or index >= len(plain.log) - 2  # the hint may be lost
        finish(source, memory, version)


@pytest.mark.parametrize("fault", [Fault.UNAVAILABLE, Fault.DENIED])
@pytest.mark.parametrize("version", [0, 1])
def test_sources_that_fail(fault: Fault, version: int) -> None:
    memory = line()
    plain = FaultyStore(memory)
    fork(plain, new_store(), version=version)
    for call in plain.log:
        destination = new_store()
        source = FaultyStore(memory, {call.index: fault})
        if call.verb == "get" and call.key.startswith(keys.ANCHORS) and fault is Fault.DENIED:
            assert fork(source, destination, version=version).how == "rebuilt"  # an anchor is only a shorter way. PLN-4
        elif call.key.startswith(keys.PINS):
            # A pin only protects. PIN-7
            assert fork(source, destination, version=version).how == ("rebuilt" if version else "streamed")
        else:
            with pytest.raises(DeltawireError):
                fork(source, destination, version=version)
            with pytest.raises(StreamNotFoundError):
                verify_stream(destination)
        finish(memory, destination, version)


@pytest.mark.parametrize("timeout", [0.0, 1e-9])
def test_no_time(timeout: float) -> None:
    source, destination = line(), new_store()
    before = contents(source)
    with pytest.raises(DeltawireError) as caught:
        fork(source, destination, timeout=timeout)
    assert caught.value.code == "deadline_exceeded"
    with pytest.raises(DeltawireError) as caught:
        rollback(source, to=0, timeout=timeout)
    assert caught.value.code == "deadline_exceeded"
    assert contents(source) == before
    assert keys.STREAM not in contents(destination)
