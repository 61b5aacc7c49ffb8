"""``head.json``: a hint for readers that come from nothing (SPEC.md section 8.5)."""

from __future__ import annotations

from contextlib import suppress

import msgspec

from deltawire.errors import DeltawireError
from deltawire.format import keys, strict_json
from deltawire.format.records import HeadRecord
from deltawire.limits import Limits
from deltawire.store.base import Store


def write_head(store: Store, head: HeadRecord, *, limits: Limits) -> None:
    """Overwrite the hint, keeping members that we do not know. A failure is of no account. HED-3, VER-5"""
    members = msgspec.to_builtins(head)
    with suppress(DeltawireError):
        data = store.get(keys.HEAD, max_bytes=limits.record_bytes).data
        before = strict_json.parse(data, what=keys.HEAD, limits=limits)
        members = strict_json.merge(strict_json.unknown(before, HeadRecord), members)
    with suppress(DeltawireError):
        store.put(keys.HEAD, msgspec.json.encode(members), mode="overwrite")
