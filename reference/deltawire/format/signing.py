"""What of a record is signed, and where its signature stands (SPEC.md section 8.14)."""

from __future__ import annotations

import hashlib
from typing import Protocol

import msgspec

from deltawire.errors import MalformedRecordError
from deltawire.format import records
from deltawire.format.records import Envelope, Signature

CONTEXT = b"deltawire-signature-1\n"
"""What every signed message begins with: a signature made here is of no use elsewhere, nor the other way round."""
BLANK = b"0" * 128
"""What stands in place of the signature while it is made."""


class Signer(Protocol):
    """Whoever holds a private key."""

    @property
    def key(self) -> str:
        """The public key that belongs to it, ``ed25519:<hex>``."""

    def sign(self, message: bytes) -> str:
        """Signature of a message, 128 hex digits."""


def signed_message(data: bytes, value: str, *, what: str) -> bytes:
    """The bytes that the signature ``value`` in the record ``data`` is of. SIG-3, SIG-4

    Raises:
        MalformedRecordError: the digits do not stand in the record at exactly one place.
    """
    digits = value.encode()
    place = data.find(digits)
    if place < 0 or data.find(digits, place + 1) >= 0:
        raise MalformedRecordError(f"{what} does not have the digits of its signature at exactly one place")
    return CONTEXT + data[:place] + BLANK + data[place + len(digits) :]


def encode(record: Envelope, signer: Signer | None) -> bytes:
    """Exact bytes to store for a record, signed if there is a signer. SIG-2"""
    if signer is None:
        return records.encode(record)
    # Its own digest cannot stand in a record: these digits mark the one place of the signature.
    mark = hashlib.sha512(records.encode(record)).hexdigest()
    marked = msgspec.structs.replace(record, signature=Signature(key=signer.key, value=mark))
    data = records.encode(marked)
    value = signer.sign(signed_message(data, mark, what="the record"))
    return data.replace(mark.encode(), value.encode())
