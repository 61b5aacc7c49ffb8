"""Streams that are read as far as they make sense."""

from __future__ import annotations

import numpy as np

from deltawire.codecs.base import Stream, Streams
from deltawire.codecs.registry import CODECS
from mutants import Mutant
from mutants.patching import both, edit, replace


def _any_positions(stream: Stream, elements: int, changed: int) -> object:  # noqa: ARG001 - as it is called
    gaps, positions = 0, list[int]()
    for at, byte in enumerate(stream.tolist()):
        gaps += byte
        if byte != 255 or at == len(stream) - 1:
            positions.append(gaps + len(positions))
    return np.array(positions[:changed], np.uint32)


def _each_plane(streams: Streams, names: tuple[str, ...], length: int, _: str) -> tuple[Stream, ...]:
    return tuple(np.pad(streams[name][:length], (0, max(0, length - len(streams[name])))) for name in names)


def _any_planes(streams: Streams, names: tuple[str, ...], length: int, codec: str) -> Stream:
    return np.stack(_each_plane(streams, names, length, codec))


MUTANTS = [
    Mutant(
        name="any-positions",
        what="takes as many positions as were counted, wherever they are",
        patch=replace("deltawire.codecs.gap:decode_gaps", by=_any_positions),
        caught_by=("codecs/escape-at-end", "codecs/position-past-box", "codecs/positions-too-many"),
    ),
    Mutant(
        name="any-signs",
        what="reads as many signs as it needs",
        patch=edit(
            "deltawire.codecs.gap:GapCodec.decode",
            (
                "if len(signs) != (changed + 7) // 8 or (changed % 8 and signs[-1] >> (changed % 8)):",
                "if False:",
            ),
        ),
        caught_by=("codecs/signs-left-over", "codecs/signs-too-long", "codecs/signs-too-short"),
    ),
    Mutant(
        name="any-difference",
        what="takes differences that have another code",
        patch=edit(
            "deltawire.kernels.values:decode_differences",
            ("planes, out) else None", "planes, out) + 1 else None"),
            also=("deltawire.codecs.gap:decode_differences",),
        ),
        caught_by=("codecs/difference-too-large", "codecs/difference-too-small"),
    ),
    Mutant(
        name="any-planes",
        what="cuts planes that are too long, and fills up those that are too short",
        patch=both(
            replace("deltawire.codecs.gap:join", "deltawire.codecs.dense:join", by=_any_planes),
            replace("deltawire.codecs.gap:planes_of", by=_each_plane),
        ),
        caught_by=(
            "codecs/difference-plane-short",
            "codecs/value-plane-long",
            "codecs/dense-of-changes",
            "codecs/dense-plane-empty",
        ),
    ),
    Mutant(
        name="unknown-codec",
        what="takes a codec that it does not know for gap",
        patch=replace(
            "deltawire.parts.reader:codec_of",
            "deltawire.parts.columns:codec_of",
            "deltawire.consumer.staging:codec_of",
            by=lambda name: CODECS.get(name, CODECS["gap"]),
        ),
        caught_by=("codecs/unknown-codec",),
    ),
    Mutant(
        name="integer-order",
        what="orders floats as integers",
        patch=both(
            replace(
                "deltawire.kernels.values:flip_of", "deltawire.kernels.gap_rows:flip_of", by=lambda _: np.uint64(0)
            ),
            edit(
                "deltawire.kernels.many:decode_value_rows",
                ('dtype.order == "float"', "False"),
                also=("deltawire.consumer.small_rows:decode_value_rows",),
            ),
        ),
        caught_by=("codecs/difference-vectors", "codecs/special-values"),
    ),
]
