"""Rows of a delta are decoded on several threads: what comes out does not depend on it."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pytest

from deltawire import Follower, PartOptions, Publisher
from deltawire.consumer import steps
from deltawire.consumer.small_rows import stage_rows
from deltawire.consumer.staging import Totals, add_totals
from deltawire.errors import DigestMismatchError, MalformedRowError, WrongBaseError
from deltawire.format.tensors import Tensor, TensorTable, build_table
from deltawire.kernels import ranked
from deltawire.kernels.levels import count_classes
from deltawire.limits import DEFAULT_LIMITS
from deltawire.parts.rows import Row
from deltawire.parts.writer import PartWriter
from deltawire.producer.anchors import NEVER
from deltawire.store.memory import MemoryStore
from deltawire.targets.arrays import NumpyBits
from deltawire.targets.base import Change, TensorBits

TENSORS, ELEMENTS = 40, 2000
State = dict[str, npt.NDArray[np.generic]]


def states() -> tuple[State, State]:
    rng = np.random.default_rng(0)
    old: State = {f"t{n}": rng.integers(0, 1 << 16, ELEMENTS, np.uint16) for n in range(TENSORS)}
    new: State = {name: np.where(rng.random(ELEMENTS) < 0.1, bits + 1, bits) for name, bits in old.items()}
    return old, new


def published(batch_bytes: int) -> MemoryStore:
    store = MemoryStore(f"staging/{uuid.uuid4().hex}")
    with Publisher(store, parts=PartOptions(batch_bytes=batch_bytes)) as publisher:
        for state in states():
            done = publisher.publish(state)
    assert done.record.delta is not None
    assert sum(len(part.batches) for part in done.record.delta.parts) == (TENSORS if batch_bytes == 1 else 1)
    return store


@pytest.fixture
def store() -> MemoryStore:
    """A stream whose second version has a batch a tensor."""
    return published(1)


@pytest.fixture(autouse=True)
def no_thread_is_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(steps, "_GROUP", 3 * ELEMENTS)
    yield
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("deltawire-decode")]


@pytest.mark.parametrize("concurrent", [False, True])
@pytest.mark.parametrize("batch_bytes", [1, 1 << 22])
def test_all_rows_are_applied(monkeypatch: pytest.MonkeyPatch, concurrent: bool, batch_bytes: int) -> None:
    """By other threads only where the target allows that."""
    store = published(batch_bytes)
    monkeypatch.setattr(steps, "_DECODERS", 3)
    seen: set[str] = set()

    def noting(
        rows: Sequence[Row], table: TensorTable, bits_of: Callable[[Tensor], TensorBits], totals: Totals
    ) -> Iterator[Change]:
        seen.add(threading.current_thread().name)
        yield from stage_rows(rows, table, bits_of, totals)

    monkeypatch.setattr(steps, "stage_rows", noting)
    monkeypatch.setattr(NumpyBits, "concurrent", concurrent)
    with Follower(store) as follower:
        follower.poll(to=0)
        follower.poll()
        follower.verify()
        assert all(np.array_equal(follower.arrays[name], bits) for name, bits in states()[1].items())
    assert {name.startswith("deltawire-decode") for name in seen} == {concurrent}


@pytest.mark.parametrize("wrong", [0, TENSORS // 2, TENSORS - 1])
def test_a_wrong_base_is_noticed_before_anything_is_written(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch, wrong: int
) -> None:
    monkeypatch.setattr(steps, "_DECODERS", 3)
    mine: State = {name: np.zeros_like(bits) for name, bits in states()[0].items()}
    with Follower(store, mine) as follower:
        follower.poll(to=0)
        mine[f"t{wrong}"][:] = 7
        before = {name: bits.tobytes() for name, bits in mine.items()}
        with pytest.raises(WrongBaseError):
            follower.poll()
        assert {name: bits.tobytes() for name, bits in mine.items()} == before
        assert follower.version == 0


def test_a_damaged_batch_is_noticed(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "_DECODERS", 3)
    [part] = [info for info in store.list("data/") if info.key.endswith(".arrow")]
    data = bytearray(store.get(part.key, max_bytes=part.bytes).data)
    data[part.bytes // 2] ^= 1
    store.put(part.key, data, mode="overwrite")
    with Follower(store) as follower:
        follower.poll(to=0)
        with pytest.raises(DigestMismatchError):
            follower.poll()
        assert follower.version == 0
        follower.verify()


def test_rows_of_several_batches_cover_no_more_than_the_whole_tensor() -> None:
    """ROW-4."""
    table = build_table([("t", "BF16", (10,))], limits=DEFAULT_LIMITS)
    totals = Totals()
    add_totals(totals, Totals(changed=6, before=1, after=(1 << 64) - 1, covered={0: 6}), table)
    add_totals(totals, Totals(changed=4, before=2, after=3, covered={0: 4}), table)
    assert (totals.changed, totals.before, totals.after, totals.covered) == (10, 3, 2, {0: 10})
    with pytest.raises(MalformedRowError):
        add_totals(totals, Totals(changed=1, covered={0: 1}), table)


def test_a_box_is_counted_before_any_thread_looks_at_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of one box in batches, and so in groups, of their own. RNK-5"""
    monkeypatch.setattr(steps, "_GROUP", 1)
    store = MemoryStore(f"staging/{uuid.uuid4().hex}")
    add, looks = PartWriter.add, list[int]()
    old = np.arange(ELEMENTS, dtype=np.float32)
    options = PartOptions(batch_bytes=1)
    with Publisher(store, parts=options, ranked=True, anchors=NEVER) as publisher, monkeypatch.context() as patch:
        patch.setattr(PartWriter, "add", lambda writer, row: [add(writer, row) for _ in range(30)])
        for state in (old, np.where(old % 7 == 0, old + 1, old)):
            publisher.publish({"w": state})
    monkeypatch.setattr(ranked, "count_classes", lambda *args: looks.append(1) or count_classes(*args))  # type: ignore[func-returns-value]
    with Follower(store) as follower:
        follower.poll(to=0)
        with pytest.raises(MalformedRowError):
            follower.poll()
    assert len(looks) <= 1
