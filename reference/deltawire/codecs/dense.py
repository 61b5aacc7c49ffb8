"""``dense``: every element of a box, for boxes of which nearly everything changed (SPEC.md section 9.5)."""

from __future__ import annotations

from deltawire.codecs.base import Base, BoxChange, Codec, Patch, Stream, Streams, join, plane_names
from deltawire.format.dtypes import Dtype
from deltawire.kernels.values import join_planes, split_planes


class DenseCodec(Codec):
    """Every element of the box, absolute."""

    name = "dense"
    needs_base = False

    def streams(self, dtype: Dtype) -> tuple[str, ...]:
        return plane_names("value", dtype)

    def encode(self, change: BoxChange, dtype: Dtype) -> dict[str, Stream]:
        return dict(zip(self.streams(dtype), split_planes(change.new), strict=True))

    def decode(self, streams: Streams, dtype: Dtype, elements: int, changed: int, base: Base | None) -> Patch:
        return Patch(None, join_planes(join(streams, plane_names("value", dtype), elements, self.name), dtype))
