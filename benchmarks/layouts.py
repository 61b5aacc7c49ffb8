"""Bytes, speed and memory of Deltawire's codecs and of other systems' layouts, on steps of real training."""

import json
import subprocess
import sys
from pathlib import Path

from rich.console import Console

from benchmarks.bounds import bounds
from benchmarks.measuring import Measured, changed_elements, check
from benchmarks.model import Figure
from benchmarks.peers import PEERS, State
from benchmarks.traces import TRACES, Trace, load, make_missing

IN_FULL = ("minilm-lr3e-6", "smollm2-lr3e-6")
"""Traces on which speed and memory are measured too: what a step of reinforcement learning looks like."""

_ROOT = Path(__file__).parent.parent


def run() -> list[Figure]:
    console = Console(stderr=True)
    make_missing(list(TRACES), console.print)
    figures: list[Figure] = []
    for name, trace in TRACES.items():
        console.print(f"layouts: {name}")
        figures += _in_full(trace) if name in IN_FULL else _sizes(trace)
    return figures


def _in_full(trace: Trace) -> list[Figure]:
    figures = []
    for layout, peer in PEERS.items():
        found = _measured(trace, layout)
        copy, changed = found["copy_seconds"], found["changed_elements"]
        memory = "/".join(_share(found[key], found["model_bytes"]) for key in ("encode_memory", "apply_memory"))
        size = found["wire_bytes"] / changed if peer.sparse else found["wire_bytes"] / found["model_bytes"]
        figures.append(
            Figure(
                figure=f"{trace.name}: {layout}",
                value=f"{size:.2f} {'bytes a change' if peer.sparse else 'x the model'}",
                note=f"encode {copy / found['encode_seconds']:.2f} x memcpy, apply {copy / found['apply_seconds']:.2f} "
                f"x memcpy ({changed / found['apply_seconds'] / 1e6:.0f} million changes a second); "
                f"{memory} of the model in memory on top",
                data={"trace": trace.name, "layout": layout, "own": peer.own, "sparse": peer.sparse, **found},
            )
        )
    before, after = trace.pair
    return [*figures, *_bounds(trace, load(trace, before), load(trace, after))]


def _sizes(trace: Trace) -> list[Figure]:
    before, after = trace.pair
    old, new = load(trace, before), load(trace, after)
    own = {name: bits.copy() for name, bits in old.items()}
    changed, model = changed_elements(old, new), sum(bits.nbytes for bits in new.values())
    figures = []
    for layout, peer in PEERS.items():
        payload = peer.encode(old, new)
        peer.apply(payload, own)
        check(own, new, peer)
        for name, bits in own.items():
            bits[...] = old[name]
        figures.append(
            Figure(
                figure=f"{trace.name}: {layout}",
                value=f"{len(payload) / changed:.2f} bytes a change",
                note=f"{len(payload) / model:.2%} of the model",
                data={
                    "trace": trace.name,
                    "layout": layout,
                    "own": peer.own,
                    "sparse": peer.sparse,
                    "wire_bytes": len(payload),
                    "changed_elements": changed,
                    "model_bytes": model,
                },
            )
        )
    return [*figures, *_bounds(trace, old, new)]


def _bounds(trace: Trace, old: State, new: State) -> list[Figure]:
    changed, model = changed_elements(old, new), sum(bits.nbytes for bits in new.values())
    found = bounds(old, new)
    kinds = (("entropy", found.independent), ("entropy given exponents", found.given_exponent))
    return [
        Figure(
            figure=f"{trace.name}: {kind}",
            value=f"{size / changed:.2f} bytes a change",
            note=f"{2 * changed / model:.2%} of the elements changed",
            data={
                "trace": trace.name,
                "bound": kind,
                "wire_bytes": size,
                "changed_elements": changed,
                "model_bytes": model,
            },
        )
        for kind, size in kinds
    ]


def _measured(trace: Trace, layout: str) -> Measured:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.measuring", trace.name, layout],
        cwd=_ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found: Measured = json.loads(done.stdout)
    return found


def _share(size: int | None, of: int) -> str:
    return "?" if size is None else f"{size / of:.2f}"
