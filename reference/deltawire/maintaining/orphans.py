"""Finding data objects that no record names, and whose writers have given up (SPEC.md section 11.14)."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from deltawire.deadline import Deadline
from deltawire.errors import StoreError
from deltawire.format import keys
from deltawire.maintaining.survey import Folder, data_objects
from deltawire.reading.transfer import Transfer
from deltawire.store.base import ObjectInfo


@dataclass(frozen=True, slots=True)
class Orphans:
    """A data folder that no record is known to own, and what in it no record names."""

    folder: Folder
    objects: tuple[ObjectInfo, ...]
    newest_at: float | None
    """When the last object in the folder was written, by the store's clock; None if the store does not tell."""

    @property
    def bytes(self) -> int:
        """Their size."""
        return sum(info.bytes for info in self.objects)


def find_orphans(
    transfer: Transfer, *, newest: int, owned: Collection[Folder], named: Collection[str]
) -> Iterator[Orphans]:
    """Go through all data folders, in the order of their keys. COL-7

    Args:
        transfer: to the store.
        newest: the newest version; folders of later ones may belong to a commit under way.
        owned: folders of records that are there.
        named: what these records name in folders of others.
    """
    for folder, found in data_objects(transfer):
        if folder[0] > newest or folder in owned:
            continue
        orphans = tuple(info for info in found if info.key not in named)
        times = [info.modified_at for info in found]
        if orphans:
            newest_at = None if None in times else max(time for time in times if time is not None)
            yield Orphans(folder, orphans, newest_at)


def store_time(transfer: Transfer, deadline: Deadline) -> float | None:
    """What the time is by the store's clock: that of an object written just now. None if it tells no times. COL-7"""
    store, key = transfer.store, f"{keys.PROBES}{uuid.uuid4()}"

    def tell() -> float | None:
        try:
            store.put(key, b"what time is it?", mode="overwrite")
            return store.head(key).modified_at
        finally:
            with suppress(StoreError):
                store.delete(key)

    return transfer.call(deadline, tell)


def given_up(orphans: Iterable[Orphans], *, now: float | None, grace: float) -> tuple[list[Orphans], list[Orphans]]:
    """Part orphans into those that nothing was added to for the grace period, and those that may yet get a record."""
    old: list[Orphans] = []
    young: list[Orphans] = []
    for found in orphans:
        waited = now is not None and found.newest_at is not None and now - found.newest_at >= grace
        (old if waited else young).append(found)
    return old, young
