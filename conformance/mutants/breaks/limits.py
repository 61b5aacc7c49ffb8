"""Limits that are not held to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from deltawire.limits import DEFAULT_LIMITS, Limits
from mutants import Mutant
from mutants.patching import replace


def cases(names: str) -> tuple[str, ...]:
    """Ids of cases of this area."""
    return tuple(f"limits/{name}" for name in names.split())


_CHECK = Limits.check


def _but(*names: str) -> Callable[[], None]:
    """A patch after which these limits are no longer held to."""

    def check(self: Limits, name: str, value: int, what: str) -> int:
        return value if name in names else _CHECK(self, name, value, what)

    return replace("deltawire.limits:Limits.check", by=check)


def _by_one(by: int) -> Callable[[], None]:
    """A patch that moves every limit that is set by default."""

    def check(self: Limits, name: str, value: int, what: str) -> int:
        _CHECK(self, name, value + by, what)
        return value

    return replace("deltawire.limits:Limits.check", by=check)


def _defaults(_self: object, name: str, value: int, what: str) -> int:
    return _CHECK(DEFAULT_LIMITS, name, value, what)


MUTANTS = [
    Mutant(
        name="limits-on-records",
        what="does not limit what records hold",
        patch=_but("metadata_bytes", "features", "batch_bytes", "rows", "file_bytes", "shard_header_bytes"),
        caught_by=cases("metadata-bytes features batch-bytes rows file-bytes shard-header-bytes"),
    ),
    Mutant(
        name="limits-one-off",
        what="takes limits for one more than they are",
        patch=_by_one(-1),
        caught_by=cases("metadata-bytes features name-bytes dims tensor-bytes signing-keys set-state-bytes set-files"),
    ),
    Mutant(
        name="limits-exclusive",
        what="takes limits for the first value that is too large",
        patch=_by_one(1),
        caught_by=cases(
            "record-bytes-reached metadata-bytes-reached features-reached name-bytes-reached dims-reached "
            "signing-keys-reached set-and-reached"
        ),
    ),
    Mutant(
        name="limits-by-default",
        what="does not heed the limits that it was given",
        patch=replace("deltawire.limits:Limits.check", by=_defaults),
        caught_by=cases("set-tensors set-state-bytes set-files set-parts set-shard-header-bytes set-kept"),
    ),
]
