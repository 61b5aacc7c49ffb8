"""Rollbacks to something else than the version asked for, or that do not say what they are."""

from __future__ import annotations

from typing import Any

from deltawire.errors import VersionNotFoundError
from deltawire.format.records import RollbackOf
from deltawire.lineage import spooled
from mutants import Mutant
from mutants.patching import replace, skip

_read_version = spooled.read_version
_init = spooled.EarlierState.__init__


def newest_instead(reader: Any, number: int, deadline: Any) -> Any:
    """Read the newest version where the one asked for is not there."""
    try:
        return _read_version(reader, number, deadline)
    except VersionNotFoundError:
        return _read_version(reader, reader.latest(deadline), deadline)


def _silent(self: spooled.EarlierState, state: Any) -> None:
    _init(self, state)
    self.rollback_of = None


def _misquoting(self: spooled.EarlierState, state: Any) -> None:
    _init(self, state)
    self.rollback_of = RollbackOf(version=state.committed.record.version, digest=state.committed.record.tensors.digest)


def _without_files(*_: Any) -> dict[str, bytes]:
    return {}


class _AnyDigest(str):
    """Equal to every digest."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False


MUTANTS = [
    Mutant(
        name="rollback-silent",
        what="leaves out what it is a rollback of",
        patch=replace("deltawire.lineage.spooled:EarlierState.__init__", by=_silent),
        caught_by=("rollback/to-a-delta", "rollback/to-the-newest", "rollback/of-a-rollback"),
    ),
    Mutant(
        name="rollback-misquoting",
        what="names the version that it is a rollback of by another digest",
        patch=replace("deltawire.lineage.spooled:EarlierState.__init__", by=_misquoting),
        caught_by=("rollback/to-a-delta", "rollback/over-a-new-table"),
    ),
    Mutant(
        name="rollback-without-files",
        what="brings back the tensors and no auxiliary files",
        patch=replace("deltawire.lineage.rollback:read_files", by=_without_files),
        caught_by=("rollback/files", "rollback/to-a-delta", "rollback/file-missing"),
    ),
    Mutant(
        name="rollback-to-the-newest",
        what="takes the newest version where the one asked for is not there",
        patch=replace("deltawire.lineage.rollback:read_version", by=newest_instead),
        caught_by=("rollback/version-to-come", "rollback/version-passed"),
    ),
    Mutant(
        name="any-signing-key",
        what="does not look whether its key may sign the stream, or whether it has one",
        patch=skip("deltawire.producer.signing:check_signing"),
        caught_by=(
            "rollback/signed-without-a-key",
            "rollback/signed-with-another-key",
            "building/signed-without-a-key",
            "building/signed-with-another-key",
            "building/key-for-an-unsigned-stream",
        ),
    ),
    Mutant(
        name="other-code-for-path-lost",
        what="reports a record that is missing on the only way as a missing version",
        patch=replace("deltawire.errors:PathLostError.code", by="version_not_found"),
        caught_by=("rollback/record-missing",),
    ),
    Mutant(
        name="no-digest-of-batches",
        what="does not compare the digest of a batch",
        patch=replace("deltawire.parts.reader:sha256", by=lambda _: _AnyDigest()),
        caught_by=("rollback/damaged-delta", "fork/damaged-delta"),
    ),
    Mutant(
        name="other-code-for-no-stream",
        what="reports a place without a stream as one without the version",
        patch=replace("deltawire.errors:StreamNotFoundError.code", by="version_not_found"),
        caught_by=("rollback/no-stream", "fork/no-source", "building/no-stream"),
    ),
]
