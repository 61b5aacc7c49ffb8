"""How fast two states become parts: on one core, and what a second thread adds."""

from collections.abc import Iterable

import numpy as np

from benchmarks.model import Bits16, Figure, best, best_cpu, step, weights
from deltawire.format.tensors import TensorTable, build_table
from deltawire.kernels.scan import Room
from deltawire.limits import DEFAULT_LIMITS
from deltawire.parts.rows import Row
from deltawire.parts.writer import PartOptions, PartWriter
from deltawire.producer.comparing import ArrayPair, HeldArray, SourceArray
from deltawire.producer.encoding import BOX_ELEMENTS, Encoder, EncodingPool

ELEMENTS = 1 << 27
CHANGED = ELEMENTS // 100


def run() -> list[Figure]:
    table = build_table([("weight", "BF16", (1 << 14, ELEMENTS >> 14))], limits=DEFAULT_LIMITS)
    old = weights(ELEMENTS, seed=0)
    new = step(old, CHANGED, seed=1)
    target = np.empty_like(old)
    copy = best_cpu(lambda: np.copyto(target, new))
    return [figure for codec in ("gap", "ranked") for figure in _figures(codec, table, old, new, copy)]


def _figures(codec: str, table: TensorTable, old: Bits16, new: Bits16, copy: float) -> list[Figure]:
    encoder, room = Encoder.of([codec]), Room(BOX_ELEMENTS)
    seconds = best_cpu(lambda: _write(encoder.rows(table.tensors[0], old, new, room)))
    size = _write(encoder.rows(table.tensors[0], old, new, room))
    one, two = (_on_threads(encoder, threads, table, old, new) for threads in (1, 2))
    return [
        {
            "figure": f"encode, one core, {codec}",
            "value": f"{copy / seconds:.2f} x memcpy",
            "note": f"{old.nbytes / seconds / 1e9:.1f} GB/s of model where memcpy does {old.nbytes / copy / 1e9:.1f}; "
            f"1 % of {ELEMENTS:,} bf16 changed, whatever their size; {size / CHANGED:.3f} bytes a change",
        },
        {
            "figure": f"encode, two threads, {codec}",
            "value": f"{one / two:.2f} x one",
            "note": "on the clock, with the thread that writes the parts",
        },
    ]


def _on_threads(encoder: Encoder, threads: int, table: TensorTable, old: Bits16, new: Bits16) -> float:
    pool = EncodingPool(encoder, workers=threads)
    pair = ArrayPair(HeldArray(old), SourceArray(new))
    try:
        return best(lambda: _write(pool.encode(table.tensors, lambda _: pair)))
    finally:
        pool.close()


def _write(rows: Iterable[Row]) -> int:
    """Write rows to parts; their bytes."""
    sizes: list[int] = []
    writer = PartWriter("part-{:05d}".format, lambda part, _: sizes.append(part.bytes), options=PartOptions())
    for row in rows:
        writer.add(row)
    writer.finish()
    return sum(sizes)
