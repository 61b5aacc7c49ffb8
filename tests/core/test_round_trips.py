"""From a publisher to a follower, bit for bit: every dtype and shape, every kind of source and target."""

from __future__ import annotations

import itertools
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import deserialize
from safetensors.torch import save_file

from deltawire import AnchorPolicy, Follower, PartOptions, Publisher, torch_bits
from deltawire.errors import (
    DeltawireError,
    InvalidArgumentError,
    InvalidStateError,
    StateMismatchError,
    TargetMismatchError,
)
from deltawire.format.dtypes import DTYPES
from deltawire.producer.anchors import NEVER
from deltawire.snapshots.header import build_header, file_order
from deltawire.store.memory import MemoryStore
from deltawire.targets import digests
from deltawire.targets.arrays import NumpyBits
from tests.strategies import State, codec_options, lines, next_states, same_bits, states

_NUMBERS = itertools.count()


def new_store() -> MemoryStore:
    return MemoryStore(f"round-trip-{next(_NUMBERS)}")


def publish(publisher: Publisher, state: State) -> None:
    publisher.publish(state.arrays(), dtypes=state.dtype_names())


small_parts = st.builds(
    PartOptions, batch_bytes=st.sampled_from([1, 100, 1 << 20]), part_bytes=st.sampled_from([1, 1 << 20])
)
anchor_policies = st.sampled_from([NEVER, AnchorPolicy(every=2, outweigh=None), AnchorPolicy(every=1, outweigh=None)])


@given(lines(), small_parts, anchor_policies, codec_options, st.sampled_from([1, 200, 1 << 30]))
def test_arrays_to_arrays(
    line: list[State], parts: PartOptions, anchors: AnchorPolicy, codecs: dict[str, Any], shard_bytes: int
) -> None:
    store = new_store()
    with (
        Publisher(store, parts=parts, anchors=anchors, **codecs, shard_bytes=shard_bytes) as publisher,
        Follower(store) as along,
    ):
        for number, state in enumerate(line):
            publish(publisher, state)
            update = along.poll()
            assert update is not None
            assert update.version == number
            assert same_bits(along.arrays, state)
            assert along.verify() == update.state_digest
            assert along.poll() is None
            publisher.wait_for_anchor()
            assert publisher.anchor_error is None
    with Follower(store) as late:
        assert late.poll() is not None
        assert same_bits(late.arrays, line[-1])
    with Follower(store) as careful:
        for number, state in enumerate(line):
            assert careful.poll(to=number) is not None
            assert same_bits(careful.arrays, state)


@given(states(max_tensors=6), st.sampled_from([1, 7, 40]), st.booleans())
def test_what_is_held_is_digested_in_any_cut(state: State, run: int, concurrent: bool) -> None:
    store = new_store()
    with Publisher(store) as publisher:
        publish(publisher, state)
    with pytest.MonkeyPatch.context() as patch, Follower(store) as follower:
        patch.setattr(digests, "_RUN", run)
        patch.setattr(NumpyBits, "concurrent", concurrent)
        update = follower.poll()
        assert update is not None
        assert follower.verify() == update.state_digest
        changeable = [array for array in follower.arrays.values() if array.size]
        if changeable:
            changeable[-1].reshape(-1).view(np.uint8)[-1] ^= 1
            with pytest.raises(StateMismatchError):
                follower.verify()


@pytest.mark.parametrize("codecs", [{}, {"absolute": True}, {"ranked": True}])
@pytest.mark.parametrize("dtype", ["I64", "F32", "BF16", "U8"])
def test_a_large_tensor_that_changes_evenly_is_not_a_bomb(dtype: str, codecs: dict[str, Any]) -> None:
    # Batches of more than 16 MiB must not shrink a thousand times (LIM-2), and this one does.
    old = np.full(1 << 22, 3, DTYPES[dtype].storage)
    store = new_store()
    with Publisher(store, anchors=NEVER, **codecs) as publisher, Follower(store) as follower:
        for state in (old, old + old.dtype.type(1)):
            publisher.publish({"w": state}, dtypes={"w": dtype})
            follower.poll()
        assert follower.arrays["w"].tobytes() == (old + old.dtype.type(1)).tobytes()


@given(st.data())
def test_given_arrays_are_changed_in_place(data: st.DataObject) -> None:
    first = data.draw(states())
    second = data.draw(next_states(first))
    store = new_store()
    given_arrays = {name: np.zeros_like(array) for name, array in first.arrays().items()}
    given_arrays |= {alias: given_arrays[name] for alias, name in first.aliases.items()}
    with Publisher(store) as publisher, Follower(store, given_arrays) as follower:
        for state in (first, second):
            publish(publisher, state)
            assert follower.poll() is not None
            assert same_bits(given_arrays, state)


@given(st.data())
def test_a_restarted_publisher_goes_on(data: st.DataObject) -> None:
    line = [data.draw(states())]
    line += [data.draw(next_states(line[0])), data.draw(next_states(line[0]))]
    store = new_store()
    for state in line:
        with Publisher(store, anchors=NEVER) as publisher:
            publish(publisher, state)
    with Follower(store) as follower:
        update = follower.poll()
        assert update is not None
        assert update.steps == ("snapshot", "delta", "delta")
        assert same_bits(follower.arrays, line[-1])


@given(st.data())
def test_selected_tensors(data: st.DataObject) -> None:
    first = data.draw(states())
    second = data.draw(next_states(first))
    wanted = data.draw(st.lists(st.sampled_from([*first.bits, *first.aliases]), min_size=1, unique=True))
    names = {first.aliases.get(name, name) for name in wanted}
    store, shard_bytes = new_store(), data.draw(st.sampled_from([1, 1 << 30]))
    with (
        Publisher(store, parts=PartOptions(batch_bytes=1), shard_bytes=shard_bytes) as publisher,
        Follower(store, tensors=wanted) as follower,
    ):
        for state in (first, second):
            publish(publisher, state)
            assert follower.poll() is not None
            expected = names | {alias for alias, name in state.aliases.items() if name in names}
            assert set(follower.arrays) == expected
            for name in expected:
                own = state.bits[state.aliases.get(name, name)]
                assert np.ascontiguousarray(follower.arrays[name]).tobytes() == own.tobytes()
            follower.verify()


def test_selection_by_pattern_fetches_only_what_it_needs() -> None:
    store = new_store()
    arrays = {f"layer.{i}.{kind}": np.zeros(50_000, np.uint8) for i in range(4) for kind in ("a", "b")}
    rng = np.random.default_rng(0)
    for array in arrays.values():
        array[:] = rng.integers(0, 256, array.size)
    with (
        Publisher(store, parts=PartOptions(batch_bytes=1), shard_bytes=1) as publisher,
        Follower(store, tensors=["layer.2.*"]) as some,
        Follower(store) as every,
    ):
        publisher.publish(arrays)
        updates = some.poll(), every.poll()
        assert updates[0] is not None
        assert updates[1] is not None
        assert updates[0].bytes_fetched < 0.3 * updates[1].bytes_fetched
        for array in arrays.values():
            array[:] = rng.integers(0, 256, array.size)
        publisher.publish(arrays)
        updates = some.poll(), every.poll()
        assert updates[0] is not None
        assert updates[1] is not None
        assert updates[0].bytes_fetched < 0.3 * updates[1].bytes_fetched
        assert set(some.arrays) == {"layer.2.a", "layer.2.b"}
    with Follower(store, tensors=["nothing.*"]) as lost, pytest.raises(InvalidArgumentError):
        lost.poll()


TORCH = {name: kind for kind, name in torch_bits.DTYPE_NAMES.items()}


def as_torch(state: State) -> dict[str, torch.Tensor]:
    """A state of dtypes that torch has."""
    found: dict[str, torch.Tensor] = {}
    for name, bits in state.bits.items():
        kind = TORCH[state.dtypes[name].name]
        shape = state.stored_shape(name)
        raw = torch.from_numpy(bits.view(np.uint8).copy())
        found[name] = (raw.view(kind) if bits.size else torch.empty(0, dtype=kind)).reshape(shape)
    return found | {alias: found[name] for alias, name in state.aliases.items()}


def torch_bytes(tensors: dict[str, torch.Tensor]) -> dict[str, bytes]:
    return {name: torch_bits.to_numpy(torch_bits.flat_bits(tensor)).tobytes() for name, tensor in tensors.items()}


def in_torch(state: State) -> bool:
    return all(dtype.name in TORCH for dtype in state.dtypes.values())


@given(lines(max_versions=3, rebase=False).filter(lambda line: in_torch(line[0])))
def test_torch_to_torch(line: list[State]) -> None:
    store = new_store()
    target = as_torch(replace(line[0], bits={name: ~bits for name, bits in line[0].bits.items()}))
    with Publisher(store) as publisher, Follower(store, target) as follower, Follower(store) as arrays:
        for state in line:
            publisher.publish(as_torch(state))
            for each in (follower, arrays):
                assert each.poll() is not None
                each.verify()
            assert torch_bytes(target) == torch_bytes(as_torch(state))
            assert same_bits(arrays.arrays, state)


class Tied(torch.nn.Module):
    """A small model with tied weights, a buffer and two precisions."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = torch.nn.Embedding(11, 4, dtype=torch.bfloat16)
        self.body = torch.nn.Linear(4, 4)
        self.head = torch.nn.Linear(4, 11, bias=False, dtype=torch.bfloat16)
        self.head.weight = self.embed.weight
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))


def test_modules() -> None:
    torch.manual_seed(0)
    trainer, engine, store = Tied(), Tied(), new_store()
    with Publisher(store) as publisher, Follower(store, engine) as follower:
        for step in range(4):
            with torch.no_grad():
                for parameter in trainer.parameters():
                    parameter.add_(0.01 * torch.randn_like(parameter))
                trainer.get_buffer("steps").fill_(step)
            published = publisher.publish(trainer)
            assert published.record.delta is None or step
            assert follower.poll() is not None
            assert torch_bytes(engine.state_dict()) == torch_bytes(trainer.state_dict())
        assert engine.head.weight.data_ptr() == engine.embed.weight.data_ptr()
        assert follower.table is not None
        assert follower.table.aliases == {"head.weight": "embed.weight"}


def test_untied_targets_of_a_tied_stream() -> None:
    store = new_store()
    with Publisher(store) as publisher:
        publisher.publish(Tied())
    untied = {name: tensor.clone() for name, tensor in Tied().state_dict().items()}
    with Follower(store, untied) as follower, pytest.raises(TargetMismatchError):
        follower.poll()


def test_non_contiguous_sources() -> None:
    store = new_store()
    array, tensor = np.arange(24, dtype=np.float32).reshape(4, 6), torch.arange(24.0).reshape(4, 6)
    with Publisher(store) as publisher, Follower(store) as follower:
        publisher.publish({"a": array.T, "b": array[:, ::2]})
        assert follower.poll() is not None
        assert np.array_equal(follower.arrays["a"], array.T)
        assert np.array_equal(follower.arrays["b"], array[:, ::2])
        publisher.publish({"a": tensor.T + 1, "b": (tensor + 1)[:, ::2]})
        assert follower.poll() is not None
        assert np.array_equal(follower.arrays["a"], array.T + 1)


def test_big_endian_arrays() -> None:
    # What counts is the number: the wire is little-endian, and so is what followers hold.
    store = new_store()
    array = np.arange(6).astype(">f4")
    with Publisher(store) as publisher, Follower(store) as follower:
        publisher.publish({"a": array})
        assert follower.poll() is not None
        assert np.array_equal(follower.arrays["a"], array)
    with Follower(store, {"a": array}) as follower, pytest.raises(TargetMismatchError):
        follower.poll()


@pytest.mark.parametrize(("name", "last"), [("F4", 8), ("F6_E2M3", 4), ("F6_E3M2", 4)])
def test_packed_arrays_hold_bytes(name: str, last: int) -> None:
    packed = last * DTYPES[name].bits // 8
    store, array = new_store(), np.arange(2 * packed, dtype=np.uint8).reshape(2, packed)
    target = {"a": np.zeros((2, packed), np.uint8)}
    with Publisher(store) as publisher, Follower(store, target) as follower, Follower(store) as own:
        for step in range(2):
            publisher.publish({"a": array + np.uint8(step)}, dtypes={"a": name})
            assert follower.poll() is not None
            assert follower.table is not None
            assert follower.table.tensors[0].shape == (2, last)
            assert np.array_equal(target["a"], array + step)
            assert own.poll() is not None
            assert own.arrays["a"].tobytes() == (array + np.uint8(step)).tobytes()
    unpacked = {"a": np.zeros((2, last), np.uint8)}
    with Follower(store, unpacked) as follower, pytest.raises(TargetMismatchError):
        follower.poll()
    if name != "F4":
        with Publisher(new_store()) as publisher, pytest.raises(InvalidStateError):
            publisher.publish({"a": np.zeros((2, 4), np.uint8)}, dtypes={"a": name})  # 4 bytes are 5 1/3 elements


@pytest.mark.parametrize(
    "state",
    [{}, {"a": 1}, {"a": [1.0]}, 7, None, {"a": np.array(["x"])}, {"a": np.array([1 + 2j])}, {"a": np.array([None])},
     {"a": torch.tensor([1 + 2j], dtype=torch.complex128)}, {"": np.zeros(1)}, {"a\n": np.zeros(1)},
     {"a": np.zeros(1), "b": torch.zeros(1)}, {"\ud800": np.zeros(1)}, {7: np.zeros(1)}],
)  # fmt: skip
def test_states_that_cannot_be_published(state: Any) -> None:
    store = new_store()
    with Publisher(store) as publisher:
        with pytest.raises(InvalidStateError):
            publisher.publish(state)
        assert publisher.version is None
        publisher.publish({"a": np.zeros(1)})  # nothing was left behind
        assert publisher.version == 0


@pytest.mark.parametrize("dtypes", [{"a": "F16"}, {"a": "F128"}])
def test_dtypes_that_do_not_fit(dtypes: dict[str, str]) -> None:
    with Publisher(new_store()) as publisher, pytest.raises(DeltawireError):
        publisher.publish({"a": np.zeros(3, np.uint8)}, dtypes=dtypes)


def write_directory(state: State, folder: Path) -> None:
    """A checkpoint on disk as any writer may leave it: one file, in no special order."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    order = file_order(state.table().tensors)
    data = b"".join(state.bits[tensor.name].tobytes() for tensor in order)
    (folder / "model.safetensors").write_bytes(build_header(order, None) + data)


def directory_bytes(folder: Path) -> dict[str, bytes]:
    files = sorted(folder.glob("*.safetensors"))
    found = [view for file in files for view in deserialize(file.read_bytes())]  # type: ignore[no-untyped-call]
    return {name: bytes(view["data"]) for name, view in found}


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("round-trips")


@settings(max_examples=25)
@given(line=lines(max_versions=3))
def test_directories_to_directories(scratch: Path, line: list[State]) -> None:
    store, number = new_store(), next(_NUMBERS)
    source, target = scratch / f"source-{number}", scratch / f"target-{number}"
    with Publisher(store) as publisher:
        for state in line:
            write_directory(state, source)
            publisher.publish(source)
            with Follower(store, target) as follower:  # a new process each time
                assert follower.poll() is not None
                follower.verify()
            assert directory_bytes(target) == {name: bits.tobytes() for name, bits in state.bits.items()}
    with Follower(store) as follower:
        assert follower.poll() is not None
        assert {n: np.ascontiguousarray(a).tobytes() for n, a in follower.arrays.items()} == directory_bytes(target)


def test_auxiliary_files_travel(tmp_path: Path) -> None:
    source, target, store = tmp_path / "source", tmp_path / "target", new_store()
    source.mkdir()
    save_file({"a": torch.zeros(3)}, source / "model.safetensors")
    (source / "config.json").write_text('{"x": 1}')
    (source / "notes.txt").write_text("not a model file")
    with Publisher(store) as publisher, Follower(store, target) as follower:
        publisher.publish(source)
        assert follower.poll() is not None
        assert (target / "config.json").read_text() == '{"x": 1}'
        assert not (target / "notes.txt").exists()
        (source / "config.json").write_text('{"x": 2}')
        publisher.publish(source)
        assert follower.poll() is not None
        assert (target / "config.json").read_text() == '{"x": 2}'
        (source / "config.json").unlink()
        publisher.publish(source)
        assert follower.poll() is not None
        assert not (target / "config.json").exists()


def test_nothing_changed_is_a_version_too() -> None:
    store = new_store()
    with Publisher(store) as publisher, Follower(store) as follower:
        for _ in range(3):
            published = publisher.publish({"a": np.zeros(3), "empty": np.zeros((0, 2))})
            assert follower.poll() is not None
        assert published.changed_elements == 0
        assert published.record.delta is not None
        assert published.record.delta.parts == ()
        assert follower.version == 2


def test_every_bit_pattern_of_bf16() -> None:
    # All 65536 patterns, NaNs and both zeros included, to all others by way of three permutations.
    store = new_store()
    every = np.arange(1 << 16, dtype=np.uint16)
    rng = np.random.default_rng(0)
    with Publisher(store, anchors=NEVER) as publisher, Follower(store) as follower:
        for state in (every, rng.permutation(every), every[::-1].copy(), every ^ np.uint16(0x8000)):
            publisher.publish({"a": state}, dtypes={"a": "BF16"})
            assert follower.poll() is not None
            assert np.array_equal(follower.arrays["a"], state)
