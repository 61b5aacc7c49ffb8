"""The free metadata of a record, as its producer gives it (SPEC.md section 8.1)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from deltawire.errors import InvalidArgumentError
from deltawire.limits import Limits


def check_metadata(metadata: Mapping[str, Any] | None, limits: Limits) -> None:
    """Refuse metadata that is not JSON or too large. Raises InvalidArgumentError, LimitExceededError."""
    if not _has_names(metadata or {}):
        raise InvalidArgumentError("metadata is not JSON: the members of an object are named by strings")
    try:
        # Stricter than the encoder of records, which turns NaN into null and dates into strings.
        size = len(json.dumps(metadata or {}, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode())
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgumentError(f"metadata is not JSON: {error}") from None
    limits.check("metadata_bytes", size, "metadata")


def _has_names(value: object) -> bool:
    """Whether every mapping within has strings as keys; both encoders would take others, each in its own way."""
    if isinstance(value, Mapping):
        return all(isinstance(key, str) and _has_names(child) for key, child in value.items())
    return not isinstance(value, (list, tuple)) or all(map(_has_names, value))
