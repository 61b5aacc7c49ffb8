"""Versions and features that are not looked at, or at which too much is taken."""

from __future__ import annotations

from typing import Any, NoReturn

from deltawire.errors import DeltawireError, MalformedRecordError, UnsupportedFeatureError, UnsupportedProtocolError
from mutants import Mutant
from mutants.mending import mended
from mutants.patching import replace, skip


def cases(names: str) -> tuple[str, ...]:
    """Ids of cases of this area."""
    return tuple(f"features/{name}" for name in names.split())


def _this_version(value: dict[str, Any], *, what: str) -> None:
    if (value.get("protocol"), value.get("protocol_version")) != ("deltawire", "0.1"):
        raise UnsupportedProtocolError(f"{what} is of another version")


def _known_writer_features(value: dict[str, Any]) -> None:
    if not set(value.get("writer_features", [])) <= {"absolute", "signed"}:
        raise UnsupportedFeatureError("a writer feature is not known")


def _no_later(value: dict[str, Any]) -> None:
    if "later" in value:
        raise MalformedRecordError("there is no member of this name")


def _stop(_self: object, _link: object, error: DeltawireError) -> NoReturn:
    raise error


MUTANTS = [
    Mutant(
        name="any-feature",
        what="reads records whatever features they demand",
        patch=skip("deltawire.format.features:check_features"),
        caught_by=(
            "records/features-before-shape",
            *cases(
                "reader-feature reader-feature-alone reader-feature-in-trial stream-reader-feature "
                "retention-reader-feature"
            ),
        ),
    ),
    Mutant(
        name="any-protocol-of-records",
        what="does not look at protocol and version",
        patch=skip("deltawire.format.features:check_protocol_of"),
        caught_by=(
            "records/protocol-before-features",
            *cases(
                "major-version major-version-ten stream-major-version table-major-version other-protocol "
                "protocol-capital"
            ),
        ),
    ),
    Mutant(
        name="this-minor-version",
        what="reads no minor version but its own",
        patch=replace("deltawire.format.features:check_protocol_of", by=_this_version),
        caught_by=cases("minor-version minor-version-far"),
    ),
    Mutant(
        name="known-writer-features",
        what="does not read streams with a writer feature that it does not know",
        patch=mended(_known_writer_features),
        caught_by=cases("writer-feature"),
    ),
    Mutant(
        name="known-members",
        what="refuses members that it does not know",
        patch=mended(_no_later),
        caught_by=cases("unknown-members"),
    ),
    Mutant(
        name="stopped-beside-the-line",
        what="stops at an anchor or a span that it cannot read",
        patch=replace("deltawire.reading.ways:WayFinder._pass_over_record", by=_stop),
        caught_by=(
            *cases("anchor-reader-feature anchor-major-version span-reader-feature span-major-version"),
            "signatures/anchor-unsigned",
            "signatures/span-unsigned",
        ),
    ),
]
