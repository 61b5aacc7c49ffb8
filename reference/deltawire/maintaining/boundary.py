"""Moving the boundary: the one object that says which versions are part of a stream (SPEC.md section 8.12)."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from deltawire.errors import (
    ObjectExistsError,
    ObjectNotFoundError,
    PreconditionFailedError,
    StoreError,
    StoreUnavailableError,
    StoreUnfitError,
)
from deltawire.format import keys, records, strict_json
from deltawire.format.records import RetentionRecord, StreamRecord
from deltawire.limits import Limits
from deltawire.maintaining.retaining import Choice
from deltawire.producer.envelope import envelope
from deltawire.reading.retention import Retention, decode_retention
from deltawire.store.base import PutMode, ReplaceIf, Store

_PAUSES = (0.1, 0.3, 1.0, 3.0)
"""Seconds between attempts at one write."""


@dataclass(frozen=True, slots=True)
class StoredRetention:
    """``retention.json`` as it was read."""

    record: RetentionRecord
    members: dict[str, Any] = field(repr=False)
    """All of it, with members that we do not know."""
    token: str

    @property
    def retention(self) -> Retention:
        """What it says."""
        return Retention(self.record.boundary, self.record.kept)


class Boundary:
    """Reads and moves the boundary of one stream. RET-1 to RET-5

    Args:
        store: where the stream is.
        stream: the stream's own record.
        limits: what to refuse.
        single_maintainer: the operator's word that nobody else moves it; needed in stores that cannot swap (STO-4).
        sleep: waits so many seconds; only between attempts at one write.
    """

    def __init__(
        self,
        store: Store,
        stream: StreamRecord,
        *,
        limits: Limits,
        single_maintainer: bool = False,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._store = store
        self._stream = stream
        self._limits = limits
        self._single = single_maintainer
        self._sleep = sleep

    def read(self) -> StoredRetention | None:
        """What is there; None if there never was anything.

        Raises:
            MalformedRecordError, UnsupportedProtocolError, UnsupportedFeatureError, LimitExceededError: it is no
                retention record. RET-4
            WrongStreamError: it is another stream's.
            StoreError: the store did not answer.
        """
        try:
            stored = self._store.get(keys.RETENTION, max_bytes=self._limits.record_bytes)
        except ObjectNotFoundError:
            return None
        record = decode_retention(stored.data, self._stream, limits=self._limits)
        members = strict_json.parse(stored.data, what=keys.RETENTION, limits=self._limits)
        return StoredRetention(record, members, stored.token)

    def check(self) -> None:
        """Raises StoreUnfitError if the store cannot swap and there may be other maintainers. RET-5"""
        if not self._store.guarantees.compare_and_swap and not self._single:
            raise StoreUnfitError(
                f"{self._store.url} cannot arbitrate between maintainers",
                hint="if nobody else moves the boundary of this stream, say so with --single-maintainer"
                f" (single_maintainer=True){f'; {self._store.alternative}' if self._store.alternative else ''}",
            )

    def move(self, before: StoredRetention | None, choice: Choice) -> bool:
        """Write what is to be retained in place of what was read, whatever happens to the answers. RET-5

        Returns:
            Whether it is what is there now; False if another maintainer was faster.

        Raises:
            LimitExceededError: more is kept below the boundary than readers take.
            StoreUnfitError: the store cannot swap, and nobody said that there is one maintainer.
            StoreError: it refused the write, or it is not known whether it arrived.
        """
        self.check()
        record = RetentionRecord(
            **envelope(self._stream.stream_id, "retention", epoch=0, writer_features=self._stream.writer_features),
            boundary=choice.boundary,
            kept=choice.kept,
        )
        members = msgspec.to_builtins(record)
        if before is not None:  # members that we do not know stay; that nothing is kept is said by absence. VER-5
            members = strict_json.merge(strict_json.unknown(before.members, RetentionRecord), members)
        data = msgspec.json.encode(members)
        records.decode(data, RetentionRecord, what=keys.RETENTION, limits=self._limits)  # LIM-4
        mode: PutMode = "create" if before is None else ReplaceIf(before.token)
        if not self._store.guarantees.compare_and_swap:
            mode = "overwrite"
        return self._write(data, record.commit_id, mode, None if before is None else before.token)

    def _write(self, data: bytes, commit_id: str, mode: PutMode, token: str | None) -> bool:
        failure: StoreError = StoreUnavailableError(f"{keys.RETENTION} was not written, and nobody else wrote it")
        arrived = False  # an attempt may have
        for pause in (*_PAUSES, None):
            try:
                self._store.put(keys.RETENTION, data, mode=mode)
            except (ObjectExistsError, PreconditionFailedError):
                pass  # an earlier attempt of ours may have arrived
            except StoreError as error:
                if not error.retryable and not arrived:
                    raise
                failure, arrived = error, True
            else:
                return True
            try:
                found = self.read()
            except StoreError as error:
                failure = error
            else:
                if found is not None and found.record.commit_id == commit_id:
                    return True
                if (found and found.token) != token:
                    return False
            if pause is not None:
                self._sleep(pause)
        raise failure
