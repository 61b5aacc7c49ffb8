"""Consumers whose pins do not hold, or never end."""

from __future__ import annotations

from typing import Any

from deltawire.consumer import pin
from deltawire.format import keys
from mutants import Mutant
from mutants.patching import replace, skip

_release = pin.ReaderPin.release


class _Still:
    """Renews nothing, and releases at the end."""

    def __init__(self, renewed: pin.ReaderPin, **_: Any) -> None:
        self._renewed = renewed

    def stop(self, _: float | None) -> None:
        self._renewed.release()


def _only_first(self: pin.ReaderPin, first: int, _: int | None = None) -> None:
    self._wanted = first, first


def _release_all(self: pin.ReaderPin) -> None:
    _release(self)
    for info in list(self._store.list(keys.PINS)):
        self._store.delete(info.key)


MUTANTS = [
    Mutant(
        name="pins-nothing",
        what="says that it pins and does not",
        patch=skip("deltawire.consumer.pinning:Pinning.need"),
        caught_by=("pins/while-following",),
    ),
    Mutant(
        name="pins-one-version",
        what="pins what it holds and not what comes",
        patch=replace("deltawire.consumer.pin:ReaderPin.want", by=_only_first),
        caught_by=("pins/while-following",),
    ),
    Mutant(
        name="pins-once",
        what="does not renew its pin",
        patch=replace("deltawire.consumer.pinning:Heartbeat", by=_Still),
        caught_by=("pins/renewed",),
    ),
    Mutant(
        name="releases-all-pins",
        what="removes the pins of others with its own",
        patch=replace("deltawire.consumer.pin:ReaderPin.release", by=_release_all),
        caught_by=("pins/of-others",),
    ),
]
