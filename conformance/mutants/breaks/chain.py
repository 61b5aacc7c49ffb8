"""Records that are not held against their neighbours."""

from __future__ import annotations

import json

import msgspec

from deltawire.errors import BrokenChainError
from deltawire.format import strict_json
from deltawire.format.records import Delta, StreamRecord
from deltawire.reading import stream
from deltawire.reading.stream import Committed, StreamReader
from mutants import Mutant
from mutants.patching import replace, skip


def cases(names: str) -> tuple[str, ...]:
    """Ids of cases of this area."""
    return tuple(f"chain/{name}" for name in names.split())


_FOLLOWS = stream.check_follows
_REPLACED = msgspec.structs.replace


def _any_parent(before: Committed, after: Committed) -> None:
    parent = after.record.parent
    fitting = None if parent is None else _REPLACED(parent, digest=before.digest)
    _FOLLOWS(before, Committed(_REPLACED(after.record, parent=fitting), after.digest, after.data))


def _rewritten_parent(before: Committed, after: Committed) -> None:
    compact = json.dumps(json.loads(before.data), separators=(",", ":")).encode()
    _FOLLOWS(Committed(before.record, strict_json.sha256(compact), before.data), after)


def _any_epoch(before: Committed, after: Committed) -> None:
    _FOLLOWS(Committed(_REPLACED(before.record, epoch=0), before.digest, before.data), after)


def _any_table(before: Committed, after: Committed) -> None:
    fitting = _REPLACED(after.record, tensors=before.record.tensors)
    _FOLLOWS(before, Committed(fitting, after.digest, after.data))


def _saturating(before: str, delta: Delta, after: str) -> bool:
    return int(before, 16) + int(delta.digest_after, 16) - int(delta.digest_before, 16) == int(after, 16)


def _epoch_by_one(before: Committed, after: Committed) -> None:
    _FOLLOWS(before, after)
    if after.record.epoch > before.record.epoch + 1:
        raise BrokenChainError("the epoch rises by more than one")


def _number_of_the_key() -> None:
    load = StreamReader._load  # noqa: SLF001 - to break it

    def by_key(self: StreamReader, number: int, record: StreamRecord) -> Committed:
        found = load(self, number, record)
        return Committed(_REPLACED(found.record, version=number), found.digest, found.data)

    skip("deltawire.reading.stream:check_ours")()
    replace("deltawire.reading.stream:StreamReader._load", by=by_key)()


MUTANTS = [
    Mutant(
        name="any-parent",
        what="does not hold a record's parent against the record before",
        patch=replace("deltawire.reading.ways:check_follows", by=_any_parent),
        caught_by=cases("parent-digest held-record-replaced middle-replaced"),
    ),
    Mutant(
        name="rewritten-parent",
        what="takes the digest of the parent over a rewritten form of its record",
        patch=replace("deltawire.reading.ways:check_follows", by=_rewritten_parent),
        caught_by=cases("parent-rewritten"),
    ),
    Mutant(
        name="any-epoch",
        what="lets epochs fall",
        patch=replace("deltawire.reading.ways:check_follows", by=_any_epoch),
        caught_by=cases("epoch-falls"),
    ),
    Mutant(
        name="epoch-by-one",
        what="wants epochs to rise by one at most",
        patch=replace("deltawire.reading.ways:check_follows", by=_epoch_by_one),
        caught_by=cases("epoch-rises"),
    ),
    Mutant(
        name="any-table",
        what="lets a delta have another tensor table than its parent",
        patch=replace("deltawire.reading.ways:check_follows", by=_any_table),
        caught_by=cases("another-table"),
    ),
    Mutant(
        name="unlinked-states",
        what="does not hold state digests against those of deltas before it applies them",
        patch=replace("deltawire.reading.stream:_adds_up", by=lambda *_: True),
        caught_by=cases("state-digest delta-digest"),
    ),
    Mutant(
        name="digests-without-carry",
        what="does not add digests modulo 2^64",
        patch=replace("deltawire.reading.stream:_adds_up", by=_saturating),
        caught_by=cases("digest-wraps-up digest-wraps-down"),
    ),
    Mutant(
        name="number-of-the-key",
        what="does not look which version a record says that it is",
        patch=_number_of_the_key,
        caught_by=cases("another-number"),
    ),
    Mutant(
        name="stream-in-place",
        what="goes on in another stream than that of what it holds",
        patch=replace("deltawire.consumer.follower:Follower._held_here", by=lambda self, _: self.target.held),
        caught_by=cases("another-stream-in-place"),
    ),
]
