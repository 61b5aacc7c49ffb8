"""Numbers with units as people write them in options."""

from __future__ import annotations

import re

import typer

_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(s|m|h|d|w)?", re.IGNORECASE)
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(?:([KMGTP])(i)?)?B?", re.IGNORECASE)


def duration(text: str) -> float:
    """Seconds from ``90``, ``90s``, ``15m``, ``12h``, ``7d`` or ``2w``. Raises BadParameter."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise typer.BadParameter(f"{text[:40]!r} is not a duration such as 90s, 15m, 12h or 7d")
    return float(match[1]) * _SECONDS[(match[2] or "s").lower()]


def size(text: str) -> int:
    """Bytes from ``1500``, ``500GB`` or ``2TiB``. Raises BadParameter."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise typer.BadParameter(f"{text[:40]!r} is not a size such as 500GB or 2TiB")
    power = 0 if match[2] is None else "KMGTP".index(match[2].upper()) + 1
    return int(float(match[1]) * (1024 if match[3] else 1000) ** power)
