"""A whole line of versions over a real S3 server: signatures, checksums, conditions and a disk behind it."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from deltawire import AnchorPolicy, Follower, PartOptions, Publisher
from deltawire.errors import FencedError, LeaseHeldError, StoreUnfitError
from tests.store.servers import S3Server

State = dict[str, npt.NDArray[np.uint16]]
NAMES = {"embed.weight": "BF16", "layer.weight": "BF16", "layer.bias": "BF16"}
VERSIONS = 7


def first_state(rng: np.random.Generator) -> State:
    shapes = {"embed.weight": (1000, 64), "layer.weight": (64, 64), "layer.bias": (64,)}
    return {name: rng.integers(0, 1 << 16, shape, np.uint16) for name, shape in shapes.items()}


def next_state(state: State, rng: np.random.Generator) -> State:
    return {name: np.where(rng.random(bits.shape) < 0.02, bits ^ 1, bits) for name, bits in state.items()}


@pytest.mark.integration
def test_a_line_over_seaweedfs(seaweedfs_server: S3Server, tmp_path: Path) -> None:
    url = seaweedfs_server.url(f"line-{uuid.uuid4().hex[:8]}/run")
    rng = np.random.default_rng(0)
    states = [first_state(rng)]
    with Publisher(url, anchors=AnchorPolicy(every=3), parts=PartOptions(batch_bytes=1 << 10)) as publisher:
        first = publisher.publish(states[0], dtypes=NAMES, files={"config.json": b"{}"})
        command = [sys.executable, "-m", "deltawire", "follow", url, str(tmp_path / "weights")]
        with subprocess.Popen(
            [*command, "--until", str(VERSIONS - 1), "--every-version", "--verify", "--json", "--timeout", "60"],
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            digests = {0: first.state_digest}
            for _ in range(VERSIONS - 1):
                states.append(next_state(states[-1], rng))
                published = publisher.publish(states[-1], dtypes=NAMES)
                digests[published.version] = published.state_digest
            output, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    seen = {line["version"]: line["state_digest"] for line in map(json.loads, output.splitlines())}
    assert seen == {version: digests[version] for version in seen}
    assert max(seen) == VERSIONS - 1
    with Follower(url) as late:
        update = late.poll()
        assert update is not None
        assert update.steps == ("anchor",)  # of version 6
        assert all(np.array_equal(late.arrays[name], bits) for name, bits in states[-1].items())
    with Follower(url, tensors=["layer.*"]) as rank:
        rank.poll()
        assert set(rank.arrays) == {"layer.weight", "layer.bias"}
        assert all(np.array_equal(bits, states[-1][name]) for name, bits in rank.arrays.items())


@pytest.mark.integration
def test_two_trainers_by_mistake(seaweedfs_server: S3Server) -> None:
    url = seaweedfs_server.url(f"line-{uuid.uuid4().hex[:8]}/run")
    rng = np.random.default_rng(0)
    state = first_state(rng)
    with Publisher(url, holder="trainer one", lease_ttl=1) as one:
        one.publish(state, dtypes=NAMES)
        with pytest.raises(LeaseHeldError, match="trainer one"):
            Publisher(url)
        one.publish(next_state(state, rng), dtypes=NAMES)
        with Publisher(url, take_over=True) as other:
            assert other.publish(state, dtypes=NAMES).version == 2
            with pytest.raises(FencedError):
                one.publish(next_state(state, rng), dtypes=NAMES)
            assert other.publish(next_state(state, rng), dtypes=NAMES).version == 3
    with Publisher(url) as after:  # at once, as the lease was released
        assert (after.version, after.epoch) == (3, 2)


@pytest.mark.integration
def test_a_server_that_ignores_conditions(rclone_server: S3Server) -> None:
    """OPN-6: it takes every create, so two trainers would overwrite each other's versions without a word."""
    url = rclone_server.url(f"line-{uuid.uuid4().hex[:8]}/run")
    rng = np.random.default_rng(0)
    states = [first_state(rng)]
    with pytest.raises(StoreUnfitError):
        Publisher(url)
    with Publisher(url, single_writer=True) as publisher:
        publisher.publish(states[0], dtypes=NAMES)
        publisher.publish(next_state(states[0], rng), dtypes=NAMES)
    with Follower(url) as follower:
        update = follower.poll(to=0)
        assert update is not None
        assert update.changed_elements == sum(bits.size for bits in states[0].values())
        update = follower.poll()
        assert update is not None
        assert 0 < update.changed_elements < 3000
        follower.verify()
