"""Going back: an earlier version's state as the next version (SPEC.md section 11.10)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

from deltawire.deadline import Deadline
from deltawire.limits import DEFAULT_LIMITS, Limits
from deltawire.lineage.spooled import EarlierState, read_files, read_version, spool_version
from deltawire.parts.writer import PartOptions
from deltawire.producer.anchors import NEVER
from deltawire.producer.published import Published
from deltawire.producer.publisher import Publisher
from deltawire.producer.signing import as_signing, reader_for
from deltawire.reading.stream import StreamReader
from deltawire.reading.transfer import Transfer
from deltawire.reading.trust import as_trust
from deltawire.store import open_store
from deltawire.store.base import Store

if TYPE_CHECKING:
    from deltawire.ed25519 import PrivateKeyLike, PublicKeyLike


def rollback(  # noqa: PLR0913 - options, given by name
    store: str | PathLike[str] | Store,
    *,
    to: int,
    metadata: Mapping[str, Any] | None = None,
    single_writer: bool = False,
    signing_key: PrivateKeyLike | None = None,
    trust: Sequence[PublicKeyLike] | None = None,
    take_over: bool = False,
    parts: PartOptions | None = None,
    shard_bytes: int = 4 << 30,
    limits: Limits = DEFAULT_LIMITS,
    timeout: float | None = None,
) -> Published:
    """Commit the state and the auxiliary files of version ``to`` as the next version. RBK-1 to RBK-4

    Everything comes from the store. The newest version is held in memory, the state to go back to in a temporary file.
    A trainer that holds the stream keeps it, unless it is taken over; then it must open the stream again.

    Args:
        store: URL or store of the stream.
        to: the version to go back to.
        metadata: anything JSON; None repeats what that version says.
        single_writer: declare that nobody else writes; needed on stores that cannot arbitrate.
        signing_key: private key to sign with, as for a ``Publisher``.
        trust: public keys besides its own by which the stream may be signed, as for a ``Follower``.
        take_over: write even if a producer holds the stream, and fence it.
        parts: sizes and compression of parts.
        shard_bytes: about how large a snapshot's files become, where the tensor table differs.
        limits: what to refuse.
        timeout: seconds until giving up.

    Raises:
        PathError: there is no such stream or version, or nothing leads to it; nothing was written.
        InvalidArgumentError: the stream is signed, and the key is not one of its keys; nothing was written.
        CommitError: another writer has the line, or it is not known whether the version is committed.
        IntegrityError, FormatError, StoreError, DeadlineExceededError: nothing was committed.
    """
    deadline = Deadline.after(timeout)
    trusted, signing = as_trust(trust), as_signing(signing_key, trust if signing_key is not None else None)
    opened = store if isinstance(store, Store) else open_store(store)
    transfer = Transfer(opened, limits=limits)
    try:
        # First, and apart from opening the line for writing: whatever is wrong with it leaves no trace. RBK-2
        reader = reader_for(transfer, signing, deadline)
        if signing is None and trusted is not None:
            reader = StreamReader(transfer, trusted)
        version = read_version(reader, to, deadline)
        state = spool_version(reader, version, deadline)
        files = read_files(reader, version, deadline)
        with Publisher(
            opened,
            anchors=NEVER,
            single_writer=single_writer,
            signing_key=signing_key,
            co_signers=trust if signing_key is not None else None,
            take_over=take_over,
            parts=parts,
            shard_bytes=shard_bytes,
            limits=limits,
            timeout=deadline.remaining(),
        ) as publisher:
            return publisher.publish(
                EarlierState(state),
                metadata=version.record.metadata if metadata is None else metadata,
                files=files,
                timeout=deadline.remaining(),
            )
    finally:
        transfer.close()
        if opened is not store:
            opened.close()
