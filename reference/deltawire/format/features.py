"""The feature registry (SPEC.md section 16.3) and what this implementation understands."""

from __future__ import annotations

import re
from typing import Any

from deltawire.errors import MalformedRecordError, UnsupportedFeatureError, UnsupportedProtocolError

PROTOCOL = "deltawire"
PROTOCOL_VERSION = "0.1"

VERSION_STRING = r"(0|[1-9][0-9]{0,3})\.(0|[1-9][0-9]{0,3})"
"""Two numbers, without leading zeros."""

READER_FEATURES: frozenset[str] = frozenset({"ranked"})
"""Features without which a consumer cannot read: ``ranked`` allows the codec of that name."""
WRITER_FEATURES: frozenset[str] = frozenset({"absolute", "ranked", "signed"})
"""Features without which a producer must not write: ``absolute`` allows only codecs that need no base, ``signed`` only
records that are signed."""


def check_protocol_of(value: dict[str, Any], *, what: str) -> None:
    """Accept any minor version of our major version, whatever else the object holds (VER-1).

    Raises:
        MalformedRecordError: it does not say its protocol, or its version.
        UnsupportedProtocolError: another protocol, or another major version.
    """
    protocol, version = value.get("protocol"), value.get("protocol_version")
    if not isinstance(protocol, str):
        raise MalformedRecordError(f"{what} does not say its protocol")
    if protocol != PROTOCOL:
        raise UnsupportedProtocolError(f"protocol {protocol[:40]!r} is not {PROTOCOL!r}")
    if not isinstance(version, str) or not re.fullmatch(VERSION_STRING, version):
        raise MalformedRecordError(f"{what} does not say its version of the protocol")
    if version.split(".", maxsplit=1)[0] != PROTOCOL_VERSION.split(".", maxsplit=1)[0]:
        raise UnsupportedProtocolError(f"a reader of version {PROTOCOL_VERSION} cannot read version {version[:40]!r}")


def check_features(required: tuple[str, ...], known: frozenset[str], *, role: str) -> None:
    """Refuse features that we do not know (VER-2, VER-3).

    Raises:
        UnsupportedFeatureError: naming all of them.
    """
    unknown = sorted(set(required) - known)
    if unknown:
        raise UnsupportedFeatureError(f"this {role} does not know the feature {', '.join(unknown)[:200]}")
