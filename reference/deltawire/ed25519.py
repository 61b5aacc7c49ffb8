"""Ed25519 keys and signatures, by the package ``cryptography``; imported only where keys are used."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path

from deltawire.errors import InvalidArgumentError, MissingDependencyError
from deltawire.format.public_keys import signs_anything

try:
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
except ImportError as error:
    raise MissingDependencyError("signatures need cryptography: pip install 'deltawire[sign]'") from error

_SCHEME = "ed25519:"
_PUBLIC = re.compile(_SCHEME + "[0-9a-f]{64}")
_BEGIN = "-----BEGIN "
_LARGEST = 1 << 16
"""No file of a key is larger, in bytes."""


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A private key."""

    key: str
    """The public key that belongs to it, ``ed25519:<hex>``."""
    private: Ed25519PrivateKey = field(repr=False)

    def sign(self, message: bytes) -> str:
        """Signature of a message, 128 hex digits."""
        return self.private.sign(message).hex()

    def pem(self) -> bytes:
        """The private key as a PKCS8 PEM file, not encrypted."""
        return self.private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )


PrivateKeyLike = str | bytes | PathLike[str] | Ed25519PrivateKey | SigningKey
"""The path of a PKCS8 PEM file, its text, or a key object."""
PublicKeyLike = str | bytes | PathLike[str] | Ed25519PublicKey
"""``ed25519:<hex>``, the path of a PEM file, its text, or a key object."""


def generate() -> SigningKey:
    """A new private key."""
    return _signing_key(Ed25519PrivateKey.generate())


def signing_key(given: PrivateKeyLike) -> SigningKey:
    """Read a private key. Raises InvalidArgumentError."""
    if isinstance(given, SigningKey):
        return given
    if isinstance(given, Ed25519PrivateKey):
        return _signing_key(given)
    what, pem = _pem(given, "a private key")
    try:
        loaded = serialization.load_pem_private_key(pem, password=None)
    except TypeError:
        raise InvalidArgumentError(f"{what} is encrypted", hint="decrypt it, or pass a key object") from None
    except (ValueError, UnsupportedAlgorithm):
        raise InvalidArgumentError(f"{what} is not a private key in PEM", hint=_KEYGEN) from None
    if not isinstance(loaded, Ed25519PrivateKey):
        raise InvalidArgumentError(f"{what} is not an Ed25519 key", hint=_KEYGEN)
    return _signing_key(loaded)


def public_key(given: PublicKeyLike) -> str:
    """Read a public key into the form ``ed25519:<hex>``. Raises InvalidArgumentError."""
    if isinstance(given, Ed25519PublicKey):
        return _fit(_named(given))
    if isinstance(given, str) and given.startswith(_SCHEME):
        if not _PUBLIC.fullmatch(given):
            raise InvalidArgumentError(f"a public key is {_SCHEME} and 64 hex digits in lower case, not {given[:80]!r}")
        return _fit(given)
    what, pem = _pem(given, "a public key")
    if b"PRIVATE KEY-----" in pem:
        raise InvalidArgumentError(f"{what} is a private key, where a public one is meant")
    try:
        loaded = serialization.load_pem_public_key(pem)
    except (ValueError, UnsupportedAlgorithm):
        raise InvalidArgumentError(f"{what} is not a public key in PEM") from None
    if not isinstance(loaded, Ed25519PublicKey):
        raise InvalidArgumentError(f"{what} is not an Ed25519 key")
    return _fit(_named(loaded))


def verify(key: str, value: str, message: bytes) -> bool:
    """Whether ``value``, 128 hex digits, is the signature of a message by ``key``, ``ed25519:<hex>``.

    For keys that ``public_key`` or a decoded record has let through: under others anything may be a signature.
    """
    public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(key.removeprefix(_SCHEME)))
    try:
        public.verify(bytes.fromhex(value), message)
    except InvalidSignature:
        return False
    return True


_KEYGEN = "'deltawire keygen FILE' makes one"


def _signing_key(private: Ed25519PrivateKey) -> SigningKey:
    return SigningKey(_named(private.public_key()), private)


def _fit(key: str) -> str:
    if signs_anything(key):
        raise InvalidArgumentError(f"{key} is a key for which anyone can sign")  # SIG-12
    return key


def _named(public: Ed25519PublicKey) -> str:
    raw = public.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    return _SCHEME + raw.hex()


def _pem(given: object, kind: str) -> tuple[str, bytes]:
    """What to call it, and the bytes of a PEM file that is given as such, as text or by its path."""
    if isinstance(given, bytes):
        return "what was given", given
    if isinstance(given, str) and given.startswith(_BEGIN):
        return "what was given", given.encode()
    if not isinstance(given, (str, PathLike)):
        raise InvalidArgumentError(f"{kind} is given as PEM, as a path or as a key, not as {type(given).__name__}")
    try:
        with Path(given).open("rb") as file:
            return str(given), file.read(_LARGEST)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InvalidArgumentError(f"cannot read {kind} from {str(given)[:200]!r}: {reason}") from None
