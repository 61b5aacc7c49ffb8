"""Limits that are not held to."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any

from deltawire.consumer.follower import Follower
from deltawire.limits import DEFAULT_LIMITS, Limits
from mutants import Mutant
from mutants.mending import mended_bytes
from mutants.patching import replace, skip


def cases(names: str) -> tuple[str, ...]:
    """Ids of cases of this area."""
    return tuple(f"limits/{name}" for name in names.split())


_CHECK = Limits.check
_INIT = Follower.__init__


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


def _in_64_bits(self: Limits, name: str, value: int, what: str) -> int:
    return _CHECK(self, name, value % (1 << 64), what)


def _characters(name: str, limits: Limits) -> None:
    limits.check("name_bytes", len(name), "length of a name")


def _any_size(self: Follower, *arguments: Any, limits: Limits, **more: Any) -> None:
    larger = dataclasses.replace(limits, record_bytes=1 << 30, table_bytes=1 << 30)
    _INIT(self, *arguments, limits=larger, **more)


MUTANTS = [
    Mutant(
        name="records-of-any-size",
        what="reads records and tables of any size",
        patch=replace("deltawire.consumer.follower:Follower.__init__", by=_any_size),
        caught_by=cases("record-bytes set-table-bytes"),
    ),
    Mutant(
        name="any-depth",
        what="does not limit how deep JSON is nested",
        patch=skip("deltawire.format.strict_json:_check_depth"),
        caught_by=cases("json-depth"),
    ),
    Mutant(
        name="cut-depth",
        what="leaves out what is nested too deep",
        patch=mended_bytes(lambda data: re.sub(rb"\[{20,}\]+", b"[]", data)),
        caught_by=cases("json-depth-far"),
    ),
    Mutant(
        name="limits-on-tensors",
        what="does not limit the sizes that shapes claim",
        patch=_but("tensor_bytes", "state_bytes"),
        caught_by=cases("tensor-bytes tensor-bytes-of-elements tensor-bytes-overflow state-bytes"),
    ),
    Mutant(
        name="limits-in-64-bits",
        what="counts with 64 bits",
        patch=replace("deltawire.limits:Limits.check", by=_in_64_bits),
        caught_by=cases("tensor-bytes-overflow"),
    ),
    Mutant(
        name="names-by-characters",
        what="measures names of tensors in characters",
        patch=replace("deltawire.format.tensors:_check_name", by=_characters),
        caught_by=cases("name-bytes-of-letters"),
    ),
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
