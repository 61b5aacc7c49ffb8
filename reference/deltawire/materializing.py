"""One version of a stream as a checkpoint directory of its own."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from deltawire.consumer.follower import Follower
from deltawire.deadline import Deadline
from deltawire.format.records import VersionRecord
from deltawire.limits import DEFAULT_LIMITS, Limits
from deltawire.reading.stream import StreamReader
from deltawire.reading.transfer import Transfer
from deltawire.reading.trust import as_trust
from deltawire.reading.ways import WayFinder
from deltawire.staged_folder import staged_folder
from deltawire.store.base import Store
from deltawire.targets.directory import PRIVATE, DirectoryTarget

if TYPE_CHECKING:
    from deltawire.ed25519 import PublicKeyLike


@dataclass(frozen=True, slots=True, kw_only=True)
class Materialized:
    """A checkpoint directory was written and verified in full."""

    version: int
    record: VersionRecord = field(repr=False)
    steps: tuple[str, ...]
    """What was taken on the way: ``anchor``, ``snapshot``, ``span`` or ``delta`` each."""
    replanned: tuple[str, ...]
    """What could not be used, and what was taken instead: one sentence each. PLN-5"""
    bytes_fetched: int
    state_digest: str
    """Digest of what was written; of the selected tensors only, if tensors were selected."""
    files: tuple[str, ...]
    """Names of the files in the directory."""


def materialize(
    store: Store,
    path: Path,
    *,
    version: int | None = None,
    tensors: Sequence[str] | None = None,
    trust: Sequence[PublicKeyLike] | None = None,
    shard_bytes: int = 4 << 30,
    limits: Limits = DEFAULT_LIMITS,
    timeout: float | None = None,
) -> Materialized:
    """Write a version, the newest if None, to a new directory that loaders of Hugging Face checkpoints can read.

    ``tensors`` and ``trust`` are those of a ``Follower``.

    Raises:
        TargetMismatchError: ``path`` is there and is not an empty directory.
        PathError: there is no such version, or nothing leads to it.
        IntegrityError, FormatError: something in the store is not right; ``path`` is as it was.
    """
    deadline = Deadline.after(timeout)
    with staged_folder(path) as staging:
        with Follower(
            store, DirectoryTarget(staging, shard_bytes=shard_bytes), tensors=tensors, trust=trust, limits=limits
        ) as follower:
            update = follower.poll(to=version, timeout=deadline.remaining())
            digest = follower.verify()
        assert update is not None  # noqa: S101 - the directory held nothing
        shutil.rmtree(staging / PRIVATE)
        names = tuple(sorted(file.name for file in staging.iterdir()))
    return Materialized(
        version=update.version,
        record=update.record,
        steps=update.steps,
        replanned=update.replanned,
        bytes_fetched=update.bytes_fetched,
        state_digest=digest,
        files=names,
    )


def bytes_to_fetch(
    store: Store,
    *,
    version: int | None,
    trust: Sequence[PublicKeyLike] | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> int:
    """Bytes of the cheapest path from nothing to a version, the newest if None.

    Raises:
        PathError: there is no such version, or nothing leads to it.
    """
    deadline, trusted = Deadline(None), as_trust(trust)
    transfer = Transfer(store, limits=limits)
    try:
        reader = StreamReader(transfer, trusted)
        target = reader.latest(deadline) if version is None else version
        return sum(step.edge.bytes for step in WayFinder(reader, deadline).find(target, None))
    finally:
        transfer.close()
