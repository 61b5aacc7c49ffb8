"""What lies under a stream's prefix, by what the keys say it is: one listing."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from deltawire.deadline import Deadline
from deltawire.format import keys
from deltawire.reading.transfer import Transfer
from deltawire.store.base import ObjectInfo

_FOLDER = re.compile(
    rf"{keys.DATA}([0-9]{{20}})-[0-9a-f]{{8}}-[0-9a-f]{{4}}-[0-9a-f]{{4}}-[0-9a-f]{{4}}-[0-9a-f]{{12}}/.+"
)
_ONES = frozenset({keys.STREAM, keys.HEAD, keys.LEASE, keys.RETENTION})


@dataclass(kw_only=True)
class Inventory:
    """The objects of a stream; versions, anchors and spans ascend."""

    versions: list[int] = field(default_factory=list)
    anchors: list[int] = field(default_factory=list)
    spans: list[tuple[int, int]] = field(default_factory=list)
    """Base and target."""
    pins: list[str] = field(default_factory=list)
    """Keys."""
    data: dict[str, ObjectInfo] = field(default_factory=dict)
    """Whatever records name, or could."""
    unknown: list[ObjectInfo] = field(default_factory=list)
    """Keys that are not of the layout. KEY-5"""

    @property
    def data_bytes(self) -> int:
        """Size of all data objects: about what a check of the stream reads."""
        return sum(info.bytes for info in self.data.values())


def folder_version(key: str) -> int | None:
    """The version for which a data folder was made, by the key of an object in it; None for any other key. KEY-4"""
    match = _FOLDER.fullmatch(key)
    return None if match is None else int(match[1])


def sort_objects(listing: Iterable[ObjectInfo]) -> Inventory:
    """Tell the objects of a listing apart by their keys (SPEC.md section 6)."""
    found = Inventory()
    for info in listing:
        key = info.key
        number, span = keys.parse_numbered(key), keys.parse_span(key)
        if number is not None:
            (found.versions if key.startswith(keys.VERSIONS) else found.anchors).append(number)
        elif span is not None:
            found.spans.append(span)
        elif keys.parse_pin(key) is not None:
            found.pins.append(key)
        elif folder_version(key) is not None:
            found.data[key] = info
        elif key not in _ONES:
            found.unknown.append(info)
    found.versions.sort()
    found.anchors.sort()
    found.spans.sort()
    return found


def take_inventory(transfer: Transfer, deadline: Deadline) -> Inventory:
    """List everything under the prefix.

    Raises:
        LimitExceededError: there are more records of one kind than the limits allow.
        StoreError, DeadlineExceededError: the store did not answer.
    """
    found = transfer.call(deadline, lambda: sort_objects(transfer.store.list("")))
    for what, records in (("versions", found.versions), ("anchors", found.anchors), ("spans", found.spans)):
        transfer.limits.check("path_records", len(records), f"number of {what}")
    transfer.limits.check("pins", len(found.pins), "number of pins")
    return found
