"""A maintainer's pass: what anchors and spans cost to make from the store, and what the spans save."""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import deltawire
from benchmarks.memory import WATCH
from benchmarks.model import Figure, step, weights
from deltawire.format import keys, records
from deltawire.format.records import SpanRecord
from deltawire.limits import DEFAULT_LIMITS
from deltawire.maintaining.builder import Builder
from deltawire.maintaining.ladder import Ladder
from deltawire.producer.anchors import NEVER
from deltawire.store.base import Store

MIB = 1 << 20
ELEMENTS = 1 << 25
TENSORS = 16
VERSIONS = 64
CHANGED = 0.01
GROUPS = 4
EVERY = deltawire.AnchorPolicy(every=1)
LADDER = Ladder(smallest=2, largest=64)

_BUILD = (
    WATCH
    + """
from deltawire.maintaining.builder import Builder
from deltawire.producer.anchors import AnchorPolicy
with Builder(url, anchors=AnchorPolicy(every=1), shard_bytes=elements) as builder:
    builder.run(force=True)
print(json.dumps(peak[0]))
"""
)


def run() -> list[Figure]:
    model = 2 * ELEMENTS
    group = model // GROUPS
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as small:
        _publish(small, elements=TENSORS, versions=4)
        _publish(folder, elements=ELEMENTS, versions=VERSIONS)
        store = deltawire.open_store(folder)
        peak = _peak(folder, group) - _peak(small, group)
        _forget(store)
        started = time.perf_counter()
        with Builder(store, ladder=LADDER, anchors=EVERY, shard_bytes=group) as builder:
            built = builder.run(force=True)
        seconds = time.perf_counter() - started
        levels, apart = _levels(store), _seconds_apart(folder, model)
        deltas = sum(part.bytes for span in _spans(store) if span.version - span.base == 2 for part in span.delta.parts)
    return [
        {
            "figure": "a pass over the model",
            "value": f"{seconds:.1f} s",
            "note": f"{len(built.spans)} spans and an anchor of {VERSIONS} versions of {model / MIB:.0f} MiB, "
            f"{CHANGED:.0%} changed each; {built.bytes_read / MIB:.0f} MiB read, "
            f"{built.bytes_written / MIB:.0f} MiB written; {deltas / MIB:.0f} MiB of them the shortest spans",
        },
        {
            "figure": "one span for itself",
            "value": f"{apart:.2f} s",
            "note": "two states of the model rebuilt and compared, after 32 versions; there are as many as spans",
        },
        {
            "figure": "a pass's peak",
            "value": f"{peak / MIB:.0f} MiB",
            "note": f"with groups of {group / MIB:.0f} MiB, parts and requests included, without the interpreter",
        },
        *levels,
    ]


def _publish(url: str, *, elements: int, versions: int) -> None:
    state = {f"layer.{index}": weights(elements // TENSORS, seed=index) for index in range(TENSORS)}
    names = dict.fromkeys(state, "BF16")
    with deltawire.Publisher(url, anchors=NEVER) as publisher:
        for version in range(versions + 1):
            publisher.publish(state, dtypes=names)
            for index, (name, bits) in enumerate(state.items()):
                state[name] = step(bits, int(bits.size * CHANGED), seed=version * TENSORS + index)


def _forget(store: Store) -> None:
    """Remove what a run before has made."""
    for prefix in (keys.SPANS, keys.ANCHORS):
        for info in [*store.list(prefix)]:
            store.delete(info.key)


def _spans(store: Store) -> list[SpanRecord]:
    return [
        records.decode(store.get(info.key, max_bytes=info.bytes).data, SpanRecord, what=info.key, limits=DEFAULT_LIMITS)
        for info in store.list(keys.SPANS)
    ]


def _levels(store: Store) -> list[Figure]:
    by_length: dict[int, list[SpanRecord]] = {}
    for record in _spans(store):
        by_length.setdefault(record.version - record.base, []).append(record)
    figures: list[Figure] = []
    for length, spans in sorted(by_length.items()):
        size = sum(part.bytes for span in spans for part in span.delta.parts)
        replaced = sum(span.replaces_bytes for span in spans)
        figures.append(
            {
                "figure": f"spans of {length} versions",
                "value": f"{size / replaced:.3f} x the deltas",
                "note": f"{size / len(spans) / MIB:.2f} MiB each",
            }
        )
    return figures


def _seconds_apart(url: str, model: int) -> float:
    """How long it takes to make one span from two whole states."""
    started = time.perf_counter()
    states = []
    for version in (VERSIONS // 2, VERSIONS // 2 + 4):
        with deltawire.Follower(url) as follower:
            follower.poll(to=version)
            states.append(follower.arrays)
    assert sum(array.nbytes for array in states[0].values()) == model
    with deltawire.Publisher(f"memory://apart-{started}", anchors=NEVER) as publisher:
        names = dict.fromkeys(states[0], "BF16")
        publisher.publish({name: np.asarray(array) for name, array in states[0].items()}, dtypes=names)
        encoding = publisher.publish({name: np.asarray(array) for name, array in states[1].items()}, dtypes=names)
    loading = time.perf_counter() - started
    return loading - (encoding.timings.total_seconds - encoding.timings.encode_seconds)


def _peak(folder: str, group: int) -> int:
    root = Path(__file__).parent.parent
    done = subprocess.run(
        [sys.executable, "-c", _BUILD, folder, str(group)], cwd=root, capture_output=True, text=True, check=True
    )
    peak: int = json.loads(done.stdout)
    return peak
