"""Public keys that are as good as none (SPEC.md section 8.14)."""

from __future__ import annotations

_P = 2**255 - 19
_Y8 = int("7a03ac9277fdc74ec6cc392cfa53202a0f67100d760b3cba4fd84d3d706a17c7", 16)
_SMALL = frozenset({0, 1, _P - 1, _Y8, _P - _Y8})
"""Ordinates of the eight points whose order divides 8."""


def signs_anything(key: str) -> bool:
    """Whether anyone can sign for a key ``ed25519:<hex>``: that of a point of small order, such as all zeros. SIG-12"""
    encoded = int.from_bytes(bytes.fromhex(key.removeprefix("ed25519:")), "little")
    return encoded % 2**255 % _P in _SMALL
