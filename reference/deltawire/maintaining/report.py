"""What a collecting pass did, or would do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from deltawire.maintaining.staying import count_in
from deltawire.reading.pins import StoredPin

Runs = tuple[tuple[int, int], ...]
"""Numbers as runs of consecutive ones: the first and the last of each."""


def runs_of(numbers: Iterable[int]) -> Runs:
    """Numbers, ascending or not, as runs."""
    runs: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][1] == number - 1:
            runs[-1] = runs[-1][0], number
        else:
            runs.append((number, number))
    return tuple(runs)


def text_of(runs: Runs) -> str:
    """Runs for people: ``0-7, 9``."""
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldBack:
    """A pin because of which something stays that the policy would have collected."""

    id: str
    holder: str | None
    """None if the pin cannot be read."""
    first: int
    last: int | None
    versions: int
    """How many version records stay because of this pin, and maybe of others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """What was removed in one pass, or would have been in a dry run."""

    dry_run: bool
    newest: int | None
    """None if the stream has no version; then nothing is collected. FRK-8"""
    previous_boundary: int
    boundary: int
    """The oldest version from which on all are retained."""
    kept: Runs = ()
    """Versions retained below the boundary."""
    versions: Runs = ()
    """Versions whose records were removed."""
    anchors: int = 0
    spans: int = 0
    objects: int = 0
    """Data objects that these records named."""
    bytes: int = 0
    """Their size, by the records."""
    orphans: int = 0
    """Data objects that no record named. COL-7"""
    orphan_bytes: int = 0
    waiting_orphans: int = 0
    """Such objects of versions that stay: they go when those have gone, as an anchor may be under way. COL-7"""
    pins: int = 0
    """Pins of readers that have ended or are gone. PIN-10"""
    held_back: tuple[HeldBack, ...] = ()
    waited_seconds: float = 0.0
    """How long it was observed whether readers are alive."""
    notes: tuple[str, ...] = ()
    """What else is worth knowing, such as why something could not be collected."""

    @property
    def changed(self) -> bool:
        """Whether anything was done, or would be."""
        moved = self.boundary != self.previous_boundary
        return moved or bool(self.versions or self.anchors or self.spans or self.objects or self.orphans or self.pins)


def held_back(pins: Iterable[StoredPin], numbers: Iterable[int]) -> tuple[HeldBack, ...]:
    """The pins in whose range some of the numbers lie."""
    ascending = sorted(numbers)
    found = ((pin, count_in(pin, ascending)) for pin in pins)
    return tuple(
        HeldBack(
            id=pin.id,
            holder=None if pin.record is None else pin.record.holder,
            first=pin.first,
            last=pin.last,
            versions=count,
        )
        for pin, count in found
        if count
    )
