"""A model of a trillion parameters: what its records, plans and ranks come to, and how each grows.

The weights would be a terabyte or two, so all of this is the real tensor table, real records and descriptors
at full size, read and planned by the code that readers use, of parts that do not exist (``paper``). ``many_tensors``
has streams of as many tensors, with few elements each.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from benchmarks import moe
from benchmarks.counting import CountingStore
from benchmarks.model import Figure
from benchmarks.paper import (
    PaperStream,
    Sizes,
    digest,
    fetched_by,
    paper_delta,
    paper_snapshot,
    paper_version,
    part_bytes,
)
from deltawire.deadline import Deadline
from deltawire.format.records import Delta, VersionRecord, decode
from deltawire.format.tensors import TensorTable, build_table, parse_table
from deltawire.limits import DEFAULT_LIMITS
from deltawire.maintaining.ladder import Ladder
from deltawire.parts.writer import PartOptions
from deltawire.reading.stream import StreamReader
from deltawire.reading.transfer import Transfer
from deltawire.reading.ways import WayFinder

STEP = Sizes(changed=0.001)
"""A step at which 1 % of bf16 weights change moves about a tenth as many of F8_E4M3, which has 4 bits less."""
VERSIONS = 1024
BEHIND = 1000
COUNTS = (1_000, 10_000, 100_000)
"""Tensors, to see what grows."""
FINE = 256 << 10
"""Bytes of smaller batches than usual, before compression."""
LADDER = Ladder(smallest=4, largest=1024)
Ordinals = npt.NDArray[np.int64]


def run() -> list[Figure]:
    table = build_table(moe.entries(), limits=DEFAULT_LIMITS)
    return [*_records(table), *_ranks(table), *_catching_up(table), *_growth()]


def _records(table: TensorTable) -> list[Figure]:
    parsing = _cpu(lambda: parse_table(table.data, limits=DEFAULT_LIMITS))
    delta = paper_delta(table, STEP, "data/0/")
    record = paper_version(table, 1, parent=digest(), delta=delta)
    decoding = _cpu(lambda: decode(record, VersionRecord, what="record", limits=DEFAULT_LIMITS))
    wide = build_table(moe.entries(scaled=False), limits=DEFAULT_LIMITS)
    usual, everything = (paper_delta(wide, Sizes(changed), "data/0/") for changed in (0.01, 1.0))
    wide_record, dense_record = (paper_version(wide, 1, parent=digest(), delta=each) for each in (usual, everything))
    for data in (wide_record, dense_record):
        decode(data, VersionRecord, what="record", limits=DEFAULT_LIMITS)  # as every reader does
    snapshot_record = paper_version(table, 0, snapshot=paper_snapshot(table, "data/0/"))
    model = (
        f"{len(table.tensors):,} tensors, {table.elements / 1e12:.2f} T parameters, {table.state_bytes / 1e12:.2f} TB"
    )
    return [
        {
            "figure": "tensor table",
            "value": f"{len(table.data) / 1e6:.1f} MB",
            "note": f"{model} of F8_E4M3 with scales; read once a table, in {parsing:.2f} s;"
            f" {len(wide.data) / 1e6:.1f} MB for {len(wide.tensors):,} tensors of BF16",
        },
        {
            "figure": "version record",
            "value": f"{len(record) / 1e3:,.0f} kB",
            "note": f"{STEP.changed:.1%} of it changed, {part_bytes(delta) / 1e9:.2f} GB in {_batches(delta):,}"
            f" batches of {len(delta.parts)} parts, of which it is {len(record) / part_bytes(delta):.4%}; read in"
            f" {decoding:.3f} s",
        },
        {
            "figure": "version record, BF16",
            "value": f"{len(wide_record) / 1e3:,.0f} kB",
            "note": f"1 % of {wide.state_bytes / 1e12:.2f} TB changed, {part_bytes(usual) / 1e9:.1f} GB in"
            f" {_batches(usual):,} batches; {len(dense_record) / 1e6:.1f} MB where every element did, in"
            f" {_batches(everything):,}; the limit is {DEFAULT_LIMITS.record_bytes / 1e6:.1f} MB",
        },
        {
            "figure": "snapshot's record",
            "value": f"{len(snapshot_record) / 1e3:,.0f} kB",
            "note": "version 0 or an anchor, in shards of 4 GiB",
        },
    ]


def _batches(delta: Delta) -> int:
    return sum(len(part.batches) for part in delta.parts)


def _ranks(table: TensorTable) -> list[Figure]:
    usual = paper_delta(table, STEP, "data/0/")
    finer = paper_delta(table, STEP, "data/0/", options=PartOptions(batch_bytes=FINE))
    larger = paper_delta(table, Sizes(10 * STEP.changed), "data/0/")
    figures: list[Figure] = []
    for what, ordinals in _selections(table).items():
        requests, size = fetched_by(usual, ordinals)
        own = sum(table.tensors[ordinal].elements for ordinal in ordinals) / table.elements
        fine, large = (fetched_by(delta, ordinals)[1] / part_bytes(delta) for delta in (finer, larger))
        figures.append(
            {
                "figure": f"a rank of {what}",
                "value": f"{size / part_bytes(usual):.1%} of the bytes",
                "note": f"{size / 1e6:,.0f} MB in {requests:,} requests for a version of"
                f" {part_bytes(usual) / 1e9:.2f} GB; it holds {own:.1%} of the model; {fine:.1%} if batches are"
                f" {FINE >> 10} KiB, {large:.1%} if ten times as much changed",
            }
        )
    figures.append(
        {
            "figure": "a rank of TP",
            "value": "100% of the bytes",
            "note": "it holds a slice of every tensor, and tensors are what a reader chooses; a host fetches once for"
            " all its ranks",
        }
    )
    return figures


def _selections(table: TensorTable) -> dict[str, Ordinals]:
    """Tensors of one rank in the middle, under expert and pipeline parallelism."""
    expert = np.full(len(table.tensors), -1)
    layer = np.full(len(table.tensors), -1)
    for tensor in table.tensors:
        words = tensor.name.split(".")
        if "layers" in words:
            layer[tensor.ordinal] = int(words[2])
        if "experts" in words:
            expert[tensor.ordinal] = int(words[words.index("experts") + 1])
    found = {}
    for ranks in (8, 64):
        each = moe.EXPERTS // ranks
        first = ranks // 2 * each
        found[f"EP {ranks}"] = np.flatnonzero((expert < 0) | ((expert >= first) & (expert < first + each)))
    found["PP 16"] = np.flatnonzero((layer >= 28) & (layer < 32))
    return found


def _catching_up(table: TensorTable) -> list[Figure]:
    store = CountingStore("scale-catching-up")
    stream = PaperStream(store, table)
    stream.version(snapshot=paper_snapshot(table, "data/0/"))
    delta = paper_delta(table, STEP, "data/1/")
    for _ in range(VERSIONS):
        stream.version(delta=delta)
    near = _plan(store, behind=1)
    plain = _plan(store, behind=BEHIND)
    longer = {length: paper_delta(table, STEP, "data/2/", versions=length) for length in (4 << k for k in range(9))}
    records = sum(
        len(stream.span(*span, longer[span.versions], replaces_bytes=span.versions * part_bytes(delta)))
        for span in LADDER.spans(0, VERSIONS)
    )
    spanned = _plan(store, behind=BEHIND)
    return [
        {
            "figure": "a plan, 1 version behind",
            "value": f"{near.seconds * 1e3:.0f} ms",
            "note": f"{near.requests} requests, {near.record_bytes / 1e6:.2f} MB of records",
        },
        *(
            Figure(
                figure=f"catching up {BEHIND:,} versions, {how}",
                value=f"{found.data_bytes / 1e12:.2f} TB",
                note=f"{found.steps} steps of {found.batches:,} batches, planned in {found.seconds:.2f} s by"
                f" {found.requests:,} requests of {found.record_bytes / 1e6:,.1f} MB; a snapshot is"
                f" {table.state_bytes / 1e12:.2f} TB",
            )
            for how, found in (("deltas alone", plain), ("with spans", spanned))
        ),
        {
            "figure": "the records of all spans",
            "value": f"{records / 1e6:,.0f} MB",
            "note": f"spans of 4 to {LADDER.largest} of {VERSIONS} versions",
        },
    ]


@dataclass(frozen=True, slots=True)
class _Planned:
    """A way that was found, and what it took to find it."""

    seconds: float
    requests: int
    record_bytes: int
    steps: int
    batches: int
    data_bytes: int


def _plan(store: CountingStore, *, behind: int) -> _Planned:
    transfer = Transfer(store)
    try:
        reader, deadline = StreamReader(transfer, None), Deadline(None)
        held = reader.version(VERSIONS - behind, deadline)
        store.reset()
        started = time.process_time()
        newest = reader.latest(deadline, known=VERSIONS - behind)
        steps = WayFinder(reader, deadline).find(newest, held)
        seconds = time.process_time() - started
    finally:
        transfer.close()
    deltas = [step.delta for step in steps if step.delta is not None]
    assert newest == VERSIONS
    assert len(deltas) == len(steps)
    return _Planned(
        seconds=seconds,
        requests=store.requests.total(),
        record_bytes=store.bytes_in,
        steps=len(steps),
        batches=sum(map(_batches, deltas)),
        data_bytes=sum(map(part_bytes, deltas)),
    )


def _growth() -> list[Figure]:
    """How sizes and times grow with the number of tensors, of which each keeps its size."""
    grown: dict[str, list[float]] = {
        "tensor table": [],
        "reading the table": [],
        "version record": [],
        "reading it": [],
    }
    for count in COUNTS:
        part = build_table(moe.entries(count), limits=DEFAULT_LIMITS)
        record = paper_version(part, 1, parent=digest(), delta=paper_delta(part, STEP, "data/0/"))
        grown["tensor table"].append(len(part.data))
        grown["reading the table"].append(_cpu(partial(parse_table, part.data, limits=DEFAULT_LIMITS)))
        grown["version record"].append(len(record))
        grown["reading it"].append(_cpu(partial(decode, record, VersionRecord, what="record", limits=DEFAULT_LIMITS)))
    return [
        {
            "figure": f"growth: {what}",
            "value": f"tensors^{exponent(COUNTS, values):.2f}",
            "note": f"{', '.join(f'{value:,.4g}' for value in values)} {'s' if 'reading' in what else 'bytes'} for"
            f" {', '.join(f'{count:,}' for count in COUNTS)} tensors",
        }
        for what, values in grown.items()
    ]


def exponent(counts: tuple[int, ...], values: list[float]) -> float:
    """The power of the count that fits best."""
    return float(np.polyfit(np.log(counts), np.log(values), 1)[0])


def _cpu(work: Callable[[], object]) -> float:
    """Shortest of three runs in seconds of this process."""
    found = []
    for _ in range(3):
        started = time.process_time()
        work()
        found.append(time.process_time() - started)
    return min(found)
