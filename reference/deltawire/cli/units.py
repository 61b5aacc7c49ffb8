"""Numbers as people read them, in a few characters."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


def count(value: int | None) -> str:
    """A whole number: ``1,234,567``."""
    return "-" if value is None else f"{value:,}"


def plural(value: int, what: str) -> str:
    """A number of things: ``1 version``, ``2 versions``."""
    return f"{value:,} {what}{'' if value == 1 else 's'}"


def size(value: float | None) -> str:
    """Bytes in decimal units: ``301 kB``."""
    if value is None:
        return "-"
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if value < 999.5 or unit == "TB":
            break
        value /= 1000
    return f"{value:.0f} B" if unit == "B" else f"{_three(value)} {unit}"


def percent(fraction: float | None) -> str:
    """A share with at most three digits: ``1.09 %``, ``<0.001 %``."""
    if fraction is None:
        return "-"
    if 0 < fraction < 1e-5:
        return "<0.001 %"
    if 0.9995 <= fraction < 1:
        return "99.9 %"
    if fraction in {0, 1}:
        return f"{fraction * 100:.0f} %"
    return f"{fraction * 100:.3f} %" if fraction < 1e-3 else f"{_three(fraction * 100)} %"


def ratio(value: float | None) -> str:
    """How many times: ``153x``."""
    return "-" if value is None else f"{_three(value) if value < 999.5 else f'{value:,.0f}'}x"


def decimal(value: float | None) -> str:
    """A number with at most three digits."""
    return "-" if value is None else _three(value) if value < 999.5 else f"{value:,.0f}"


def seconds(value: float) -> str:
    """A short time: ``34 ms``, ``1.20 s``."""
    return f"{value * 1e3:.0f} ms" if value < 0.9995 else f"{_three(value)} s" if value < 999.5 else f"{value:.0f} s"


def age(seconds: float | None) -> str:
    """How long ago, in the largest unit of which there are two: ``90 s``, ``3 h``, ``12 d``."""
    if seconds is None:
        return "-"
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds // size:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"


def moment(stamp: str) -> str:
    """A record's UTC time in this machine's time zone; without the year if it is less than half a year away."""
    try:
        then = datetime.fromisoformat(stamp).astimezone()
    except ValueError:  # such as second 60, which the records allow
        return stamp
    near = abs(datetime.now(UTC) - then) < timedelta(days=182)
    return then.strftime("%m-%d %H:%M:%S" if near else "%Y-%m-%d")


def _three(value: float) -> str:
    return f"{value:.2f}" if value < 9.995 else f"{value:.1f}" if value < 99.95 else f"{value:.0f}"
