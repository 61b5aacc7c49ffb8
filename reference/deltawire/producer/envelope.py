"""What every record begins with."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Any

from deltawire import __version__
from deltawire.format import features
from deltawire.format.records import Producer


def now() -> str:
    """The time by this machine's clock, as a record holds it; it informs people (REC-5)."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def envelope(
    stream_id: str, kind: str, *, epoch: int, writer_features: tuple[str, ...], metadata: Any = None
) -> dict[str, Any]:
    """The members every record begins with (REC-1), for one logical write."""
    return {
        "protocol": features.PROTOCOL,
        "protocol_version": features.PROTOCOL_VERSION,
        "kind": kind,
        "stream_id": stream_id,
        "commit_id": str(uuid.uuid4()),
        "epoch": epoch,
        "created_at": now(),
        "producer": Producer(name="deltawire-python", version=__version__),
        "reader_features": tuple(name for name in writer_features if name in features.READER_FEATURES),  # STR-4
        "writer_features": writer_features,
        "metadata": metadata or {},
    }
