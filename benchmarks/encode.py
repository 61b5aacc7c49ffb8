"""How fast one core turns two states into parts."""

import numpy as np

from benchmarks.model import Figure, best_cpu, step, weights
from deltawire.format.tensors import build_table
from deltawire.kernels.scan import Room
from deltawire.limits import DEFAULT_LIMITS
from deltawire.parts.writer import PartOptions, PartWriter
from deltawire.producer.encoding import BOX_ELEMENTS, Encoder

ELEMENTS = 1 << 27


def run() -> list[Figure]:
    rows, columns = 1 << 14, ELEMENTS >> 14
    table = build_table([("weight", "BF16", (rows, columns))], limits=DEFAULT_LIMITS)
    old = weights(ELEMENTS, seed=0)
    new = step(old, ELEMENTS // 100, seed=1)
    room = Room(BOX_ELEMENTS)
    sizes: list[int] = []

    def encode() -> None:
        writer = PartWriter("part-{:05d}".format, lambda part, _: sizes.append(part.bytes), options=PartOptions())
        sizes.clear()
        for row in Encoder().rows(table.tensors[0], old, new, room):
            writer.add(row)
        writer.finish()

    target = np.empty_like(old)
    copy = best_cpu(lambda: np.copyto(target, new))
    seconds = best_cpu(encode)
    ratio = copy / seconds
    return [
        {
            "figure": "encode, one core",
            "value": f"{ratio:.2f} x memcpy",
            "note": f"{old.nbytes / seconds / 1e9:.1f} GB/s of model where memcpy does {old.nbytes / copy / 1e9:.1f}; "
            f"1 % of {ELEMENTS:,} bf16 changed, {sum(sizes) / (ELEMENTS // 100):.3f} bytes a change",
        }
    ]
