"""Snapshots as files that other tools load: the order within a shard, and the index beside it."""

from __future__ import annotations

from collections.abc import Iterator

from deltawire.errors import DeltawireError, ObjectNotFoundError, StoreError
from deltawire.format import strict_json
from deltawire.format.records import Shard, Snapshot
from deltawire.format.tensors import TensorTable
from deltawire.limits import DEFAULT_LIMITS
from deltawire.snapshots.header import Entry, file_order, parse_header
from deltawire.store.base import Store
from deltawire_conformance.checking.findings import Finding

_INDEX = "section 8.7"


def snapshot_findings(store: Store, snapshot: Snapshot, table: TensorTable, broken: set[str]) -> Iterator[Finding]:
    """Look at what readers of this protocol do not need, and others do.

    Args:
        store: of the stream.
        snapshot: in whose shards nothing was found but in ``broken``.
        table: of its version.
        broken: keys of objects that are not what their record says.
    """
    files: dict[str, str] = {}
    total = 0
    for shard in snapshot.shards:
        if shard.key in broken:
            return
        try:
            header = store.get_range(shard.key, 0, shard.header_bytes)
            entries = parse_header(header, shard.bytes, limits=DEFAULT_LIMITS).entries
        except ObjectNotFoundError:
            return
        except StoreError:
            raise
        except DeltawireError:
            return  # found already
        yield from _order(shard, header, entries, table)
        files |= {entry.name: shard.key.rpartition("/")[2] for entry in entries}
        total += sum(entry.end - entry.begin for entry in entries)
    if snapshot.index.key not in broken:
        yield from _index(store, snapshot, files, total)


def _order(shard: Shard, header: bytes, entries: tuple[Entry, ...], table: TensorTable) -> Iterator[Finding]:
    """SNP-4. An entry without bytes may stand anywhere: no file shows where it lies."""
    wanted = [
        tensor.name for tensor in file_order(table.tensors[shard.first_tensor : shard.last_tensor + 1]) if tensor.bytes
    ]
    found = [entry.name for entry in entries if entry.end > entry.begin]
    if found != wanted:
        message = "its tensors are not in the order of descending width and of their ordinals"
        yield Finding(requirement="SNP-4", severity="error", key=shard.key, message=message)
    padding = header[len(header.rstrip(b" \t\r\n")) :]
    if len(header) % 8 or padding.strip(b" "):
        message = "its header is not padded with spaces to a multiple of 8 bytes"
        yield Finding(requirement="SNP-4", severity="error", key=shard.key, message=message)


def _index(store: Store, snapshot: Snapshot, files: dict[str, str], total: int) -> Iterator[Finding]:
    key = snapshot.index.key

    def wrong(message: str) -> Finding:
        return Finding(requirement=_INDEX, severity="error", key=key, message=message)

    try:
        data = store.get(key, max_bytes=DEFAULT_LIMITS.table_bytes).data
        index = strict_json.parse(data, what=key, limits=DEFAULT_LIMITS)
    except ObjectNotFoundError:
        return
    except StoreError:
        raise
    except DeltawireError as error:
        yield wrong(str(error).removeprefix(key).lstrip(": "))
        return
    metadata, weights = index.get("metadata"), index.get("weight_map")
    if not isinstance(metadata, dict) or metadata.get("total_size") != total:
        yield wrong(f"metadata.total_size is not {total:,}, the bytes of all tensors")
    if weights != files:
        yield wrong("weight_map does not say of every tensor, and of no other, in which shard it is")
