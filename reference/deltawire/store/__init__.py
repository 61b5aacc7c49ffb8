"""Where a stream is kept: one protocol, and a binding for each kind of store (SPEC.md section 5).

Importing this package loads no client library; a binding is loaded when it is first named.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from deltawire.store.base import (
    Bytes,
    Guarantees,
    ObjectInfo,
    OpenObject,
    PutMode,
    ReplaceIf,
    Store,
    StoredObject,
    WriteBatch,
    check_key,
)
from deltawire.store.opening import open_store

if TYPE_CHECKING:
    from deltawire.store.generic import FsspecStore
    from deltawire.store.hub import HubStore
    from deltawire.store.local import LocalStore
    from deltawire.store.memory import MemoryStore
    from deltawire.store.probe import ProbeReport, ProbeResult
    from deltawire.store.s3 import S3Store

_LAZY = {
    "FsspecStore": "generic",
    "HubStore": "hub",
    "LocalStore": "local",
    "MemoryStore": "memory",
    "ProbeReport": "probe",
    "ProbeResult": "probe",
    "S3Store": "s3",
}

__all__ = [
    "Bytes",
    "FsspecStore",
    "Guarantees",
    "HubStore",
    "LocalStore",
    "MemoryStore",
    "ObjectInfo",
    "OpenObject",
    "ProbeReport",
    "ProbeResult",
    "PutMode",
    "ReplaceIf",
    "S3Store",
    "Store",
    "StoredObject",
    "WriteBatch",
    "check_key",
    "open_store",
]


def __getattr__(name: str) -> object:
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{module}"), name)
