"""Where a record may point: its own data folder, and what its parent names (SPEC.md sections 6, 8.7 and 8.8)."""

from __future__ import annotations

from collections.abc import Iterable

from deltawire.errors import BrokenChainError
from deltawire.format import keys
from deltawire.format.records import (
    BINARY_TYPE,
    JSON_TYPE,
    AnchorRecord,
    Descriptor,
    SpanRecord,
    VersionRecord,
    named_by,
)


def check_folder(record: VersionRecord | AnchorRecord | SpanRecord, others: Iterable[Descriptor]) -> None:
    """A record names objects in its own data folder, and of others only some. KEY-9. Raises BrokenChainError."""
    own, allowed = keys.data_prefix(record.version, record.commit_id), {other.key for other in others}
    for descriptor in named_by(record):
        if not descriptor.key.startswith(own) and descriptor.key not in allowed:
            raise BrokenChainError(f"{descriptor.key} is another write's, and not for this {record.kind} to name")


def check_beside(record: AnchorRecord | SpanRecord, version: VersionRecord) -> None:
    """An anchor or a span has the very tensor table of its version, and else its own folder. KEY-9

    Raises:
        BrokenChainError: it has not.
    """
    check_folder(record, (version.tensors,))
    if record.tensors != version.tensors:
        raise BrokenChainError(f"the {record.kind} has a tensor table of its own")


def check_files(record: VersionRecord, parent: VersionRecord | None) -> None:
    """Auxiliary files are stored under their names, or stay where the parent has them. FIL-1

    Args:
        record: of a version.
        parent: the version before; None if it is not there, and then less can be said.

    Raises:
        BrokenChainError: one is somewhere else, or is said to be of another media type.
    """
    before = {} if parent is None else {(file.name, file.digest): file for file in parent.files}
    whole = record.snapshot is not None
    own = (
        keys.data_prefix(record.version, record.commit_id)
        if whole
        else keys.files_prefix(record.version, record.commit_id)
    )
    for file in record.files:
        if file.media_type != (JSON_TYPE if file.name.endswith(".json") else BINARY_TYPE):
            raise BrokenChainError(f"file {file.name} is said to be {file.media_type[:80]}")
        known = None if whole else before.get((file.name, file.digest))
        if known is not None and file != known:
            raise BrokenChainError(f"file {file.name} is its parent's, but is looked for elsewhere: {file.key}")
        named_here = file.key == own + file.name
        named_before = not whole and parent is None and file.key.endswith("/" + file.name)
        if known is None and not named_here and not named_before:
            raise BrokenChainError(f"file {file.name} is not stored under its name, but as {file.key}")


def check_snapshot_names(record: VersionRecord | AnchorRecord) -> None:
    """Shards, index and files of a snapshot lie side by side under the names that other tools expect. SNP-2

    Raises:
        BrokenChainError: one has another name.
    """
    snapshot, own = record.snapshot, keys.data_prefix(record.version, record.commit_id)
    if snapshot is None:
        return
    count = len(snapshot.shards)
    expected = {own + keys.shard_name(place, count): shard.key for place, shard in enumerate(snapshot.shards, 1)}
    expected[own + keys.SHARD_INDEX] = snapshot.index.key
    expected |= {own + file.name: file.key for file in snapshot.files}
    for wanted, key in expected.items():
        if key != wanted:
            raise BrokenChainError(f"{key} is not called {wanted.removeprefix(own)}")


def check_copies(record: VersionRecord) -> None:
    """A snapshot lists the files of its version. SNP-6. Raises BrokenChainError."""
    if record.snapshot is not None and set(record.snapshot.files) != set(record.files):
        raise BrokenChainError("the snapshot does not list the files of its version")
