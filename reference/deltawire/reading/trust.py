"""Which signatures a reader demands (SPEC.md section 8.14)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING

from deltawire.errors import BadSignatureError, InvalidArgumentError
from deltawire.format import keys
from deltawire.format.records import Envelope, StreamRecord
from deltawire.format.signing import signed_message

if TYPE_CHECKING:
    from deltawire.ed25519 import PublicKeyLike


@dataclass(frozen=True, slots=True)
class Trust:
    """Public keys that a reader believes, and with them whatever keys a stream lists that one of them signed."""

    keys: frozenset[str] | None
    """Who may say which keys sign a stream; None if the stream itself may, which proves nothing about who wrote it."""
    verify: Callable[[str, str, bytes], bool] = field(repr=False)

    def check_stream(self, stream: StreamRecord, data: bytes) -> None:
        """Check the signature of ``stream.json``. SIG-5

        Raises:
            BadSignatureError: it is not by a trusted key that the stream lists.
            MalformedRecordError: the signature is not in its place.
        """
        if not stream.signing_keys:
            raise BadSignatureError("the stream is not signed")
        allowed = set(stream.signing_keys)
        if self.keys is not None:
            allowed &= self.keys
        self._check(stream, data, allowed, what=keys.STREAM, who="trusted")

    def check(self, record: Envelope, data: bytes, stream: StreamRecord, *, what: str) -> None:
        """Check the signature of a record of a stream. SIG-6

        Raises:
            BadSignatureError: it is not by a key of the stream.
            MalformedRecordError: the signature is not in its place.
        """
        self._check(record, data, stream.signing_keys, what=what, who="one of the stream's")

    def _check(self, record: Envelope, data: bytes, allowed: Collection[str], *, what: str, who: str) -> None:
        signature = record.signature
        if signature is None:
            raise BadSignatureError(f"{what} is not signed")
        message = signed_message(data, signature.value, what=what)
        if signature.key not in allowed:
            raise BadSignatureError(f"{what} is signed by {signature.key}, which is not {who}")
        if not self.verify(signature.key, signature.value, message):
            raise BadSignatureError(f"{what} is not what {signature.key} signed")


def as_trust(trust: Trust | Sequence[PublicKeyLike] | None) -> Trust | None:
    """Make a ``Trust`` of public keys. Raises InvalidArgumentError, MissingDependencyError."""
    if trust is None or isinstance(trust, Trust):
        return trust
    if isinstance(trust, (str, bytes, PathLike)) or not isinstance(trust, Iterable):
        raise InvalidArgumentError(f"trust is a list of public keys, not one of them: {str(trust)[:80]!r}")
    if not trust:
        raise InvalidArgumentError("trust names no public key; None trusts whoever can write to the store")
    from deltawire import ed25519  # noqa: PLC0415 - cryptography is imported where keys are used

    return Trust(frozenset(map(ed25519.public_key, trust)), ed25519.verify)


def trust_own_list() -> Trust:
    """Hold a stream to the keys that it lists itself. Raises MissingDependencyError."""
    from deltawire import ed25519  # noqa: PLC0415 - cryptography is imported where keys are used

    return Trust(None, ed25519.verify)
