"""Writing to a signed stream (SPEC.md section 8.14)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING

from deltawire.deadline import Deadline
from deltawire.errors import BadSignatureError, InvalidArgumentError
from deltawire.format import signing
from deltawire.format.records import Envelope, StreamRecord
from deltawire.format.signing import Signer
from deltawire.reading.stream import StreamReader
from deltawire.reading.transfer import Transfer
from deltawire.reading.trust import Trust, as_trust

if TYPE_CHECKING:
    from deltawire.ed25519 import PrivateKeyLike, PublicKeyLike


@dataclass(frozen=True, slots=True)
class Signing:
    """The key that a writer signs with, and the public keys of others who sign the same stream."""

    signer: Signer
    keys: tuple[str, ...]
    """All of them, the signer's first: what a new stream lists."""
    trust: Trust
    """What the writer demands when it reads the stream back. SIG-9"""


def as_signing(signing_key: PrivateKeyLike | None, co_signers: Sequence[PublicKeyLike] | None) -> Signing | None:
    """How to sign; None if nothing is to be signed. Raises InvalidArgumentError, MissingDependencyError."""
    if signing_key is None:
        if co_signers:
            raise InvalidArgumentError("co_signers are of use only with a signing_key")
        return None
    if isinstance(co_signers, (str, bytes, PathLike)) or not isinstance(co_signers, Iterable | None):
        raise InvalidArgumentError(f"co_signers is a list of public keys, not one of them: {str(co_signers)[:80]!r}")
    from deltawire import ed25519  # noqa: PLC0415 - cryptography is imported where keys are used

    signer = ed25519.signing_key(signing_key)
    keys = tuple(dict.fromkeys([signer.key, *map(ed25519.public_key, co_signers or ())]))
    trust = as_trust(keys)
    assert trust is not None  # noqa: S101 - there are keys
    return Signing(signer, keys, trust)


def encode(record: Envelope, how: Signing | None) -> bytes:
    """Exact bytes to store for a record of a stream that is signed like this, or is not. SIG-2"""
    return signing.encode(record, None if how is None else how.signer)


def check_signing(stream: StreamRecord, how: Signing | None) -> None:
    """Whether one can write to a stream at all. SIG-9

    Raises:
        InvalidArgumentError: it is signed and one has no key or another, or it is not signed.
    """
    if how is None and stream.signing_keys:
        raise InvalidArgumentError(
            "the stream is signed: writing to it needs a key", hint="give the private key (signing_key=, --sign-key)"
        )
    if how is not None and not stream.signing_keys:
        raise InvalidArgumentError("the stream was not created as signed", hint="a fork of it can be signed")
    if how is not None and how.signer.key not in stream.signing_keys:
        raise InvalidArgumentError(f"{how.signer.key} is not among the keys that may sign this stream")


def reader_for(transfer: Transfer, how: Signing | None, deadline: Deadline) -> StreamReader:
    """A reader of the stream that one is about to write to. SIG-9

    Raises:
        StreamNotFoundError: there is none.
        InvalidArgumentError: one cannot write to it.
        BadSignatureError: it is not by a key that one trusts.
    """
    reader = StreamReader(transfer)
    check_signing(reader.stream(deadline), how)
    if how is None:
        return reader
    reader = StreamReader(transfer, how.trust)
    try:
        reader.stream(deadline)
    except BadSignatureError as error:
        raise BadSignatureError(str(error), hint=_CREATOR) from None
    return reader


_CREATOR = "if another key created the stream, name its public key too (co_signers=, --co-signer, --trust)"
