"""Publishers race for the same versions: each version has one winner, and the losers know."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from deltawire.consumer.follower import Follower
from deltawire.errors import ConflictError, FencedError
from deltawire.producer.anchors import AnchorPolicy
from deltawire.store.base import Store
from deltawire.store.local import LocalStore
from deltawire.store.memory import MemoryStore
from deltawire.store.opening import open_store
from tests.faults.doomed import ROOT
from tests.faults.line import DTYPES, Reading, assert_same, first_state, open_publisher, stepped
from tests.store.servers import S3Server

ANCHORS = AnchorPolicy(every=4, outweigh=None)


def compete(store: Store, name: str, versions: int) -> dict[int, int]:
    """Publish until the line has ``versions``; the seed of each version that was won."""
    won: dict[int, int] = {}
    attempt = 0
    while True:
        try:
            opened = open_publisher(store, anchors=ANCHORS)
        except FencedError:  # another took over between the first lease written here and the second
            continue
        with opened as publisher:
            while (publisher.version or 0) < versions - 1:
                attempt += 1
                seed = int(name) * 1000 + attempt
                state = stepped(first_state(), seed)
                try:
                    published = publisher.publish(state, dtypes=DTYPES, metadata={"seed": seed})
                except (ConflictError, FencedError):
                    break
                won[published.version] = seed
            else:
                return won


def check(store: Store, results: list[dict[int, int]], versions: int) -> None:
    won: dict[int, int] = {}
    for result in results:
        assert not set(result) & set(won), "two publishers believe that they committed one version"
        won |= result
    # Whoever committed the last one may have overshot by what others had begun; nobody's version is missing.
    assert sorted(won) == list(range(len(won)))
    assert len(won) >= versions
    with Reading(store) as reading:
        reading.check()
        assert [version.record.metadata["seed"] for version in reading.versions] == [won[n] for n in sorted(won)]
        assert len({version.record.commit_id for version in reading.versions}) == len(won)
    for number, seed in won.items():
        with Follower(store, workers=2) as follower:
            follower.poll(to=number)
            assert_same(follower.arrays, stepped(first_state(), seed))
            follower.verify()


def race_threads(stores: list[Store], versions: int) -> None:
    """All publish each version at the same moment, from the same parent."""
    together = threading.Barrier(len(stores), timeout=60)

    def run(number: int) -> dict[int, int]:
        won: dict[int, int] = {}
        for version in range(versions):
            with open_publisher(stores[number], anchors=ANCHORS) as publisher:
                assert publisher.version == (version - 1 if version else None)
                seed = number * 1000 + version
                state = stepped(first_state(), seed)
                together.wait()
                try:
                    published = publisher.publish(state, dtypes=DTYPES, metadata={"seed": seed})
                except (ConflictError, FencedError):
                    pass
                else:
                    assert published.version == version
                    won[version] = seed
            together.wait()
        return won

    with ThreadPoolExecutor(len(stores)) as pool:
        results = list(pool.map(run, range(len(stores))))
    assert sum(len(result) for result in results) == versions
    check(stores[0], results, versions)


def test_threads_race_in_memory() -> None:
    name = f"race-{uuid.uuid4().hex}"
    race_threads([MemoryStore(name) for _ in range(6)], 12)


@pytest.mark.usefixtures("no_fsync")
def test_threads_race_on_local_disk(tmp_path: Path) -> None:
    race_threads([LocalStore(tmp_path) for _ in range(6)], 8)


@pytest.mark.integration
def test_threads_race_on_s3(moto_server: S3Server) -> None:
    url = moto_server.url(f"race-{uuid.uuid4().hex}")
    stores = [open_store(url) for _ in range(4)]
    try:
        race_threads(stores, 6)
    finally:
        for store in stores:
            store.close()


def test_processes_race_on_local_disk(tmp_path: Path) -> None:
    versions = 20
    command = [sys.executable, "-m", "tests.faults.test_race", str(tmp_path / "store")]
    processes = [
        subprocess.Popen(
            [*command, str(number), str(versions)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
        )
        for number in range(3)
    ]
    results = []
    try:
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            assert process.stdin is not None
            print("go", file=process.stdin, flush=True)
        for process in processes:
            output, _ = process.communicate(timeout=120)
            assert process.returncode == 0
            results.append({int(version): seed for version, seed in json.loads(output).items()})
    finally:
        for process in processes:
            process.kill()
            process.wait()
    check(LocalStore(tmp_path / "store"), results, versions)


def main() -> None:
    """One process of the race."""
    path, name, versions = sys.argv[1:]
    compete(MemoryStore("warm"), "0", 3)
    print("ready", flush=True)
    sys.stdin.readline()
    os.fsync = lambda descriptor: None  # type: ignore[assignment]
    print(json.dumps(compete(LocalStore(path), name, int(versions))), flush=True)


if __name__ == "__main__":
    main()
