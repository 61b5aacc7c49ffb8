"""Moving the boundary, whatever happens to the answers."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest

from deltawire.errors import (
    DeltawireError,
    LimitExceededError,
    MalformedRecordError,
    StoreDeniedError,
    StoreError,
    StoreUnfitError,
    WrongStreamError,
)
from deltawire.format import keys
from deltawire.limits import DEFAULT_LIMITS, MIB, Limits
from deltawire.maintaining.boundary import Boundary
from deltawire.maintaining.retaining import Choice
from deltawire.store.base import Bytes, Guarantees, PutMode, ReplaceIf, Store
from deltawire.store.memory import MemoryStore
from tests.collecting.lines import line, retention_of, rewrite, stream_of
from tests.faults.faulty_store import Call, Fault, FaultyStore


def boundary(store: Store, *, single: bool = False, limits: Limits = DEFAULT_LIMITS) -> Boundary:
    stream = stream_of(store.inner if isinstance(store, FaultyStore) else store)
    return Boundary(store, stream, limits=limits, single_maintainer=single, sleep=lambda _: None)


def members(store: Store) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(store.get(keys.RETENTION, max_bytes=MIB).data)
    return found


def test_nothing_was_moved_yet() -> None:
    assert boundary(line()).read() is None


def test_moving() -> None:
    store = line()
    where = boundary(store)
    assert where.move(None, Choice(3, (0, 2)))
    found = where.read()
    assert found is not None
    assert (found.retention.boundary, sorted(found.retention.kept)) == (3, [0, 2])
    assert (members(store)["epoch"], members(store)["kind"]) == (0, "retention")
    assert where.move(found, Choice(6, ()))
    assert (retention_of(store).boundary, retention_of(store).kept) == (6, frozenset())
    assert "kept" not in members(store)


def test_another_was_faster() -> None:
    store = line()
    where = boundary(store)
    assert where.move(None, Choice(3, ()))
    assert not where.move(None, Choice(2, ()))
    old = where.read()
    assert where.move(old, Choice(4, ()))
    assert not where.move(old, Choice(5, ()))
    assert retention_of(store).boundary == 4


def test_members_that_are_not_known_stay() -> None:
    store = line()
    where = boundary(store)
    assert where.move(None, Choice(3, (1,)))
    rewrite(store, keys.RETENTION, later={"a": 1, "metadata": {"by": "x"}})
    assert where.move(where.read(), Choice(4, ()))
    assert members(store)["later"] == {"a": 1, "metadata": {"by": "x"}}
    assert "kept" not in members(store)  # VER-5


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("fault", [Fault.UNAVAILABLE, Fault.ANSWER_LOST, Fault.EXISTS, Fault.DENIED])
def test_every_call_fails_once(fault: Fault, first: bool) -> None:
    """RET-5, as LSE-3."""
    for index in range(6):
        memory = line()
        if not first:
            assert boundary(memory).move(None, Choice(1, ()))
        store = FaultyStore(memory, {index: fault})
        before = None if first else boundary(memory).read()
        try:
            moved = boundary(store).move(before, Choice(3, ()))
        except StoreError as error:
            assert isinstance(error, StoreDeniedError)  # noqa: PT017 - a refusal may be told
            assert fault is Fault.DENIED
        else:
            assert moved
            assert retention_of(memory).boundary == 3


@pytest.mark.parametrize("fault", [Fault.UNAVAILABLE, Fault.ANSWER_LOST])
def test_a_lost_answer_and_another_writer_on_top(fault: Fault) -> None:
    memory = line()
    store = FaultyStore(memory, {0: fault})

    def other(call: Call) -> None:
        if call.index == 1:
            there = boundary(memory).read()
            assert boundary(memory).move(there, Choice(5, ()))

    store.before = other
    assert not boundary(store).move(None, Choice(3, ()))
    assert retention_of(memory).boundary == 5


def test_a_store_that_stays_away() -> None:
    store = FaultyStore(line(), dict.fromkeys(range(100), Fault.UNAVAILABLE))
    with pytest.raises(StoreError):
        boundary(store).move(None, Choice(3, ()))


class NoSwap(FaultyStore):
    """A store without compare-and-swap."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.guarantees = Guarantees(conditional_create=False, compare_and_swap=False)

    def put(self, key: str, data: Bytes, *, mode: PutMode) -> str:
        if isinstance(mode, ReplaceIf):
            raise StoreUnfitError("no swap")
        return super().put(key, data, mode=mode)


def test_a_store_that_cannot_swap_needs_the_operators_word() -> None:
    store = NoSwap(line())
    with pytest.raises(StoreUnfitError) as caught:
        boundary(store).move(None, Choice(3, ()))
    assert "--single-maintainer" in caught.value.hint
    where = boundary(store, single=True)
    assert where.move(None, Choice(3, ()))
    assert where.move(where.read(), Choice(4, ()))
    assert retention_of(store.inner).boundary == 4


def damage(store: MemoryStore, how: str) -> None:
    if how == "json":
        store.put(keys.RETENTION, b"{", mode="overwrite")
    elif how == "stream":
        rewrite(store, keys.RETENTION, stream_id=str(uuid.uuid4()))
    else:
        rewrite(store, keys.RETENTION, kept=[3, 2])


@pytest.mark.parametrize(
    ("how", "error"), [("json", MalformedRecordError), ("stream", WrongStreamError), ("kept", MalformedRecordError)]
)
def test_what_cannot_be_read_is_not_replaced(how: str, error: type[DeltawireError]) -> None:
    store = line()
    assert boundary(store).move(None, Choice(3, ()))
    damage(store, how)
    before = store.get(keys.RETENTION, max_bytes=MIB).data
    with pytest.raises(error):  # RET-4
        boundary(store).read()
    with pytest.raises(error):
        boundary(store).move(None, Choice(4, ()))
    assert store.get(keys.RETENTION, max_bytes=MIB).data == before


def test_what_readers_would_refuse_is_not_written() -> None:
    store = line()
    with pytest.raises(LimitExceededError):
        boundary(store, limits=Limits(kept=1)).move(None, Choice(3, (0, 1)))
    assert boundary(store).read() is None
