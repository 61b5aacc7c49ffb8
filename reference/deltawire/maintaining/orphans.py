"""Finding data objects that no record names (SPEC.md section 11.14)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from deltawire.maintaining.survey import Folder, data_objects
from deltawire.reading.transfer import Transfer
from deltawire.store.base import ObjectInfo


@dataclass(frozen=True, slots=True)
class Orphans:
    """A data folder that no record is known to own, and what in it no record names."""

    folder: Folder
    objects: tuple[ObjectInfo, ...]

    @property
    def bytes(self) -> int:
        """Their size."""
        return sum(info.bytes for info in self.objects)


def find_orphans(transfer: Transfer, *, owned: Collection[Folder], named: Collection[str]) -> Iterator[Orphans]:
    """Go through all data folders, in the order of their keys. COL-7

    Args:
        transfer: to the store.
        owned: folders of records that are there, or were until now.
        named: what records name in folders of others.
    """
    for folder, found in data_objects(transfer):
        orphans = tuple(info for info in found if info.key not in named)
        if orphans and folder not in owned:
            yield Orphans(folder, orphans)
