"""What is published from tensors on a device is byte for byte what is published from the same ones on the CPU."""

from __future__ import annotations

import itertools
import threading
import uuid
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from deltawire import AnchorPolicy, Follower, PartOptions, Publisher
from deltawire.errors import InvalidStateError, SourceChangedError
from deltawire.format import keys
from deltawire.limits import MIB
from deltawire.producer import envelope, torch_comparing
from deltawire.producer.anchors import NEVER
from deltawire.producer.comparing import HeldArray, SourceTensor
from deltawire.producer.torch_comparing import HeldOnDevice
from deltawire.producer.torch_source import TorchSource
from deltawire.store.base import Store
from deltawire.store.memory import MemoryStore
from tests.devices.layouts import CPU, KINDS, LAYOUTS, as_torch, small_boxes, torch_lines
from tests.devices.places import DEVICE, PLACES, Place
from tests.faults.conftest import new_memory
from tests.faults.faulty_store import APPLICABLE, Call, Fault, FaultyStore
from tests.faults.line import DTYPES, State, Trainer, Version, check_line, check_order, open_publisher, script
from tests.strategies import State as BitState
from tests.strategies import same_bits

SOURCES: dict[Place, dict[str, bool]] = {
    "cpu": {},
    "device": {"as_device": True},
    "device, base on cpu": {"as_device": True, "device_base": False},
}


def written(store: Store) -> dict[str, bytes]:
    """All that is in a store but what tells the time, or whether an anchor was ready yet."""
    kept = (info for info in store.list("") if not info.key.startswith(("leases/", keys.HEAD)))
    return {info.key: store.get(info.key, max_bytes=MIB).data for info in kept}


def publish_line(
    line: list[BitState], places: list[Place], layouts: list[dict[str, str]], *, reopen: bool, **options: Any
) -> MemoryStore:
    """Publish states, each from another place, in a world whose identities and times are always the same."""
    store = new_memory()
    numbers = {True: itertools.count(), False: itertools.count(1 << 32)}  # anchors are written meanwhile
    publisher: Publisher | None = None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(uuid, "uuid4", lambda: uuid.UUID(int=next(numbers["anchor" in threading.current_thread().name])))
        patch.setattr(envelope, "now", lambda: "2026-01-01T00:00:00.000000Z")
        try:
            for state, place, layout in zip(line, places, layouts, strict=True):
                if publisher is None:
                    publisher = Publisher(store, lease_ttl=600, **options)
                tensors = as_torch(state, layout, device=CPU if place == "cpu" else DEVICE)
                publisher.publish(TorchSource(tensors, **SOURCES[place]))
                assert publisher.wait_for_anchor()
                assert publisher.anchor_error is None
                if reopen:
                    publisher.close()
                    publisher = None
        finally:
            if publisher is not None:
                publisher.close()
    return store


@given(
    st.data(),
    torch_lines(),
    st.sampled_from([1, 7, 1 << 22]),
    st.sampled_from(["gap", "absolute", "ranked"]),
    st.booleans(),
    st.booleans(),
)
def test_the_same_bytes(
    data: st.DataObject, line: list[BitState], box: int, codecs: str, anchors: bool, reopen: bool
) -> None:
    """Whatever the dtypes, shapes and strides, and wherever the base is when a state comes from elsewhere."""
    places = data.draw(st.lists(st.sampled_from(PLACES), min_size=len(line), max_size=len(line)), label="places")
    layouts = [{name: data.draw(st.sampled_from(LAYOUTS)) for name in state.bits} for state in line]
    options: dict[str, Any] = {
        "absolute": codecs == "absolute",
        "ranked": codecs == "ranked",
        "anchors": AnchorPolicy(every=1 if anchors else None, outweigh=None),
        "parts": PartOptions(batch_bytes=data.draw(st.sampled_from([1, 1 << 20]))),
        "shard_bytes": data.draw(st.sampled_from([1, 1 << 30])),
    }
    here: list[Place] = ["cpu"] * len(line)
    with small_boxes(box):
        stores = [publish_line(line, where, layouts, reopen=reopen, **options) for where in (here, places)]
    assert written(stores[0]) == written(stores[1])
    with Follower(stores[1]) as follower:
        for number, state in enumerate(line):
            follower.poll(to=number)
            assert same_bits(follower.arrays, state)


@pytest.mark.parametrize("place", PLACES[1:])
@pytest.mark.parametrize("ranked", [False, True])
@pytest.mark.parametrize("share", [0.003, 0.9])
def test_every_dtype_of_torch(place: Place, ranked: bool, share: float) -> None:
    rng = np.random.default_rng(1)
    shape = (4, 250)
    tensors = {}
    for name, kind in KINDS.items():
        width = torch.empty(0, dtype=kind).element_size()
        raw = torch.from_numpy(rng.integers(0, 2 if kind is torch.bool else 256, (*shape, width), dtype=np.uint8))
        tensors[name] = raw.view(kind).squeeze(-1).t()
    line = [tensors]
    for _ in range(3):
        step = {}
        for name, tensor in line[-1].items():
            raw = tensor.t().contiguous().view(torch.uint8).clone()
            hit = torch.from_numpy(rng.random(tuple(raw.shape)) < share)
            raw[hit] ^= 1
            step[name] = raw.view(tensor.dtype).t()
        line.append(step)
    stores = [new_memory(), new_memory()]
    for store, where, device in zip(stores, ("cpu", place), (CPU, DEVICE), strict=True):
        with Publisher(store, anchors=NEVER, ranked=ranked) as publisher:
            for state in line:
                on_device = {name: tensor.to(device) for name, tensor in state.items()}
                publisher.publish(TorchSource(on_device, **SOURCES[where]))
    parts = [
        [store.get(info.key, max_bytes=MIB).data for info in store.list(keys.DATA) if info.key.endswith(".arrow")]
        for store in stores
    ]
    assert len(parts[0]) == 3
    assert parts[0] == parts[1]
    with Follower(stores[1]) as follower:
        update = follower.poll()
        assert update is not None
        assert follower.verify() == update.state_digest


def test_the_base_is_where_it_was_asked_to_be(memory: MemoryStore) -> None:
    states = [{"w": torch.arange(5 + number, 9 + number, device=DEVICE)} for number in range(2)]
    for device_base, kind in ((True, HeldOnDevice), (False, HeldArray)):
        with Publisher(memory, anchors=NEVER) as publisher:
            for state in states:
                publisher.publish(TorchSource(state, as_device=True, device_base=device_base))
                base = publisher._line.base
                assert base is not None
                assert [type(held) for held in base._held] == [kind]


def test_a_device_without_room_for_the_base(memory: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    def copy_run(*arguments: Any) -> torch.Tensor:
        raise torch.OutOfMemoryError("out of memory")

    state = {"w": torch.arange(7, device=DEVICE)}
    with Publisher(memory, anchors=NEVER) as publisher:
        with monkeypatch.context() as patch:
            patch.setattr(torch_comparing, "copy_run", copy_run)
            with pytest.raises(InvalidStateError, match="no room"):
                publisher.publish(TorchSource(state, as_device=True))
        assert publisher.version is None
        assert publisher.publish(TorchSource(state, as_device=True, device_base=False)).version == 0


class Settling(TorchSource):
    """Notes in which thread it was settled, and whether it was before anything was read."""

    def __init__(self, tensor: torch.Tensor) -> None:
        super().__init__({"w": tensor}, as_device=True)
        self.noted: list[object] = []

    def settle(self) -> None:
        self.noted.append(threading.current_thread())
        super().settle()

    def tensor(self, name: str) -> SourceTensor:
        self.noted.append(name)
        return super().tensor(name)


def test_what_the_caller_queued_is_waited_for_in_its_thread(memory: MemoryStore) -> None:
    with Publisher(memory, anchors=NEVER) as publisher:
        for number in range(2):
            source = Settling(torch.full((9,), number))
            publisher.publish(source)
            assert source.noted[:2] == [threading.current_thread(), "w"]


@pytest.mark.parametrize("modes", [(True, False), (False, True), (True, True)])
def test_inference_mode_makes_no_difference(memory: MemoryStore, modes: tuple[bool, bool]) -> None:
    with Publisher(memory, anchors=NEVER) as publisher:
        for number, mode in enumerate([*modes, *modes]):
            with torch.inference_mode(mode=mode):
                publisher.publish(TorchSource({"w": torch.arange(50, device=DEVICE) * number}, as_device=True))
    with Follower(memory) as follower:
        follower.poll()
        assert follower.arrays["w"].tolist() == [3 * number for number in range(50)]


# A state that moves, and a store that fails: the same as from the CPU.


def at_version(number: int, act: Any) -> Any:
    """Do something once, just before the record of a version is created."""
    left = [act]

    def before(call: Call) -> None:
        if call.verb == "create" and call.key == keys.version_key(number) and left:
            left.pop()()

    return before


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("index", [0, 799])
def test_a_source_changed_before_the_base_took_it_over(memory: MemoryStore, place: Place, index: int) -> None:
    first = torch.arange(800, dtype=torch.int32, device=CPU if place == "cpu" else DEVICE)
    second = first + (first % 50 == 0)
    store = FaultyStore(memory, before=at_version(1, lambda: second.__setitem__(index, 12345)))
    with open_publisher(store, anchors=NEVER) as publisher:
        publisher.publish(TorchSource({"w": first}, **SOURCES[place]))
        expected = second.clone()
        with pytest.raises(SourceChangedError):
            publisher.publish(TorchSource({"w": second}, **SOURCES[place]))
        with pytest.raises(SourceChangedError):
            publisher.publish(TorchSource({"w": second}, **SOURCES[place]))
    with Follower(memory) as follower:
        follower.poll()
        assert follower.arrays["w"].tolist() == expected.tolist()


@pytest.mark.parametrize("place", PLACES[1:])
def test_whatever_is_committed_of_a_state_in_motion_can_be_read(memory: MemoryStore, place: Place) -> None:
    kinds = {"w": (1 << 16, torch.int16), "x": (1 << 12, torch.uint8)}
    state = {name: torch.zeros(size, dtype=kind, device=DEVICE) for name, (size, kind) in kinds.items()}
    stop = threading.Event()

    def step() -> None:
        while not stop.is_set():
            for tensor, share in zip(state.values(), (0.1, 0.9), strict=True):
                hit = torch.rand(tensor.shape, device=DEVICE) < share
                tensor.add_(hit * torch.randint_like(tensor, 0, 3))

    stepping = threading.Thread(target=step)
    stepping.start()
    caught = 0
    try:
        for _ in range(10):
            with Publisher(memory, anchors=NEVER) as publisher:
                try:
                    for _ in range(2):
                        publisher.publish(TorchSource(state, **SOURCES[place]))
                except SourceChangedError:
                    caught += 1
    finally:
        stop.set()
        stepping.join()
    assert caught
    with Follower(memory) as follower:
        for update in follower.follow(until=len([*memory.list(keys.VERSIONS)]) - 1, every_version=True):
            assert follower.verify() == update.state_digest


VERSIONS = script()
ORDINARY = sorted(set().union(*APPLICABLE.values()))


class Torch(TorchSource):
    """A scripted state on a device. What is told of its dtypes is for arrays."""

    def __init__(self, state: State) -> None:
        made = {name: torch.from_numpy(array.copy()).to(DEVICE) for name, array in state.items() if name != "head"}
        cast = {name: made[name].view(torch.bfloat16) for name in DTYPES if name in made}
        super().__init__({"embed": cast["embed"], "head": cast["embed"], **made, **cast}, as_device=True)


@settings(max_examples=40)
@given(st.dictionaries(st.integers(0, 140), st.sampled_from(ORDINARY), min_size=1, max_size=6))
def test_any_combination_of_faults(faults: dict[int, Fault]) -> None:
    """A publisher that failed goes on, or another one does, with a base that it reads back and moves to the device."""
    memory = new_memory()
    store = FaultyStore(memory, faults)
    versions: list[Any] = [Version(Torch(version.state), version.files) for version in VERSIONS]  # type: ignore[arg-type]
    Trainer(store, versions).run()
    assert check_line(memory, VERSIONS) == len(VERSIONS)
    check_order(memory, store.effects)
