"""Forks over something that is there, of something else, or without saying of what."""

from __future__ import annotations

import contextlib
from typing import Any

import msgspec

from deltawire.format.records import Origin, Snapshot, StreamRecord, VersionRecord
from deltawire.lineage.copying import CopiedSnapshot
from deltawire.producer import signing
from mutants import Mutant
from mutants.breaks.rollback import newest_instead
from mutants.patching import both, replace

_FORK = "deltawire.lineage.fork"


def _misquoting(**members: Any) -> Origin:
    return Origin(**{**members, "digest": "sha256:" + "0" * 64})


def _featureless(record: Any, how: signing.Signing | None) -> bytes:
    if isinstance(record, (StreamRecord, VersionRecord)) and how is None:
        record = msgspec.structs.replace(record, writer_features=())
    return signing.encode(record, how)


def _unsigned(record: Any, how: signing.Signing | None) -> bytes:
    if how is not None and isinstance(record, StreamRecord):
        return signing.encode(msgspec.structs.replace(record, writer_features=(), signing_keys=()), None)
    return signing.encode(msgspec.structs.replace(record, writer_features=()), None)


def _as_it_is(reader: Any, number: int, deadline: Any) -> Any:
    return reader.version(number, deadline)


def _in_place(_: Any, __: Any, snapshot: Snapshot, **___: Any) -> CopiedSnapshot:
    return CopiedSnapshot(snapshot, 0, 0)


MUTANTS = [
    Mutant(
        name="fork-anywhere",
        what="does not look what is at the destination",
        patch=replace(f"{_FORK}:_Forking._begun", by=lambda *_: None),
        caught_by=(
            "fork/interrupted",
            "fork/onto-a-stream",
            "fork/onto-an-empty-stream",
            "fork/onto-itself",
            "fork/onto-another-fork",
            "fork/onto-records",
        ),
    ),
    Mutant(
        name="fork-misquoting",
        what="names the version that it is a fork of by another digest",
        patch=replace(f"{_FORK}:Origin", by=_misquoting),
        caught_by=("fork/of-a-snapshot", "fork/of-a-delta", "fork/interrupted"),
    ),
    Mutant(
        name="fork-of-the-newest",
        what="takes the newest version where the one asked for is not there",
        patch=replace(f"{_FORK}:read_version", by=newest_instead),
        caught_by=("fork/version-to-come",),
    ),
    Mutant(
        name="fork-of-what-is-past",
        what="forks a version that is not retained",
        patch=both(
            replace(f"{_FORK}:read_version", by=_as_it_is),
            replace(f"{_FORK}:pinned", by=lambda *_, **__: contextlib.nullcontext()),
        ),
        caught_by=("fork/version-passed",),
    ),
    Mutant(
        name="fork-without-files",
        what="takes the tensors and no auxiliary files",
        patch=replace(f"{_FORK}:read_files", by=lambda *_: {}),
        caught_by=("fork/of-a-snapshot", "fork/files", "fork/file-missing"),
    ),
    Mutant(
        name="fork-without-features",
        what="leaves the features of the source behind",
        patch=replace(f"{_FORK}:encode", by=_featureless),
        caught_by=("fork/absolute",),
    ),
    Mutant(
        name="fork-unsigned",
        what="is told to sign and does not",
        patch=replace(f"{_FORK}:encode", by=_unsigned),
        caught_by=("fork/other-keys",),
    ),
    Mutant(
        name="fork-in-place",
        what="names the shards of the source without copying them",
        patch=replace(f"{_FORK}:copy_snapshot", by=_in_place),
        caught_by=("fork/of-a-snapshot", "fork/of-an-anchor", "fork/shard-missing", "fork/shard-cut-short"),
    ),
]
