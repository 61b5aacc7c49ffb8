"""Producers that write what they must not, or where they must not."""

from __future__ import annotations

from typing import Any

from deltawire.errors import FormatError, MalformedRecordError, StreamNotFoundError, UnsupportedError
from mutants import Mutant
from mutants.patching import replace, skip, wrap


def _starts_anew(stream: Any) -> Any:
    def changed(self: Any, deadline: Any) -> Any:
        try:
            return stream(self, deadline)
        except (FormatError, UnsupportedError) as error:
            self.transfer.store.delete("stream.json")
            raise StreamNotFoundError(str(error)) from None

    return changed


def _not_absolute(init: Any) -> Any:
    return lambda self, **_: init(self, absolute=False)


class _Anything:
    """Equal to every digest."""

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False

    __hash__ = None  # type: ignore[assignment]


MUTANTS = [
    Mutant(
        name="opens-any-stream",
        what="writes to a stream whatever its record demands of writers",
        patch=skip("deltawire.producer.opening:_check_stream"),
        caught_by=("publishing/writer-feature", "publishing/not-absolute", "ranked/not-ranked"),
    ),
    Mutant(
        name="starts-anew",
        what="makes a stream of its own where it cannot read the one that is there",
        patch=wrap("deltawire.reading.stream:StreamReader.stream", by=_starts_anew),
        caught_by=("publishing/reader-feature", "publishing/other-major", "publishing/malformed-stream"),
    ),
    Mutant(
        name="signs-any-stream",
        what="does not look whether it may sign a stream",
        patch=skip("deltawire.producer.signing:check_signing"),
        caught_by=("publishing/unsigned-stream", "publishing/foreign-key", "publishing/no-key"),
    ),
    Mutant(
        name="unsigned-base",
        what="does not check the signatures of what it goes on from",
        patch=skip("deltawire.reading.trust:Trust.check"),
        caught_by=("publishing/forged-base",),
    ),
    Mutant(
        name="finishes-forks",
        what="publishes version 0 of a fork",
        patch=skip("deltawire.producer.opening:_check_fork"),
        caught_by=("publishing/unfinished-fork",),
    ),
    Mutant(
        name="takes-up-any-line",
        what="does not check that versions follow from each other",
        patch=skip("deltawire.reading.stream:check_follows", "deltawire.reading.ways:check_follows"),
        caught_by=("publishing/broken-base",),
    ),
    Mutant(
        name="any-batch",
        what="does not compare the sha256 of a batch",
        patch=replace("deltawire.parts.reader:sha256", by=lambda _: _Anything()),
        caught_by=("publishing/damaged-base",),
    ),
    Mutant(
        name="bad-state-is-bad-record",
        what="reports a state that fits no table as a malformed record",
        patch=replace("deltawire.format.tensors:InvalidStateError", by=MalformedRecordError),
        caught_by=(
            "publishing/alias-of-nothing",
            "publishing/alias-of-alias",
            "publishing/alias-under-tensor",
            "publishing/name-with-line-feed",
        ),
    ),
    Mutant(
        name="stores-files-again",
        what="stores auxiliary files anew with every version",
        patch=replace("deltawire.producer.contents:_same", by=lambda *_: False),
        caught_by=("publishing/files",),
    ),
    Mutant(
        name="forgets-absolute",
        what="uses codecs that need a base in a stream with the feature absolute",
        patch=wrap("deltawire.producer.encoding:Encoder.__init__", by=_not_absolute),
        caught_by=("publishing/absolute", "publishing/absolute-kept", "ranked/absolute-too"),
    ),
]
