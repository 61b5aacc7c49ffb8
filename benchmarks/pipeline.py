"""From publish() to applied through an S3 server, against shipping the whole checkpoint through the same server."""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from unittest.mock import patch

import numpy as np

import deltawire
from benchmarks.model import Bits16, Figure, step, weights
from deltawire.format.tensors import build_table
from deltawire.limits import DEFAULT_LIMITS
from deltawire.snapshots.header import build_header
from tests.store.servers import ACCESS_KEY, SECRET_KEY, seaweedfs

ELEMENTS = 1 << 28
TENSORS = 64
CHANGED = 0.01
VERSIONS = 7
CHECKPOINTS = 3

# The clock of both processes is the system's, so that a time of one can be taken from a time of the other.
_FOLLOW = """
import json, sys, time, msgspec
import numpy as np

import deltawire
with deltawire.Follower(sys.argv[1]) as follower:
    for update in follower.follow():
        done = time.monotonic()
        line = {"version": update.version, "done": done, "bytes": update.bytes_fetched,
                "timings": msgspec.to_builtins(update.timings)}
        print(json.dumps(line), flush=True)
"""
# What a well-made loader does: ranges, eight at a time, straight into arrays that are there already.
_LOAD = """
import json, sys, time
import numpy as np
from deltawire.deadline import Deadline
from deltawire.reading.transfer import RangeRequest, Transfer
from deltawire.snapshots.header import build_header, parse_header
from deltawire.limits import DEFAULT_LIMITS
from deltawire.store import open_store
CHUNK = 8 << 20
transfer = Transfer(open_store(sys.argv[1]), workers=8)
room = np.zeros(int(sys.argv[2]), np.uint8)
print("ready", flush=True)
for line in sys.stdin:
    key = line.strip()
    size = transfer.store.head(key).bytes
    requests = [RangeRequest(key, start, min(CHUNK, size - start)) for start in range(0, size, CHUNK)]
    for request, data in zip(requests, transfer.ranges(requests, deadline=Deadline(None)), strict=True):
        room[request.start : request.start + request.bytes] = np.frombuffer(data, np.uint8)
    print(json.dumps({"done": time.monotonic()}), flush=True)
"""


def run() -> list[Figure]:
    state = {f"layer.{number:02}": weights(ELEMENTS // TENSORS, seed=number) for number in range(TENSORS)}
    with _server() as url:
        whole = _whole(url("whole"), state)
        return [figure for codec in ("gap", "ranked") for figure in _deltas(codec, url(codec), state, whole)]


def _deltas(codec: str, url: str, state: dict[str, Bits16], whole: float) -> Iterator[Figure]:
    names = dict.fromkeys(state, "BF16")
    state = dict(state)
    found: list[dict[str, Any]] = []
    with (
        _process(_FOLLOW, url) as (_, lines),
        deltawire.Publisher(
            url, ranked=codec == "ranked", anchors=deltawire.AnchorPolicy(every=None, outweigh=None)
        ) as publisher,
    ):
        for number in range(VERSIONS):
            started = time.monotonic()
            published = publisher.publish(state, dtypes=names)
            line = json.loads(lines.readline())
            assert line["version"] == published.version
            if number:
                found.append(line | {"seconds": line["done"] - started, "published": published})
            for place, (name, bits) in enumerate(state.items()):
                state[name] = step(bits, int(CHANGED * bits.size), seed=number * TENSORS + place)
    best = min(found, key=lambda line: line["seconds"])
    median = statistics.median(line["seconds"] for line in found)
    pause = statistics.median(line["timings"]["apply_seconds"] / line["seconds"] for line in found)
    phases = best["published"].timings
    ours = "encode {:.0f}, upload {:.0f}, commit {:.0f} ms".format(
        *(1e3 * seconds for seconds in (phases.encode_seconds, phases.upload_seconds, phases.commit_seconds))
    )
    theirs = "resolve {:.0f}, fetch {:.0f}, decode {:.0f}, apply {:.0f} ms".format(
        *(1e3 * best["timings"][f"{phase}_seconds"] for phase in ("resolve", "fetch", "decode", "apply"))
    )
    yield {
        "figure": f"publish to applied, {codec}",
        "value": f"{whole / median:.1f} x faster",
        "note": f"than the whole checkpoint ({whole:.2f} s): {median * 1e3:.0f} ms, at best {best['seconds'] * 1e3:.0f}"
        f" ({ours}; {theirs}); {CHANGED:.0%} of {2 * ELEMENTS >> 20} MiB in {TENSORS} tensors changed,"
        f" {best['bytes'] / 1e6:.1f} MB through a local S3 server",
    }
    yield {
        "figure": f"pause, {codec}",
        "value": f"{pause:.1%} of that",
        "note": "the swap, during which the target must not be used",
    }


def _whole(url: str, state: dict[str, Bits16]) -> float:
    """Best time from the first byte written to the last one in place: several parts at a time, then several ranges."""
    table = build_table([(name, "BF16", bits.shape) for name, bits in state.items()], limits=DEFAULT_LIMITS)
    header = build_header(table.tensors, None)
    chunks: list[Any] = [header, *(bits.view(np.uint8).data for bits in state.values())]
    store = deltawire.open_store(url)
    found = []
    with _process(_LOAD, url, str(len(header) + 2 * ELEMENTS)) as (keys, lines):
        lines.readline()
        for number in range(CHECKPOINTS):
            started = time.monotonic()
            store.put_stream(f"{number}.safetensors", chunks)
            keys.write(f"{number}.safetensors\n")
            keys.flush()
            found.append(json.loads(lines.readline())["done"] - started)
            store.delete(f"{number}.safetensors")
    return float(min(found))


@contextmanager
def _process(script: str, *arguments: str) -> Iterator[tuple[IO[str], IO[str]]]:
    process = subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        cwd=Path(__file__).parent.parent,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdin
        assert process.stdout
        yield process.stdin, process.stdout
    finally:
        process.kill()
        process.wait()


@contextmanager
def _server() -> Iterator[Any]:
    credentials = {
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    with (
        tempfile.TemporaryDirectory() as folder,
        patch.dict(os.environ, credentials),
        seaweedfs(Path(folder)) as server,
    ):
        deltawire.open_store(server.url("ready")).put("ready", b"1", mode="overwrite")
        yield server.url
