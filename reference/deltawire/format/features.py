"""The feature registry (SPEC.md section 16.3) and what this implementation understands."""

from __future__ import annotations

from deltawire.errors import UnsupportedFeatureError, UnsupportedProtocolError

PROTOCOL = "deltawire"
PROTOCOL_VERSION = "0.1"

READER_FEATURES: frozenset[str] = frozenset()
"""Features without which a consumer cannot read; none is defined in version 0.1."""
WRITER_FEATURES: frozenset[str] = frozenset({"absolute"})
"""Features without which a producer must not write: ``absolute`` allows only codecs that need no base."""


def check_protocol(protocol: str, version: str) -> None:
    """Accept any minor version of our major version (VER-1).

    Raises:
        UnsupportedProtocolError: another protocol, or another major version.
    """
    if protocol != PROTOCOL:
        raise UnsupportedProtocolError(f"protocol {protocol[:40]!r} is not {PROTOCOL!r}")
    if version.split(".", maxsplit=1)[0] != PROTOCOL_VERSION.split(".", maxsplit=1)[0]:
        raise UnsupportedProtocolError(f"protocol version {version} cannot be read by a reader of {PROTOCOL_VERSION}")


def check_features(required: tuple[str, ...], known: frozenset[str], *, role: str) -> None:
    """Refuse features that we do not know (VER-2, VER-3).

    Raises:
        UnsupportedFeatureError: naming all of them.
    """
    unknown = sorted(set(required) - known)
    if unknown:
        raise UnsupportedFeatureError(f"this {role} does not know the feature {', '.join(unknown)[:200]}")
