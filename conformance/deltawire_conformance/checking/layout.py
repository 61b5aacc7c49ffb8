"""Keys: which of them nothing in version 0.1 is called."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from deltawire.format import keys
from deltawire.store.base import ObjectInfo
from deltawire_conformance.checking.findings import Finding

_NUMBERED = re.compile(r"(versions|anchors|spans)/.*\.json")


def layout_findings(unknown: Iterable[ObjectInfo]) -> Iterator[Finding]:
    """Say what is odd about keys that are not of section 6.

    Args:
        unknown: objects with such keys.
    """
    for info in unknown:
        if info.key.startswith("leases/"):
            message = "keys below leases/ are reserved for later versions"
            yield Finding(requirement="KEY-6", severity="error", key=info.key, message=message)
        elif info.key.startswith(keys.PROBES):
            message = "a probe left it behind"
            yield Finding(requirement="STO-25", severity="note", key=info.key, message=message)
        elif _NUMBERED.fullmatch(info.key):
            message = "it is not named by versions of exactly 20 digits, so readers ignore it"
            yield Finding(requirement="KEY-2", severity="note", key=info.key, message=message)
        else:
            message = f"nothing in version 0.1 is called so; readers ignore it ({info.bytes:,} bytes)"
            yield Finding(requirement="KEY-5", severity="note", key=info.key, message=message)
