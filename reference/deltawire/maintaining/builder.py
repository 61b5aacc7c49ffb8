"""Whoever makes anchors and spans from what is in the store (SPEC.md section 11.12)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Self

from deltawire.consumer.pinning import pinned
from deltawire.deadline import Deadline
from deltawire.format import features
from deltawire.limits import DEFAULT_LIMITS, MIB, Limits
from deltawire.maintaining.building import Built, Learned, Options, Pin, Run
from deltawire.maintaining.ladder import Ladder
from deltawire.parts.writer import PartOptions
from deltawire.producer.anchors import AnchorPolicy
from deltawire.producer.signing import as_signing, reader_for
from deltawire.reading.stream import StreamReader
from deltawire.reading.transfer import Transfer
from deltawire.store.base import Store

if TYPE_CHECKING:
    from deltawire.ed25519 import PrivateKeyLike, PublicKeyLike


class Builder:
    """Makes the anchors and spans that a stream should have, from what is in the store alone.

    A run goes over the model in groups of tensors, and takes each along the line: from a snapshot over all the versions
    at which a span begins or ends to the newest one. It holds one group at a time, and for each span that is open then
    what has changed in the group, which is never more than the group itself: with a hundredth changed by each of 32
    versions, two and a half times ``shard_bytes`` in all, and about twelve times where everything changes all the time.
    Requests that are read ahead, scans and parts that are being stored take about 300 MiB besides.

    Not for two threads at once. Any number of builders can work on one stream.

    Args:
        store: of the stream.
        ladder: which spans there should be.
        anchors: when the newest version should have an anchor.
        batch: versions after the newest span or snapshot for which a run is worth it.
        shard_bytes: about how large a group of tensors, and so a shard of an anchor, becomes.
        parts: sizes and compression of parts.
        signing_key: signs what is made, in a signed stream: an Ed25519 private key, as a publisher takes it.
        co_signers: public keys of others who sign the stream, such as its creator's.
        limits: what to refuse.
        workers: concurrent requests.
        pin: keeps the versions that a run reads from being collected; None pins them as any reader does.
    """

    def __init__(  # noqa: PLR0913 - options, given by name
        self,
        store: str | PathLike[str] | Store,
        *,
        ladder: Ladder | None = None,
        anchors: AnchorPolicy | None = None,
        batch: int = 16,
        shard_bytes: int = 256 * MIB,
        parts: PartOptions | None = None,
        signing_key: PrivateKeyLike | None = None,
        co_signers: Sequence[PublicKeyLike] | None = None,
        limits: Limits = DEFAULT_LIMITS,
        workers: int = 8,
        pin: Pin | None = None,
    ) -> None:
        from deltawire.store import open_store  # noqa: PLC0415 - stores are imported when one is opened

        signing = as_signing(signing_key, co_signers)
        self._store = store if isinstance(store, Store) else open_store(store)
        self._opened = self._store is not store
        self._transfer = Transfer(self._store, limits=limits, workers=workers, in_flight_bytes=64 * MIB)
        self._reader: StreamReader | None = None
        self._options = Options(
            ladder=ladder or Ladder(),
            anchors=anchors or AnchorPolicy(),
            batch=batch,
            shard_bytes=shard_bytes,
            parts=parts or PartOptions(),
            signing=signing,
            pin=pin or self._pinned,
        )
        self._learned = Learned()
        self._deadline = Deadline(None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release threads and connections."""
        self._transfer.close()
        if self._opened:
            self._store.close()

    def run(self, *, force: bool = False, timeout: float | None = None) -> Built:
        """Make what is missing, if enough is.

        Args:
            force: make whatever can be made, however little.
            timeout: seconds until giving up.

        Raises:
            StreamNotFoundError: there is no stream here.
            InvalidArgumentError, BadSignatureError: it is signed, and not by keys that were given.
            UnsupportedFeatureError: it has a feature that writers must know, and this one does not.
            StoreError, DeadlineExceededError: the store did not answer, or not in time; what was made until then stays.
        """
        return self._begin(timeout).run(force=force)

    def look(self, *, timeout: float | None = None) -> Built:
        """Say what ``run`` would make, if all that it needs is sound; nothing is written. Raises what ``run`` does."""
        return self._begin(timeout).look()

    def _begin(self, timeout: float | None) -> Run:
        deadline = Deadline.after(timeout)
        if self._reader is None:
            self._reader = reader_for(self._transfer, self._options.signing, deadline)
        stream = self._reader.stream(deadline)
        features.check_features(stream.writer_features, features.WRITER_FEATURES, role="writer")  # VER-3
        self._deadline = deadline
        return Run(self._reader, stream, self._options, self._learned, deadline)

    def _pinned(self, first: int, last: int) -> AbstractContextManager[object]:
        assert self._reader is not None  # noqa: S101 - a run has begun
        return pinned(self._reader, first, last, deadline=self._deadline)
