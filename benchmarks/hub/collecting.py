"""A maintainer's pass that collects many versions."""

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import deltawire
from benchmarks.hub.emulated import Hub, Tally, Way, emulated
from benchmarks.model import weights

VERSIONS = 200


@dataclass(frozen=True, slots=True)
class Collection:
    """What a pass asked for."""

    requests: Tally
    objects: int
    """That were in the stream before."""


def collect(way: Way) -> Collection:
    """Let ``deltawire maintain --once`` collect all versions before the newest snapshot."""
    with emulated() as hub:
        objects = _place(hub)
        command = [
            "maintain",
            hub.url(way),
            "--once",
            "--no-build",
            "--keep-last",
            "1",
            "--single-maintainer",
            "--json",
        ]
        done = subprocess.run(
            [sys.executable, "-m", "deltawire", *command],
            env={**os.environ, **hub.environment("publisher")},
            capture_output=True,
            text=True,
            check=True,
        )
        requests = hub.tally.take()
        assert json.loads(done.stdout)["boundary"] == VERSIONS
        return Collection(requests, objects)


def _place(hub: Hub) -> int:
    """A stream whose last version has an anchor; the number of its objects."""
    with tempfile.TemporaryDirectory() as folder:
        state = {f"layer.{index}": weights(1 << 12, seed=index) for index in range(4)}
        policy = deltawire.AnchorPolicy(every=VERSIONS, outweigh=None)
        with deltawire.Publisher(folder, anchors=policy) as publisher:
            for number in range(VERSIONS + 1):
                for bits in state.values():
                    bits[number % 100 :: 100] ^= 1
                publisher.publish(state, dtypes=dict.fromkeys(state, "BF16"))
        files = [path for path in Path(folder).rglob("*") if path.is_file()]
        for path in files:
            hub.put(path.relative_to(folder).as_posix(), path.read_bytes())
    return len(files)
