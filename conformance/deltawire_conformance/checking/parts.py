"""Parts as Arrow files that general tools open, and their rows."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from deltawire.codecs.registry import CODECS
from deltawire.errors import DeltawireError, ObjectNotFoundError, StoreError
from deltawire.format.records import Delta, Part
from deltawire.format.tensors import TensorTable
from deltawire.limits import DEFAULT_LIMITS
from deltawire.parts.reader import read_batch
from deltawire.parts.rows import Row, part_schema
from deltawire.store.base import Store
from deltawire_conformance.checking.findings import Finding, Severity

_MOST_SCHEMA = 1 << 20
"""Bytes before the first batch that are read as a schema; no schema of this protocol comes near."""


class _Ranges(io.RawIOBase):
    """An object as a file, read range by range."""

    def __init__(self, store: Store, part: Part) -> None:
        self._store, self._key, self._size, self._at = store, part.key, part.bytes, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = max(0, offset + (0, self._at, self._size)[whence])
        return self._at

    def read(self, size: int = -1) -> bytes:
        left = max(0, self._size - self._at)
        length = left if size < 0 else min(size, left)
        data = self._store.get_range(self._key, self._at, length) if length else b""
        self._at += length
        return data


@dataclass
class _Seen:
    """What the rows of a delta have shown."""

    streams: set[str] = field(default_factory=set)
    changed: set[int] = field(default_factory=set)
    last: int = 0
    in_order: bool = True
    codecs: set[str] = field(default_factory=set)

    def take(self, row: Row) -> None:
        self.streams |= row.streams.keys()
        self.changed.add(row.tensor)
        self.in_order = self.in_order and row.tensor >= self.last
        self.last = row.tensor
        self.codecs.add(row.codec)


def file_findings(store: Store, part: Part) -> Iterator[Finding]:
    """Whether a part, whose bytes are those that the record says, is the Arrow file that it must be."""

    def wrong(requirement: str, message: str) -> Finding:
        return Finding(
            requirement=requirement, severity="error", key=part.key, message=message, code="malformed_part"
        )  # fmt: skip

    try:
        schema, batches, version = _open(store, part)
    except ObjectNotFoundError:
        return
    except StoreError:
        raise
    except (pa.ArrowException, DeltawireError, OSError, ValueError) as error:
        yield wrong("PRT-1", f"it is not an Arrow IPC file: {str(error)[:200]}")
        return
    expected = part_schema(part.streams)
    if any(found is not None and not found.equals(expected) for found in schema):
        why = "has dictionary-encoded columns" if _has_dictionary(schema) else "is not that of its columns and streams"
        yield wrong("PRT-6" if "dictionary" in why else "PRT-2", f"its schema {why}")
    if batches != len(part.batches):
        yield wrong("PRT-4", f"it has {batches:,} record batches, and the record describes {len(part.batches):,}")
    if version is not None and version != pa.ipc.MetadataVersion.V5:
        yield wrong("PRT-1", f"its metadata is of version {version.name}, not V5")


def _open(store: Store, part: Part) -> tuple[list[pa.Schema | None], int, pa.ipc.MetadataVersion | None]:
    """Schema of the footer, and that before the first batch; number of batches; version of the metadata."""
    with pa.PythonFile(_Ranges(store, part), mode="r") as file:
        reader = pa.ipc.open_file(file)
        footer, batches = reader.schema, reader.num_record_batches
    length = min(min((batch.offset for batch in part.batches), default=part.bytes), part.bytes, _MOST_SCHEMA) - 8
    if length <= 0:
        return [footer, None], batches, None
    message = pa.ipc.read_message(pa.py_buffer(store.get_range(part.key, 8, length)))
    return [footer, pa.ipc.read_schema(message)], batches, message.metadata_version


def _has_dictionary(schemas: list[pa.Schema | None]) -> bool:
    return any(pa.types.is_dictionary(kind) for schema in schemas if schema is not None for kind in schema.types)


def row_findings(
    store: Store, key: str, delta: Delta, table: TensorTable, *, absolute: bool, ranked: bool
) -> Iterator[Finding]:
    """Whether the rows of a delta are what a producer should write. Reads and decompresses all of them.

    Args:
        store: of the stream.
        key: of the record.
        delta: of which nothing else was found.
        table: of its version.
        absolute: whether the stream has this feature.
        ranked: and this one.
    """

    def say(requirement: str, severity: Severity, where: str, message: str) -> Finding:
        return Finding(requirement=requirement, severity=severity, key=where, message=message)

    changed: set[int] = set()
    for part in delta.parts:
        seen = _Seen()
        try:
            for batch in part.batches:
                data = store.get_range(part.key, batch.offset, batch.bytes)
                for row in read_batch(data, part, batch, table, limits=DEFAULT_LIMITS):
                    seen.take(row)
        except ObjectNotFoundError:
            return
        except StoreError:
            raise
        except DeltawireError:
            return  # found when it was replayed, or of a step that cannot be taken
        changed |= seen.changed
        if absolute and (based := [name for name in sorted(seen.codecs) if CODECS[name].needs_base]):
            yield say("COD-2", "error", part.key, f"a row is in the codec {based[0]}, which needs the base")
        if not ranked and "ranked" in seen.codecs:
            yield say("COD-4", "error", part.key, "a row is in the codec ranked, without the feature of that name")
        if not seen.in_order:
            yield say("PRT-7", "should", part.key, "its rows are not in the order of their ordinals")
        if unused := [name for name in part.streams if name not in seen.streams]:
            yield say("section 8.6", "error", part.key, f"no row needs its stream column {unused[0]}")
    if len(changed) != delta.changed_tensors:
        message = f"changed_tensors is {delta.changed_tensors}, and rows change {len(changed)}"
        yield say("section 8.2", "error", key, message)
