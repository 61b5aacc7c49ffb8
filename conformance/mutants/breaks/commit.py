"""Commits that are believed, or given up, too soon."""

from __future__ import annotations

from collections import Counter
from contextlib import nullcontext
from typing import Any

from deltawire.errors import (
    ConflictError,
    FencedError,
    ObjectExistsError,
    OutcomeUnknownError,
    StoreError,
    StoreUnavailableError,
)
from deltawire.producer.commit import Outcome
from mutants import Mutant
from mutants.patching import both, replace, skip, wrap

CREATE = "deltawire.producer.publisher:create_record"


def _no_read_back(store: Any, key: str, data: bytes, **_: Any) -> Outcome:
    try:
        store.put(key, data, mode="create")
    except ObjectExistsError:
        return Outcome.LOST
    return Outcome.OURS


def _hopeful(store: Any, key: str, data: bytes, **_: Any) -> Outcome:
    try:
        store.put(key, data, mode="create")
    except ObjectExistsError:
        return Outcome.OURS
    except StoreUnavailableError:
        pass
    return Outcome.OURS


def _never_sure(store: Any, key: str, data: bytes, **_: Any) -> Outcome:
    try:
        store.put(key, data, mode="create")
    except StoreError as error:
        raise OutcomeUnknownError(str(error)) from None
    return Outcome.OURS


def _by_overwriting(store: Any, key: str, data: bytes, **_: Any) -> Outcome:
    store.put(key, data, mode="overwrite")
    return Outcome.OURS


def _409_is_412(init: Any) -> Any:
    def changed(self: Any, error: Exception) -> None:
        init(self, error)
        if self.status == 409:
            self.status, self.transient = 412, False

    return changed


def _403_is_503(init: Any) -> Any:
    def changed(self: Any, error: Exception) -> None:
        init(self, error)
        if self.status == 403:
            self.denied, self.transient = False, True

    return changed


def _another_form(call: Any) -> Any:
    sent: Counter[str] = Counter()

    def changed(self: Any, method: str, **arguments: Any) -> Any:
        if method == "put_object" and "/versions/" in arguments["Key"]:
            arguments["Body"] += b" " * sent[arguments["Key"]]
            sent[arguments["Key"]] += 1
        return call(self, method, **arguments)

    return changed


def _as(kind: type[ConflictError | FencedError]) -> Any:
    def make(overtaken: Any) -> Any:
        return lambda self, *arguments: kind(str(overtaken(self, *arguments)))

    return make


def _put_later(self: Any, part: Any, data: Any, _: Any) -> None:
    self.__dict__.setdefault("later", []).append((part.key, memoryview(data).cast("B")))


def _then_parts(commit: Any) -> Any:
    def changed(self: Any, work: Any, deadline: Any) -> Any:
        done = commit(self, work, deadline)
        for key, data in self.__dict__.pop("later", []):
            self._store.put_stream(key, [data])
        return done

    return changed


MUTANTS = [
    Mutant(
        name="no-read-back",
        what="takes a refused create for a lost race, though an attempt of its own may have arrived",
        patch=replace(CREATE, by=_no_read_back),
        caught_by=("commit/lost-answer",),
    ),
    Mutant(
        name="409-is-a-conflict",
        what="takes 409 for a lost race",
        patch=both(
            wrap("deltawire.store.s3_client:S3Failure.__init__", by=_409_is_412), replace(CREATE, by=_no_read_back)
        ),
        caught_by=("commit/conflict-409", "commit/written-though-409"),
    ),
    Mutant(
        name="hopeful",
        what="takes a create for done whose answer is lost or a refusal",
        patch=replace(CREATE, by=_hopeful),
        caught_by=(
            "commit/outcome-unknown",
            "commit/denied-after-503",
            "commit/late-writer",
            "commit/same-epoch",
            "commit/unreadable-winner",
            "commit/lost-twice",
        ),
    ),
    Mutant(
        name="never-sure",
        what="reports every failure of a create as outcome_unknown",
        patch=replace(CREATE, by=_never_sure),
        caught_by=("commit/version-denied", "commit/no-conditions", "commit/late-writer"),
    ),
    Mutant(
        name="creates-by-overwriting",
        what="creates version records without a condition, and does not look at the lease again",
        patch=both(
            replace(CREATE, by=_by_overwriting),
            skip("deltawire.producer.lease:WriterLease.check", "deltawire.producer.lease:WriterLease.renew"),
        ),
        caught_by=(
            "commit/order",
            "commit/higher-epoch",
            "fencing/stalled-writer",
            "fencing/overtaken",
            "fencing/lease-replaced",
            "fencing/between-versions",
        ),
    ),
    Mutant(
        name="retries-in-another-form",
        what="sends other bytes when it tries to create a version again",
        patch=wrap("deltawire.store.s3_client:S3Client.call", by=_another_form),
        caught_by=("commit/busy-503",),
    ),
    Mutant(
        name="always-a-conflict",
        what="does not look at the epoch of the version that came first",
        patch=wrap("deltawire.producer.publisher:Publisher._overtaken", by=_as(ConflictError)),
        caught_by=("commit/higher-epoch", "commit/lost-twice", "fencing/stalled-writer"),
    ),
    Mutant(
        name="always-fenced",
        what="takes every version that came first for one of a later holder",
        patch=wrap("deltawire.producer.publisher:Publisher._overtaken", by=_as(FencedError)),
        caught_by=("commit/late-writer", "commit/same-epoch", "commit/unreadable-winner"),
    ),
    Mutant(
        name="commits-before-parts",
        what="creates the record of a version before its parts are stored",
        patch=both(
            replace("deltawire.producer.uploads:Uploads.put_part", by=_put_later),
            wrap("deltawire.producer.uploads:Uploads.commit", by=_then_parts),
        ),
        caught_by=("commit/parts-denied", "commit/parts-unavailable", "commit/order"),
    ),
    Mutant(
        name="denial-is-trouble",
        what="goes on asking a store that has denied",
        patch=wrap("deltawire.store.s3_client:S3Failure.__init__", by=_403_is_503),
        caught_by=("commit/parts-denied", "requests/part-denied"),
    ),
    Mutant(
        name="forgets-the-boundary",
        what="does not read retention.json after a commit",
        patch=skip("deltawire.producer.publisher:check_retained"),
        caught_by=(
            "commit/beyond-boundary",
            "commit/beyond-boundary-lost",
            "commit/boundary-unreadable",
            "commit/boundary-of-another",
            "commit/order",
        ),
    ),
    Mutant(
        name="head-counts",
        what="fails a publish whose head cannot be written",
        patch=replace(
            "deltawire.producer.publisher:suppress", "deltawire.producer.hints:suppress", by=lambda *_: nullcontext()
        ),
        caught_by=("commit/head-denied",),
    ),
    Mutant(
        name="forgets-members",
        what="writes the head and the lease without the members that it does not know",
        patch=replace("deltawire.format.strict_json:merge", by=lambda _, new: new),
        caught_by=("commit/head-keeps-members", "lease/members-kept"),
    ),
    Mutant(
        name="trusts-the-store",
        what="does not try whether an empty store keeps conditions",
        patch=skip("deltawire.producer.opening:check_arbitration"),
        caught_by=("commit/ignored-conditions",),
    ),
]
