"""The journal of a directory target: absolute changes, written before any of them is made.

An Arrow IPC file: one row a change, batches of a few MiB, so that writing it costs neither a second copy of the changes
nor a limit to their number. Each row has a checksum; the rest is in the schema's metadata.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from deltawire.format.dtypes import Bits
from deltawire.limits import MIB
from deltawire.store.posix_files import sync_folder, temporary
from deltawire.targets.base import Indices

_BATCH_BYTES = 8 * MIB
_MEMBERS, _CRC = b"journal", b"crc"
_BINARY = ("where", "new")
_SCHEMA = pa.schema(
    [
        pa.field("name", pa.utf8(), nullable=False),
        pa.field("start", pa.int64()),
        pa.field("stop", pa.int64()),
        pa.field("where_width", pa.uint8(), nullable=False),
        pa.field("where", pa.large_binary(), nullable=False),
        pa.field("new_width", pa.uint8(), nullable=False),
        pa.field("new", pa.large_binary(), nullable=False),
        pa.field("crc", pa.uint32(), nullable=False),
    ]
)


@dataclass(frozen=True, kw_only=True)
class Journal:
    """One update of a directory."""

    changes: Sequence[tuple[str, Indices | slice, Bits]]
    """Tensor name, flat indices, new bits."""
    files: dict[str, bytes] = field(default_factory=dict)
    """Auxiliary files to write."""
    removed: Sequence[str] = ()
    """Auxiliary files to remove."""
    held: dict[str, object]
    """What the directory holds afterwards."""


def write_journal(journal: Journal, path: Path) -> None:
    """Make a journal appear at ``path``, whole and durable."""
    members = {
        "changes": len(journal.changes),
        "files": len(journal.files),
        "removed": list(journal.removed),
        "held": journal.held,
    }
    text = json.dumps(members).encode()
    schema = _SCHEMA.with_metadata({_MEMBERS: text, _CRC: b"%d" % zlib.crc32(text)})
    with temporary(path.parent) as new:
        with pa.ipc.new_file(new.file, schema) as writer:
            for rows in _batches(journal):
                writer.write_batch(pa.RecordBatch.from_pylist(rows, schema=schema))
        new.flush()
        new.path.replace(path)
    sync_folder(path.parent)


def read_journal(path: Path) -> Journal:
    """Read a journal that ``write_journal`` finished; its arrays are mapped from the file.

    Raises:
        ValueError: it is damaged.
    """
    try:
        with pa.memory_map(str(path)) as mapped:
            reader = pa.ipc.open_file(mapped)
            text, crc = (reader.schema.metadata[name] for name in (_MEMBERS, _CRC))
            batches = [reader.get_batch(index) for index in range(reader.num_record_batches)]
        if any(batch.schema != _SCHEMA for batch in batches):
            raise ValueError("its journal has other columns")
        for batch in batches:
            batch.validate(full=True)
    except (pa.ArrowException, OSError, TypeError) as error:
        raise ValueError(f"its journal cannot be read: {error}") from None
    if crc != b"%d" % zlib.crc32(text):
        raise ValueError("what its journal says of itself is damaged")
    members = json.loads(text)
    rows = [row for batch in batches for row in _rows(batch)]
    count = members["changes"]
    if len(rows) != count + members["files"]:
        raise ValueError("its journal has lost changes")
    return Journal(
        changes=rows[:count],
        files={name: new.tobytes() for name, _, new in rows[count:]},
        removed=members["removed"],
        held=members["held"],
    )


def _batches(journal: Journal) -> Iterator[list[dict[str, Any]]]:
    """Rows of the changes, then of the files, a few MiB at a time."""
    rows: list[dict[str, Any]] = []
    size = 0
    files = [(name, slice(0, len(data)), np.frombuffer(data, np.uint8)) for name, data in journal.files.items()]
    for name, where, new in [*journal.changes, *files]:
        row = _row(name, where, new)
        rows.append(row)
        size += len(row["where"]) + len(row["new"])
        if size >= _BATCH_BYTES:
            yield rows
            rows, size = [], 0
    if rows:
        yield rows


def _row(name: str, where: Indices | slice, new: Bits) -> dict[str, Any]:
    bounds = (where.start, where.stop) if isinstance(where, slice) else (None, None)
    indices = b"" if isinstance(where, slice) else where.tobytes()
    bits = new.tobytes()
    row = {
        "name": name,
        "start": bounds[0],
        "stop": bounds[1],
        "where_width": 0 if isinstance(where, slice) else where.itemsize,
        "where": indices,
        "new_width": new.itemsize,
        "new": bits,
    }
    return row | {"crc": _crc(row)}


def _crc(row: Mapping[str, Any]) -> int:
    """Checksum of all that a row says."""
    rest = json.dumps([row[name] for name in ("name", "start", "stop", "where_width", "new_width")])
    return zlib.crc32(row["new"], zlib.crc32(row["where"], zlib.crc32(rest.encode())))


def _rows(batch: pa.RecordBatch) -> Iterator[tuple[str, Indices | slice, Bits]]:
    for index in range(batch.num_rows):
        cells = {name: batch.column(name)[index] for name in batch.schema.names}
        row = {name: cell.as_buffer() if name in _BINARY else cell.as_py() for name, cell in cells.items()}
        if _crc(row) != row["crc"]:
            raise ValueError("a change in its journal is damaged")
        width = row["where_width"]
        place = _array(row["where"], width) if width else slice(row["start"], row["stop"])
        yield row["name"], place, _array(row["new"], row["new_width"])


def _array(buffer: pa.Buffer, width: int) -> Bits:
    if width not in (1, 2, 4, 8) or buffer.size % width:
        raise ValueError(f"its journal has elements of {width} bytes")
    return np.frombuffer(buffer, f"<u{width}")
