"""``ranked``: changes as ranks within classes of the old values' magnitude (SPEC.md section 9.6)."""

from __future__ import annotations

import numpy as np

from deltawire.codecs.base import Base, BoxChange, Codec, Patch, Stream, Streams
from deltawire.errors import MalformedRowError
from deltawire.format.dtypes import Dtype
from deltawire.kernels.classes import choose_classes
from deltawire.kernels.levels import LEVELS, MAX_CLASSES, Starts
from deltawire.kernels.ranked import decode_ranked, encode_ranked


class RankedCodec(Codec):
    """Differences from the base, whose magnitudes also tell how likely each element is to have changed."""

    name = "ranked"
    needs_base = True
    needs_box = True

    def streams(self, dtype: Dtype) -> tuple[str, ...]:
        return ("classes", "items")

    def encode(self, change: BoxChange, dtype: Dtype) -> dict[str, Stream]:
        changes = change.changes
        starts = choose_classes(change.old, changes.old, changes.new)
        codes, items = encode_ranked(change.old, changes.positions, changes.old, changes.new, starts)
        ends = np.append(starts[1:] - np.uint8(1), np.uint8(LEVELS - 1))
        return {"classes": np.concatenate([np.array([starts.size], np.uint8), ends, codes]), "items": items}

    def decode(self, streams: Streams, dtype: Dtype, elements: int, changed: int, base: Base | None) -> Patch:
        if base is None:
            raise MalformedRowError("ranked: ranks cannot be read without a base")
        starts, codes = _read_classes(streams["classes"])
        bits = base.gather(None)
        found = decode_ranked(bits, changed, starts, codes, streams["items"])
        if found is None:
            raise MalformedRowError(f"ranked: the streams do not hold {changed:,} changes of {elements:,} elements")
        return Patch(found.positions, found.new, found.old)


def _read_classes(stream: Stream) -> tuple[Starts, Stream]:
    """First levels of the classes, and the code bytes. RNK-2"""
    count = int(stream[0]) if stream.size else 0
    ends, codes = stream[1 : 1 + count], stream[1 + count :]
    ascending = bool(np.all(ends[1:] > ends[:-1]))
    if not 1 <= count <= MAX_CLASSES or ends.size < count or ends[-1] != LEVELS - 1 or not ascending:
        raise MalformedRowError("ranked: the classes are no cut of all levels")
    starts = np.zeros(count, np.uint8)
    starts[1:] = ends[:-1] + np.uint8(1)
    return starts, codes
