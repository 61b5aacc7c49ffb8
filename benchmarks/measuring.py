"""One layout on one step of a trace, in a process of its own: ``python -m benchmarks.measuring TRACE LAYOUT``.

Speeds are CPU time, best of several, on one thread, so that other processes of the machine disturb them little. Memory
is what a first run adds to a process that holds both states (to encode) or the old one and the payload (to apply).
"""

import argparse
import json
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypedDict

import numpy as np

from benchmarks.peers import PEERS, Peer, State
from benchmarks.traces import TRACES, Trace, load

BUDGET_SECONDS = 0.8
"""Runs are repeated for so long, and at least three times."""

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")


class Measured(TypedDict):
    """Sizes in bytes, times in seconds."""

    wire_bytes: int
    changed_elements: int
    model_bytes: int
    copy_seconds: float
    """To copy the model's bytes."""
    encode_seconds: float
    apply_seconds: float
    encode_memory: int | None
    """Peak above what was there before; None where the system does not tell."""
    apply_memory: int | None


def measure(trace: Trace, peer: Peer) -> Measured:
    """Encode a step, apply it, compare every bit, and count."""
    before, after = trace.pair
    old, new = load(trace, before), load(trace, after)
    own = {name: bits.copy() for name, bits in old.items()}
    warm_up(peer)
    payload: list[bytes] = []

    def encode() -> None:
        payload[:] = [peer.encode(old, new)]

    def reset() -> None:
        for name, bits in own.items():
            np.copyto(bits, old[name])

    def apply() -> None:
        peer.apply(payload[0], own)

    encode_memory = _peak(encode)
    payload[:] = [bytes(payload[0])]
    apply_memory = _peak(apply)
    check(own, new, peer)
    return Measured(
        wire_bytes=len(payload[0]),
        changed_elements=changed_elements(old, new),
        model_bytes=sum(bits.nbytes for bits in new.values()),
        copy_seconds=best_cpu(reset),
        encode_seconds=best_cpu(encode),
        apply_seconds=best_cpu(apply, prepare=reset),
        encode_memory=encode_memory,
        apply_memory=apply_memory,
    )


def changed_elements(old: State, new: State) -> int:
    return sum(int(np.count_nonzero(old[name] != bits)) for name, bits in new.items())


def check(state: State, wanted: State, peer: Peer) -> None:
    """A layout that loses a bit is no baseline.

    Raises:
        ValueError: it does.
    """
    if any(not np.array_equal(state[name], bits) for name, bits in wanted.items()):
        raise ValueError(f"{peer.name} does not give back the bits it was given")


def warm_up(peer: Peer) -> None:
    """Load libraries and compile what is compiled at first use."""
    old = {"weight": np.arange(1 << 12, dtype=np.uint16).reshape(64, 64)}
    new = {"weight": old["weight"] ^ (old["weight"] % 7 == 0).astype(np.uint16)}
    peer.apply(peer.encode(old, new), {"weight": old["weight"].copy()})


def best_cpu(run: Callable[[], None], *, prepare: Callable[[], None] = lambda: None) -> float:
    """CPU seconds of the shortest of several runs, ``prepare`` before each not counted."""
    found: list[float] = []
    while len(found) < 3 or (sum(found) < BUDGET_SECONDS and len(found) < 20):
        prepare()
        started = time.process_time()
        run()
        found.append(time.process_time() - started)
    return min(found)


def _peak(run: Callable[[], None]) -> int | None:
    """Resident bytes that a run adds at its peak: Linux resets its mark when asked."""
    if not _CLEAR.exists():
        run()
        return None
    _CLEAR.write_text("5")
    before = _resident("VmRSS")
    run()
    return max(0, _resident("VmHWM") - before)


def _resident(field: str) -> int:
    found = re.search(rf"^{field}:\s+(\d+) kB$", _STATUS.read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.measuring", description=__doc__)
    parser.add_argument("trace", choices=TRACES)
    parser.add_argument("layout", choices=PEERS)
    options = parser.parse_args()
    json.dump(measure(TRACES[options.trace], PEERS[options.layout]), sys.stdout)


if __name__ == "__main__":
    main()
