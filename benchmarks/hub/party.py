"""A publisher or a follower in a process of its own, and how it is spoken to.

``python -m benchmarks.hub.party publish URL OPTIONS`` publishes a version for every line that it reads, ``follow URL
OPTIONS`` looks for one, or follows by itself. Each version is a line of JSON, with times of the system's clock, so that
a time of one process can be taken from a time of another.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

import deltawire
from benchmarks.model import Bits16, step, weights
from deltawire.parts.writer import PartOptions

CHANGED = 0.01


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What a party is to do."""

    elements: int = 1 << 25
    tensors: int = 16
    part_bytes: int | None = None
    """Of parts and of batches; None for the usual sizes."""
    alone: bool = True
    """Whether a follower looks by itself, as ``follow`` does, and not when it is told to."""


class Process:
    """A party. Its first line says that it has published or applied version 0."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def go(self) -> None:
        """Publish a version, or look for one."""
        assert self._process.stdin
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def line(self) -> dict[str, Any]:
        """What it did next."""
        assert self._process.stdout
        found: dict[str, Any] = json.loads(self._process.stdout.readline())
        return found


@contextmanager
def party(role: str, url: str, options: Options, environment: Mapping[str, str]) -> Iterator[Process]:
    """Run one until the end of the block.

    Args:
        role: ``publish`` or ``follow``.
        url: of the stream; a follower's has a version.
        options: see there.
        environment: what it needs to reach the Hub.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.hub.party", role, url, msgspec.json.encode(options).decode()],
        cwd=Path(__file__).parent.parent.parent,
        env={**os.environ, **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield Process(process)
    finally:
        process.kill()
        process.communicate()


def _publish(url: str, options: Options) -> None:
    size = options.elements // options.tensors
    state: dict[str, Bits16] = {f"layer.{index:02}": weights(size, seed=index) for index in range(options.tensors)}
    parts = None
    if options.part_bytes is not None:
        parts = PartOptions(part_bytes=options.part_bytes, batch_bytes=options.part_bytes)
    with deltawire.Publisher(
        url,
        single_writer=url.startswith("hf:"),
        anchors=deltawire.AnchorPolicy(every=None, outweigh=None),
        parts=parts,
    ) as publisher:
        seed = 0
        while True:
            started = time.monotonic()
            published = publisher.publish(state, dtypes=dict.fromkeys(state, "BF16"))
            _tell(
                version=published.version,
                started=started,
                done=time.monotonic(),
                parts=0 if published.record.delta is None else len(published.record.delta.parts),
                bytes=published.data_bytes,
            )
            for name, bits in state.items():
                seed += 1
                state[name] = step(bits, int(CHANGED * bits.size), seed=seed)
            if not sys.stdin.readline():
                return


def _follow(url: str, options: Options) -> None:
    with deltawire.Follower(url) as follower:
        for update in follower.follow() if options.alone else _polled(follower):
            _tell(version=None if update is None else update.version, done=time.monotonic())


def _polled(follower: deltawire.Follower) -> Iterator[deltawire.Update | None]:
    yield follower.poll()
    while sys.stdin.readline():
        yield follower.poll()


def _tell(**found: object) -> None:
    print(json.dumps(found), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hub.party", description=__doc__)
    parser.add_argument("role", choices=("publish", "follow"))
    parser.add_argument("url")
    parser.add_argument("options", help="in JSON")
    given = parser.parse_args()
    run = _publish if given.role == "publish" else _follow
    run(given.url, msgspec.json.decode(given.options, type=Options))


if __name__ == "__main__":
    main()
