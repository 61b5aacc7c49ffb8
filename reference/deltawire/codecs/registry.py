"""The codec registry (SPEC.md section 16.1)."""

from __future__ import annotations

from deltawire.codecs.base import Codec
from deltawire.codecs.dense import DenseCodec
from deltawire.codecs.gap import GapCodec, GapSetCodec
from deltawire.errors import UnsupportedCodecError

CODECS: dict[str, Codec] = {codec.name: codec for codec in (GapCodec(), GapSetCodec(), DenseCodec())}
"""Codecs by name. Every consumer must read these three (COD-1)."""


def codec_of(name: str) -> Codec:
    """Look up a codec.

    Raises:
        UnsupportedCodecError: it is not in the registry.
    """
    try:
        return CODECS[name]
    except KeyError:
        raise UnsupportedCodecError(f"codec {name[:40]!r} is not in the registry") from None
