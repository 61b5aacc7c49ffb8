"""Anchors and spans that should not be there, or are not what they say."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from deltawire.format import records
from deltawire.maintaining import merging, segments
from deltawire.producer.commit import Outcome
from mutants import Mutant
from mutants.patching import both, replace, skip

_BUILDING = "deltawire.maintaining.building"
_Listing = segments.Listing


def _touched(self: merging.Earlier, now: Any) -> merging.Undo:
    if not self._undos:
        return merging.Undo(np.empty(0, np.uint32), np.empty(0, now.dtype))
    self._merge_all()
    return self._undos[0]


def _overwrite(store: Any, key: str, data: bytes, **_: Any) -> Outcome:
    store.put(key, data, mode="overwrite")
    return Outcome.OURS


def _unlisted(_: Any, __: Any) -> segments.Listing:
    return _Listing(frozenset(), frozenset())


MUTANTS = [
    Mutant(
        name="span-of-its-last-deltas",
        what="makes longer spans of the second half of what they lead over",
        patch=both(
            skip("deltawire.maintaining.merging:Earlier.absorb"), skip("deltawire.maintaining.writing:SpanWriter.check")
        ),
        caught_by=("building/nine-versions",),
    ),
    Mutant(
        name="span-of-all-that-was-touched",
        what="covers elements in a span that have their old bits again",
        patch=replace("deltawire.maintaining.merging:Earlier.changed", by=_touched),
        caught_by=("building/there-and-back",),
    ),
    Mutant(
        name="spans-of-any-size",
        what="creates spans that are larger than what they replace",
        patch=both(
            replace(f"{_BUILDING}:Run._bytes_without", by=lambda *_: 1 << 60),
            replace("deltawire.maintaining.writing:encode_checked", by=lambda record, *_, **__: records.encode(record)),
        ),
        caught_by=("building/spans-too-large",),
    ),
    Mutant(
        name="leaves-parts",
        what="leaves the parts of spans that it does not create",
        patch=skip(f"{_BUILDING}:Run._remove"),
        caught_by=("building/spans-too-large",),
    ),
    Mutant(
        name="builds-unsigned",
        what="does not sign anchors and spans",
        patch=replace("deltawire.maintaining.writing:encode", by=lambda record, _: records.encode(record)),
        caught_by=("building/signed",),
    ),
    Mutant(
        name="builds-anew",
        what="puts its anchors and spans in the place of others",
        patch=both(
            replace("deltawire.maintaining.segments:Listing", by=_unlisted),
            replace("deltawire.producer.settling:create_record", by=_overwrite),
        ),
        caught_by=("building/some-are-there",),
    ),
    Mutant(
        name="leaves-what-lost",
        what="leaves the data of anchors and spans that others have created before",
        patch=both(
            replace("deltawire.maintaining.segments:Listing", by=_unlisted),
            skip("deltawire.producer.settling:remove_folders"),
        ),
        caught_by=("building/some-are-there",),
    ),
    Mutant(
        name="builds-below-the-boundary",
        what="makes anchors and spans of versions that are not retained",
        patch=both(
            replace(f"{_BUILDING}:Run._boundary", by=lambda _: 0),
            replace(f"{_BUILDING}:look_after", by=lambda *_: True),
            replace("deltawire.maintaining.builder:pinned", by=lambda *_, **__: contextlib.nullcontext()),
        ),
        caught_by=("building/below-the-boundary",),
    ),
    Mutant(
        name="pins-for-ever",
        what="does not release its pin",
        patch=skip("deltawire.consumer.pin:ReaderPin.release"),
        caught_by=("building/nine-versions", "pins/while-following", "pins/nothing-left", "pins/after-a-refusal"),
    ),
]
