"""The codec registry (SPEC.md section 16.1)."""

from __future__ import annotations

from deltawire.codecs.base import Codec
from deltawire.codecs.dense import DenseCodec
from deltawire.codecs.gap import GapCodec, GapSetCodec
from deltawire.codecs.ranked import RankedCodec
from deltawire.errors import UnsupportedCodecError

CODECS: dict[str, Codec] = {codec.name: codec for codec in (GapCodec(), GapSetCodec(), DenseCodec(), RankedCodec())}
"""Codecs by name. Every consumer must read all but ``ranked``, which comes with a feature (COD-1, COD-4)."""


def codec_of(name: str) -> Codec:
    """Look up a codec.

    Raises:
        UnsupportedCodecError: it is not in the registry.
    """
    try:
        return CODECS[name]
    except KeyError:
        raise UnsupportedCodecError(f"codec {name[:40]!r} is not in the registry") from None
