"""An anchor is written beside publishes that go on: they do not wait for it, and it is its version bit for bit."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltawire.consumer.follower import Follower
from deltawire.errors import DeadlineExceededError, SourceChangedError, StoreUnavailableError
from deltawire.format import keys
from deltawire.format.tensors import TensorTable, build_table
from deltawire.inspecting.verification import verify_stream
from deltawire.kernels import scan
from deltawire.kernels.digest import digest_range
from deltawire.limits import DEFAULT_LIMITS, MIB
from deltawire.producer import base as base_module
from deltawire.producer import comparing
from deltawire.producer.anchors import AnchorPolicy
from deltawire.producer.base import BaseState
from deltawire.producer.comparing import SourceArray
from deltawire.store.base import Bytes
from deltawire.store.memory import MemoryStore
from tests.devices.places import PLACES, Place, bits_in, source_tensor
from tests.faults.conftest import new_memory
from tests.faults.faulty_store import Call, Fault, FaultyStore
from tests.faults.line import DTYPES, Reading, Version, assert_same, check_line, first_state, open_publisher, stepped

EVERY_TWO = AnchorPolicy(every=2, outweigh=None)
SIZES = (7, 1, 0, 200)
TABLE: TensorTable = build_table([(f"t{n}", "BF16", (size,)) for n, size in enumerate(SIZES)], limits=DEFAULT_LIMITS)


def new_base(seed: int, place: Place = "cpu") -> tuple[BaseState, list[npt.NDArray[np.uint16]]]:
    rng = np.random.default_rng(seed)
    bits = [rng.integers(0, 4, size, dtype=np.uint16) for size in SIZES]
    return BaseState(TABLE, [source_tensor(array, place).hold() for array in bits]), bits


def advance(base: BaseState, ordinal: int, new: npt.NDArray[np.uint16], place: Place = "cpu") -> None:
    tensor = TABLE.tensors[ordinal]
    shares = [int(digest_range(bits, np.uint64(tensor.seed), np.uint64(0))) for bits in (bits_in(base, tensor), new)]
    base.advance(tensor, source_tensor(new, place), before=shares[0], after=shares[1])


@given(
    st.integers(0, 2**32),
    st.sampled_from(PLACES),
    st.lists(st.tuples(st.sampled_from(["read", *PLACES]), st.integers(0, 3)), max_size=60),
)
def test_a_frozen_base_reads_as_it_was(seed: int, first: Place, moves: list[tuple[Any, int]]) -> None:
    """Chunk by chunk, while it moves on between any two of them; wherever it is, and wherever it moves."""
    with patch.object(base_module, "CHUNK", 10):
        check_frozen(seed, first, moves)


def check_frozen(seed: int, first: Place, moves: list[tuple[Any, int]]) -> None:
    base, bits = new_base(seed, first)
    rng = np.random.default_rng(seed)
    freeze = base.freeze()
    assert freeze.digests == base.digests
    readers = [base.read_frozen(freeze, tensor) for tensor in TABLE.tensors]
    read = [b""] * len(readers)
    for move, ordinal in moves:
        if move != "read":
            # Few values, so that elements change back and forth; now and then too many to be kept one by one.
            new = bits_in(base, TABLE.tensors[ordinal]).astype(np.uint16)
            changing = rng.random(new.size) < rng.choice([0.02, 0.02, 0.02, 0.5])
            new[changing] = rng.integers(0, 4, np.count_nonzero(changing), dtype=np.uint16)
            advance(base, ordinal, new, move)
        else:
            read[ordinal] += next(readers[ordinal], b"")
    for tensor in TABLE.tensors:
        read[tensor.ordinal] += b"".join(readers[tensor.ordinal])
        assert read[tensor.ordinal] == bits[tensor.ordinal].tobytes()
        whole = int(digest_range(bits_in(base, tensor), np.uint64(tensor.seed), np.uint64(0)))
        assert base.digests[tensor.ordinal] == whole
    assert not freeze.undo
    assert not freeze.copies
    base.release()
    advance(base, 0, bits[0] + np.uint16(9))
    assert not freeze.undo, "it keeps old bits for nobody"


def test_a_base_never_believes_what_it_did_not_write(monkeypatch: pytest.MonkeyPatch) -> None:
    base, bits = new_base(0)
    new = bits[3] + np.uint16(1)
    real = scan.find_changes

    def find_changes(*arguments: Any) -> Any:
        found = real(*arguments)
        new[:] = 77  # the caller's optimizer moves on
        return found

    monkeypatch.setattr(comparing, "find_changes", find_changes)
    tensor = TABLE.tensors[3]
    shares = [int(digest_range(array, np.uint64(tensor.seed), np.uint64(0))) for array in (bits[3], new)]
    base.advance(tensor, SourceArray(new), before=shares[0], after=shares[1])
    assert (bits_in(base, tensor) == bits[3] + 1).all()
    with pytest.raises(SourceChangedError):
        base.advance(tensor, SourceArray(new), before=0, after=1)


class SlowAnchors(FaultyStore):
    """Lets every chunk of an anchor wait for a permit."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.permits = threading.Semaphore(0)
        self.permitted = threading.Event()

    def put_stream(self, key: str, chunks: Any) -> int:
        if threading.current_thread().name != "deltawire-anchor":
            return super().put_stream(key, chunks)

        def permitted() -> Iterator[Bytes]:
            for chunk in chunks:
                while not self.permitted.is_set() and not self.permits.acquire(timeout=0.005):
                    pass
                yield chunk

        return super().put_stream(key, permitted())


@given(st.integers(0, 2**32), st.lists(st.integers(0, 4), min_size=6, max_size=10))
@settings(max_examples=15)
def test_publishes_do_not_wait_for_an_anchor(seed: int, permits: list[int]) -> None:
    memory = new_memory()
    store = SlowAnchors(memory)
    versions = [Version(first_state(seed), {"config.json": b"0"})]
    with open_publisher(store, anchors=EVERY_TWO) as publisher:
        for number, permitted in enumerate([0, 0, *permits]):
            if number:
                state = stepped(versions[-1].state, seed + number, fraction=0.4)
                versions.append(Version(state, {"config.json": b"%d" % (number // 2)}))
            publisher.publish(versions[-1].state, files=versions[-1].files, dtypes=DTYPES, timeout=30)
            for _ in range(permitted):
                store.permits.release()
        store.permitted.set()
        assert publisher.wait_for_anchor(timeout=30)
        assert publisher.anchor_error is None
        assert publisher.anchor_version is not None
        assert publisher.anchor_version >= 2
    with Reading(memory) as reading:
        assert reading.anchors
        anchors = [anchor.version for anchor in reading.anchors]
    check_line(memory, versions)
    for number in anchors:
        with Follower(memory) as follower:
            update = follower.poll(to=number)
            assert update is not None
            assert update.steps == ("anchor",)
            assert_same(follower.arrays, versions[number].state)


def grow(publisher: Any, count: int) -> None:
    """Publish ``count`` versions, and remember nothing."""
    state = first_state()
    for number in range(count):
        state = stepped(state, number)
        publisher.publish(state, dtypes=DTYPES)


def test_a_failed_anchor_is_tried_again_with_the_next_version(memory: MemoryStore) -> None:
    down = {True}

    def before(call: Call) -> None:
        if threading.current_thread().name == "deltawire-anchor" and down:
            call.fault = Fault.UNAVAILABLE

    with open_publisher(FaultyStore(memory, before=before), anchors=EVERY_TWO) as publisher:
        grow(publisher, 3)
        publisher.wait_for_anchor()
        error = publisher.anchor_error
        assert isinstance(error, StoreUnavailableError)
        assert publisher.anchor_version == 0
        down.clear()
        grow(publisher, 1)
        publisher.wait_for_anchor()
        assert publisher.anchor_error is None
        assert publisher.anchor_version == 3


def test_an_anchor_that_cannot_get_a_thread_does_not_fail_the_version(
    memory: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = threading.Thread.start

    def start(self: threading.Thread) -> None:
        if self.name == "deltawire-anchor":
            raise RuntimeError("can't start new thread")
        real(self)

    with open_publisher(memory, anchors=EVERY_TWO) as publisher:
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", start)
            grow(publisher, 3)
        assert isinstance(publisher.anchor_error, RuntimeError)
        grow(publisher, 1)
        publisher.wait_for_anchor()
        assert publisher.anchor_version == 3


def test_a_rebase_waits_for_an_anchor_no_longer_than_its_deadline(memory: MemoryStore) -> None:
    store = SlowAnchors(memory)
    grown = {**first_state(), "late": np.arange(5, dtype=np.uint16)}
    with open_publisher(store, anchors=EVERY_TWO) as publisher:
        grow(publisher, 3)
        started = time.monotonic()
        with pytest.raises(DeadlineExceededError):
            publisher.publish(grown, dtypes=DTYPES, timeout=0.1)
        assert time.monotonic() - started < 2
        grow(publisher, 1)  # the old base is still good for deltas
        with Follower(memory) as follower:
            assert follower.poll() is not None
            assert follower.record is not None
            assert follower.record.delta is not None
        store.permitted.set()
        published = publisher.publish(grown, dtypes=DTYPES)
        assert published.record.snapshot is not None
        assert publisher.anchor_version == published.version


def test_an_anchor_that_somebody_else_wrote_first_is_as_good(memory: MemoryStore) -> None:
    with open_publisher(memory, anchors=EVERY_TWO) as publisher:
        grow(publisher, 2)
    memory.put(keys.anchor_key(2), b"{}", mode="create")
    with open_publisher(memory, anchors=EVERY_TWO) as publisher:
        grow(publisher, 1)
        publisher.wait_for_anchor()
        assert publisher.anchor_error is None
    assert memory.get(keys.anchor_key(2), max_bytes=MIB).data == b"{}"
    with Follower(memory) as follower:  # it is damaged, so the line is taken from the start
        update = follower.poll()
        assert update is not None
        assert update.steps == ("snapshot", "delta", "delta")
        follower.verify()


def test_an_anchor_that_was_taken_for_orphans_is_withdrawn(memory: MemoryStore) -> None:
    """Its writer stalled for longer than a maintainer's grace. MNT-3"""

    def before(call: Call) -> None:
        if call.key == keys.anchor_key(2) and call.verb == "create":
            for info in [*memory.list(keys.DATA)]:
                if info.key.startswith(f"{keys.DATA}{2:020}-") and info.key.endswith(".safetensors"):
                    memory.delete(info.key)

    with open_publisher(FaultyStore(memory, before=before), anchors=EVERY_TWO) as publisher:
        grow(publisher, 3)
        publisher.wait_for_anchor()
        assert publisher.anchor_version == 0
        assert keys.anchor_key(2) not in {info.key for info in memory.list(keys.ANCHORS)}
        grow(publisher, 1)
        publisher.wait_for_anchor()
        assert publisher.anchor_version == 3
    verified = verify_stream(memory, deep=True)
    assert (verified.findings, verified.notes) == ([], [])


def test_closing_waits_for_an_anchor_but_not_for_ever(memory: MemoryStore) -> None:
    store = SlowAnchors(memory)
    publisher = open_publisher(store, anchors=EVERY_TWO)
    grow(publisher, 3)
    started = time.monotonic()
    publisher.close(timeout=0.1)
    assert time.monotonic() - started < 2
    store.permitted.set()
    assert publisher.wait_for_anchor(timeout=30)
