"""Leases that are taken, kept or left in a wrong way."""

from __future__ import annotations

from typing import Any

from deltawire.errors import FormatError, LeaseHeldError, UnsupportedError, WrongStreamError
from deltawire.format import keys
from deltawire.producer.envelope import now
from deltawire.store import Guarantees
from mutants import Mutant
from mutants.patching import both, replace, skip, wrap

LEASE = "deltawire.producer.lease:WriterLease"


def _replaces_unreadable(read: Any) -> Any:
    def changed(self: Any) -> Any:
        try:
            return read(self)
        except (FormatError, UnsupportedError, WrongStreamError):
            self._store.delete(keys.LEASE)
            return None

    return changed


def _compares_clocks(attempt: Any) -> Any:
    def changed(self: Any) -> Any:
        found = self._read()
        if found is not None and not found.record.released and found.record.created_at > now():
            raise LeaseHeldError("its time has not come")
        return attempt(self)

    return changed


def _deletes(self: Any) -> None:
    if self.held:
        self._store.delete(keys.LEASE)
        self._fenced = "this writer gave up its lease"


def _one_commit_id(make: Any) -> Any:
    known: dict[str, str] = {}

    def changed(stream_id: str, kind: str, **more: Any) -> Any:
        made = make(stream_id, kind, **more)
        if kind == "lease":
            made["commit_id"] = known.setdefault(stream_id, made["commit_id"])
        return made

    return changed


MUTANTS = [
    Mutant(
        name="no-lease",
        what="takes no lease",
        patch=replace(
            "deltawire.store.s3:S3Store.guarantees",
            "deltawire.store.local:LocalStore.guarantees",
            by=Guarantees(conditional_create=True, compare_and_swap=False),
        ),
        caught_by=("lease/alive-publish", "commit/order", "publishing/taken-up"),
    ),
    Mutant(
        name="same-epoch",
        what="acquires the lease in the epoch of the one before",
        patch=replace("deltawire.producer.lease:_next", by=lambda epoch: epoch),
        caught_by=("lease/released", "lease/holder-gone", "lease/taken-over", "publishing/taken-up"),
    ),
    Mutant(
        name="below-the-line",
        what="does not put its epoch above that of the newest version",
        patch=skip(f"{LEASE}.rise_above"),
        caught_by=("lease/above-the-line", "lease/above-the-line-with-lease", "fencing/above-the-line"),
    ),
    Mutant(
        name="takes-what-is-held",
        what="takes the lease from its holder without waiting",
        patch=replace("deltawire.producer.lease:LeaseTerms.take_over", by=property(lambda _: True, lambda *_: None)),
        caught_by=("lease/alive", "lease/alive-publish"),
    ),
    Mutant(
        name="compares-clocks",
        what="believes what a lease says of the time",
        patch=wrap(f"{LEASE}.attempt", by=_compares_clocks),
        caught_by=("lease/clock-of-the-future",),
    ),
    Mutant(
        name="deletes-the-lease",
        what="deletes the lease when it is done",
        patch=replace(f"{LEASE}.release", by=_deletes),
        caught_by=("lease/first", "lease/released"),
    ),
    Mutant(
        name="one-commit-id",
        what="writes every lease under the same commit_id",
        patch=wrap("deltawire.producer.lease:envelope", by=_one_commit_id),
        caught_by=("lease/every-write",),
    ),
    Mutant(
        name="replaces-unreadable-leases",
        what="replaces a lease that it cannot read",
        patch=wrap(f"{LEASE}._read", by=_replaces_unreadable),
        caught_by=(
            "lease/unreadable",
            "lease/other-stream",
            "lease/other-stream-kept",
            "lease/reader-feature",
            "lease/other-major",
            "lease/no-ttl",
            "lease/no-holder",
        ),
    ),
    Mutant(
        name="never-renews",
        what="does not write the lease while it holds it",
        patch=both(
            replace(f"{LEASE}.renew", by=lambda self: self.check()),
            replace(f"{LEASE}.stale", by=property(lambda _: False)),
        ),
        caught_by=("lease/renewed", "commit/renewal-denied"),
    ),
    Mutant(
        name="never-fenced",
        what="does not look whether the lease is still its own",
        patch=skip(f"{LEASE}.check", f"{LEASE}._write_or_stop"),
        caught_by=(
            "fencing/lease-taken",
            "fencing/lease-gone",
            "fencing/same-holder-name",
            "fencing/lease-replaced",
            "fencing/between-versions",
            "fencing/taken-over",
        ),
    ),
]
