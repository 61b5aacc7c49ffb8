"""Models of many tensors: what is held must not grow with their number."""

from __future__ import annotations

import fnmatch
import resource
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from deltawire import Follower, Publisher
from deltawire.patches.applying import apply_patch
from deltawire.patches.writing import write_patch
from deltawire.producer.sources import FilesSource
from deltawire.store.memory import MemoryStore

TENSORS = 400
SPARE_FILES = 60


@pytest.fixture
def few_files() -> Iterator[None]:
    """A process that may open a few more files, far fewer than there are tensors."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    opened = len(list(Path("/proc/self/fd").iterdir()))
    resource.setrlimit(resource.RLIMIT_NOFILE, (opened + SPARE_FILES, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def state(value: int) -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.generic]]]:
    # Of odd sizes and different widths, so that a place in a file must be aligned to be right.
    kinds = (np.uint8, np.int16, np.float32, np.float64)
    return {f"t{i}": np.full(i % 3, value, kinds[i % 4]) for i in range(TENSORS)}


def target_of(kind: str, folder: Path) -> object:
    if kind == "directory":
        return folder
    arrays = {name: np.zeros_like(array) for name, array in state(0).items()}
    return arrays if kind == "arrays" else {name: torch.from_numpy(array) for name, array in arrays.items()}


@pytest.mark.parametrize("kind", ["directory", "arrays", "torch"])
def test_targets_open_few_files(kind: str, tmp_path: Path, few_files: None) -> None:
    store = MemoryStore(f"many-{kind}")
    with Publisher(store) as publisher, Follower(store, target_of(kind, tmp_path / "model")) as follower:
        for version in range(2):
            publisher.publish(state(version + 1))
            follower.poll()
            follower.verify()


def test_names_are_found_without_matching_each_against_all(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore("many-names")
    with Publisher(store) as publisher:
        publisher.publish({"t[0]": np.ones(1, np.float32), "t0": np.ones(1, np.float32), **state(1)})
    monkeypatch.delattr(fnmatch, "fnmatchcase")
    with Follower(store, tensors=["t[0]", "t7"]) as follower:
        follower.poll()
        assert set(follower.arrays) == {"t[0]", "t7"}


def test_patches_open_few_files(tmp_path: Path, few_files: None) -> None:
    for name, value in (("a", 1), ("b", 2)):
        (tmp_path / name).mkdir()
        save_file(state(value), tmp_path / name / "model.safetensors")
    write_patch(tmp_path / "a", tmp_path / "b", tmp_path / "patch")
    apply_patch(tmp_path / "a", tmp_path / "patch", tmp_path / "out")


def test_a_checkpoint_that_is_replaced_while_it_is_published_stays_what_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, newer = tmp_path / "model.safetensors", tmp_path / "newer"
    save_file({"a": np.ones(1000, np.float32), "b": np.ones(1000, np.float32)}, file)
    # Another header, so that the tensors lie elsewhere.
    save_file({name: np.full(1000, 2, np.float32) for name in "abc"}, newer, metadata={"step": "2" * 99})
    original = FilesSource.bits

    def replace_first(source: FilesSource, name: str) -> np.ndarray[tuple[int], np.dtype[np.unsignedinteger]]:
        if newer.exists():
            newer.replace(file)
        return original(source, name)

    store = MemoryStore("replaced")
    monkeypatch.setattr(FilesSource, "bits", replace_first)
    with Publisher(store) as publisher, Follower(store) as follower:
        publisher.publish(tmp_path)
        follower.poll()
        assert not newer.exists()
        _all_ones(follower.arrays)


def _all_ones(arrays: Mapping[str, np.ndarray[tuple[int, ...], np.dtype[np.generic]]]) -> None:
    assert {name: np.unique(array).tolist() for name, array in arrays.items()} == {"a": [1.0], "b": [1.0]}
