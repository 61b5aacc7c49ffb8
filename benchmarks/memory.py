"""Peak memory of a publisher and of a follower, each in a process of its own."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from benchmarks.model import Figure

ELEMENTS = 1 << 28
SMALL = 1 << 12
MIB = 1 << 20

# Anonymous memory only: pages of mapped files are the kernel's to drop.
WATCH = """
import json, sys, threading, time, pathlib
peak = [0]
def watch():
    while True:
        line = next(l for l in pathlib.Path("/proc/self/status").read_text().splitlines() if l.startswith("RssAnon"))
        peak[0] = max(peak[0], int(line.split()[1]) * 1024)
        time.sleep(0.005)
threading.Thread(target=watch, daemon=True).start()
import numpy as np, deltawire
from benchmarks.model import step, weights
url, elements = sys.argv[1], int(sys.argv[2])
"""
PUBLISH = (
    WATCH
    + """
state = {f"layer.{i}": weights(elements // 16, seed=i) for i in range(16)}
names = {name: "BF16" for name in state}
alone, anchors = url.startswith("hf:"), deltawire.AnchorPolicy(every=1)
with deltawire.Publisher(url, single_writer=alone, anchors=anchors) as publisher:
    publisher.publish(state, dtypes=names)
    for number in range(2):
        for name in state:
            old = state[name]
            old[number :: 100] ^= 1
        publisher.publish(state, dtypes=names)
print(json.dumps(peak[0]))
"""
)
FOLLOW = (
    WATCH
    + """
with deltawire.Follower(url) as follower:
    follower.poll()
print(json.dumps(peak[0]))
"""
)


def run() -> list[Figure]:
    model = 2 * ELEMENTS
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as small:
        # The caller's own state is not the publisher's, and the interpreter with its libraries is nobody's.
        idle = peak(PUBLISH, small, SMALL), peak(FOLLOW, small, SMALL)
        publisher = peak(PUBLISH, folder, ELEMENTS) - idle[0] - model
        follower = peak(FOLLOW, folder, ELEMENTS) - idle[1]
    return [
        {
            "figure": "publisher's peak",
            "value": f"{publisher / model:.2f} x the model",
            "note": f"its base and {(publisher - model) / MIB:.0f} MiB for parts, scans and a chunk of an anchor; "
            f"a model of {model / MIB:.0f} MiB in 16 tensors; {idle[0] / MIB:.0f} MiB of interpreter not counted",
        },
        {
            "figure": "follower's peak",
            "value": f"{follower / model:.2f} x the model",
            "note": f"its state and {(follower - model) / MIB:.0f} MiB for fetches in flight and staged changes; "
            f"{idle[1] / MIB:.0f} MiB of interpreter not counted",
        },
    ]


def peak(script: str, url: str, elements: int, *, environment: Mapping[str, str] | None = None) -> int:
    """Most bytes of anonymous memory of a process that runs ``PUBLISH`` or ``FOLLOW``."""
    done = subprocess.run(
        [sys.executable, "-c", script, url, str(elements)],
        cwd=Path(__file__).parent.parent,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        check=True,
    )
    found: int = json.loads(done.stdout)
    return found
