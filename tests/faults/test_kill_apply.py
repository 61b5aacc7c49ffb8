"""A process that follows into a directory is killed at every step; the directory is one version or another, whole."""

from __future__ import annotations

import errno
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import deserialize

from deltawire.consumer.follower import Follower
from deltawire.errors import TargetBusyError, TargetMismatchError, WrongBaseError
from deltawire.store.local import LocalStore
from deltawire.targets.arrays import NumpyBits
from deltawire.targets.directory import PRIVATE, DirectoryTarget
from tests.faults.doomed import ROOT, SYSTEM_CALLS, Nursery, acknowledged
from tests.faults.line import Trainer, bits_of, script

pytestmark = pytest.mark.usefixtures("no_fsync")
VERSIONS = script()
LAST = len(VERSIONS) - 1


@pytest.fixture(scope="module")
def stream(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stream")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda descriptor: None)
        Trainer(LocalStore(folder / "store"), VERSIONS).run()
    return folder


def start(stream: Path, folder: Path) -> Path:
    folder.mkdir()
    (folder / "store").symlink_to(stream / "store")
    return folder


def content(path: Path) -> dict[str, bytes]:
    """Tensors as any loader sees them, and the other files of a model."""
    found: dict[str, bytes] = {}
    for file in sorted(path.iterdir()):
        if file.name.endswith(".safetensors"):
            tensors = {name: bytes(tensor["data"]) for name, tensor in deserialize(file.read_bytes())}  # type: ignore[no-untyped-call]
            assert not set(tensors) & set(found)
            found |= tensors
        elif file.name not in {PRIVATE, "model.safetensors.index.json"}:
            found[file.name] = file.read_bytes()
    return found


def expected(number: int) -> dict[str, bytes]:
    version = VERSIONS[number]
    tensors = {name: bits_of(array) for name, array in version.state.items() if name != "head"}
    return tensors | version.files


def check_directory(path: Path, *, at_least: int) -> int:
    """Open it again, as the next process does; the version that it is."""
    target = DirectoryTarget(path)
    try:
        held = target.held
    finally:
        target.close()
    number = -1 if held is None else held.committed.record.version
    assert number >= at_least
    assert content(path) == ({} if number < 0 else expected(number))
    assert {entry.name for entry in (path / PRIVATE).iterdir() if not entry.name.startswith("tensors-")} <= {
        "held.json",
        "lock",
    }
    assert number < 0 or len([*(path / PRIVATE).glob("tensors-*")]) == 1
    return number


def finish(folder: Path) -> None:
    with Follower(LocalStore((folder / "store").resolve()), folder / "target") as follower:
        follower.poll()
        assert follower.version == LAST
        follower.verify()
    assert content(folder / "target") == expected(LAST)


@pytest.mark.parametrize("torn", [False, True])
@pytest.mark.parametrize("first", [0, 3, 4, 5])
def test_killed_at_each_step(doomed: Nursery, stream: Path, tmp_path: Path, first: int, *, torn: bool) -> None:
    """From nothing over version ``first`` to the next: snapshot, deltas with and without files, rebase."""
    before = start(stream, tmp_path / "before")
    if first:
        with Follower(LocalStore(stream / "store"), before / "target") as follower:
            follower.poll(to=first)
    seen = set()
    for kill_at in range(1, 10_000):
        folder = tmp_path / str(kill_at)
        shutil.copytree(before, folder, symlinks=True)
        killed = doomed.run("follow", folder, kill_at=kill_at, torn=torn, until=first + 1 if first else 0)
        reached = max(acknowledged(folder), first or -1)
        seen.add(check_directory(folder / "target", at_least=reached))
        if kill_at % 4 == 0:
            finish(folder)
        shutil.rmtree(folder)
        if not killed:
            break
    assert kill_at > 5
    assert seen == ({first, first + 1} if first else {-1, 0})


@pytest.mark.parametrize("first", [3, 4])
def test_killed_while_recovering(doomed: Nursery, stream: Path, tmp_path: Path, first: int) -> None:
    """Killed in the middle of an update, and again at every step of the next start."""
    before = start(stream, tmp_path / "before")
    with Follower(LocalStore(stream / "store"), before / "target") as follower:
        follower.poll(to=first)
    half_done = 0
    for kill_at in range(1, 10_000, 3):
        folder = tmp_path / "first"
        shutil.copytree(before, folder, symlinks=True)
        killed = doomed.run("follow", folder, kill_at=kill_at, torn=True, until=first + 1)
        private = folder / "target" / PRIVATE
        if (private / "journal.arrow").exists() or (private / "install.json").exists():
            half_done += 1
            for again in range(1, 10_000, 2):
                second = tmp_path / "second"
                shutil.copytree(folder, second, symlinks=True)
                killed_again = doomed.run("follow", second, kill_at=again, torn=True, until=first + 1)
                assert check_directory(second / "target", at_least=first + 1) == first + 1
                shutil.rmtree(second)
                if not killed_again:
                    break
        shutil.rmtree(folder)
        if not killed:
            break
    assert half_done > 1


class DiskFullError(OSError):
    def __init__(self) -> None:
        super().__init__(errno.ENOSPC, "no space left on device")


class Failing:
    """Makes one step of the disk fail, within this process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left = -1
        for name in SYSTEM_CALLS["follow"]:
            monkeypatch.setattr(f"os.{name}", self._failing(getattr(__import__("os"), name)))
        monkeypatch.setattr(np.memmap, "flush", self._failing(np.memmap.flush))
        monkeypatch.setattr(NumpyBits, "scatter", self._failing(NumpyBits.scatter))

    def _failing(self, function: Any) -> Any:
        def counted(*arguments: Any, **named: Any) -> Any:
            self.left -= 1
            if self.left == 0:
                raise DiskFullError
            return function(*arguments, **named)

        return counted


@pytest.mark.parametrize("goal", [0, 4, 5])
def test_a_step_fails_and_the_same_follower_goes_on(
    stream: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, goal: int
) -> None:
    failures = 0
    failing = Failing(monkeypatch)
    for fail_at in range(1, 10_000):
        path = tmp_path / str(fail_at)
        with Follower(LocalStore(stream / "store"), path) as follower:
            if goal:
                follower.poll(to=goal - 1)
            previous = follower.version
            failing.left = fail_at
            try:
                follower.poll(to=goal)
                failed = False
            except DiskFullError:
                failed = True
            went_by = failing.left > 0
            failing.left = -1
            assert follower.version in ({previous, goal} if failed else {goal})
            assert follower.record is None or follower.verify() == follower.record.state_digest
            assert content(path) == ({} if follower.version is None else expected(follower.version))
            follower.poll(to=goal)
            assert content(path) == expected(goal)
            follower.poll()
            assert content(path) == expected(LAST)
            follower.verify()
        shutil.rmtree(path)
        failures += failed
        if went_by:
            break
    assert failures > 5


def test_two_cannot_write_to_one_directory(stream: Path, tmp_path: Path) -> None:
    with Follower(LocalStore(stream / "store"), tmp_path / "target") as follower:
        follower.poll()
        with pytest.raises(TargetBusyError):
            DirectoryTarget(tmp_path / "target")
        program = "import sys; from deltawire.targets.directory import DirectoryTarget; DirectoryTarget(sys.argv[1])"
        other = subprocess.run(
            [sys.executable, "-c", program, str(tmp_path / "target")],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert "TargetBusyError" in other.stderr
        follower.close()  # twice is no harm
    DirectoryTarget(tmp_path / "target").close()


def damaged(path: Path) -> Iterator[str]:
    """Each way to damage a directory, done to it."""
    shard = next(path.glob("model-*.safetensors"))
    for name, data in [
        ("held.json", b"{"),
        ("held.json", b"[]"),
        ("held.json", b'{"record": 1}'),
        ("install.json", b"{"),
        ("install.json", b'{"install": [], "remove": []}'),
        ("journal.arrow", b"\x00" * 20),
        ("tensors", b"{}"),
        ("tensors", None),
        ("shard", shard.read_bytes()[:-1]),
        ("shard", None),
    ]:
        place = {"shard": shard, "tensors": next((path / PRIVATE).glob("tensors-*"))}.get(name, path / PRIVATE / name)
        before = place.read_bytes() if place.exists() else None
        if data is None:
            place.unlink()
        else:
            place.write_bytes(data)
        yield f"{name} {data!r:.40}"
        if before is not None:
            place.write_bytes(before)
        else:
            place.unlink(missing_ok=True)


def test_a_damaged_directory_is_refused_and_not_kept_locked(stream: Path, tmp_path: Path) -> None:
    path = tmp_path / "target"
    with Follower(LocalStore(stream / "store"), path) as follower:
        follower.poll()
    want = content(path)
    for what in damaged(path):
        print(what)  # shown when it fails
        for _ in range(2):
            with pytest.raises(TargetMismatchError, match="damaged"):
                DirectoryTarget(path)
    assert content(path) == want
    DirectoryTarget(path).close()


def test_a_directory_of_somebody_else_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    for path in (tmp_path, tmp_path / "mine.txt"):
        with pytest.raises(TargetMismatchError):
            DirectoryTarget(path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["mine.txt"]


def test_a_tampered_weight_is_noticed_before_anything_is_written(stream: Path, tmp_path: Path) -> None:
    path = tmp_path / "target"
    with Follower(LocalStore(stream / "store"), path) as follower:
        follower.poll(to=3)
    shard = max(path.glob("model-*.safetensors"), key=lambda file: file.stat().st_size)
    data = shard.read_bytes()
    shard.write_bytes(data[:-1000] + bytes(byte ^ 1 for byte in data[-1000:]))
    before = content(path)
    with Follower(LocalStore(stream / "store"), path) as follower:
        with pytest.raises(WrongBaseError):
            follower.poll(to=4)
        assert follower.version == 3
        assert content(path) == before
