"""``deltawire log`` and ``deltawire show``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from deltawire.cli.options import AsJson, Timeout, Trusted, Url
from deltawire.cli.streams import WhichVersion, open_reader, parse_version

if TYPE_CHECKING:
    from collections.abc import Callable

    from deltawire.format.records import Origin
    from deltawire.inspecting.history import LogEntry, VersionDetail
    from deltawire.inspecting.tensor_changes import TensorChange

Count = Annotated[int, typer.Option("-n", "--number", metavar="N", min=1, help="How many versions to show.")]
Every = Annotated[bool, typer.Option("--all", "-a", help="Show every tensor that changed, not only the first 20.")]

SHOWN = 20
"""Tensors that ``show`` and ``diff`` list unless asked for all."""


def log(
    url: Url,
    number: Count = 20,
    trust: Trusted = None,
    timeout: Timeout = None,
    as_json: AsJson = False,  # noqa: FBT002 - typer makes an option of it
) -> None:
    """List the versions of a stream, newest first.

    A + behind the kind marks a version that also has an anchor: a full snapshot from which a newcomer can start.
    """
    from deltawire.cli.output import print_json  # noqa: PLC0415 - heavy imports wait until a command runs
    from deltawire.deadline import Deadline  # noqa: PLC0415
    from deltawire.inspecting.history import history  # noqa: PLC0415

    deadline = Deadline.after(timeout)
    with open_reader(url, trust) as reader:
        entries = list(history(reader, limit=number, deadline=deadline))
        stream = reader.stream(deadline)
    if as_json:
        print_json(
            {
                "url": url,
                "stream_id": stream.stream_id,
                "created_at": stream.created_at,
                "writers": stream.writers,
                "features": list(stream.writer_features),
                "signing_keys": list(stream.signing_keys),
                "origin": origin_members(stream.origin),
                "versions": [log_members(entry) for entry in entries],
            }
        )
    else:
        _print_log(entries, stream.origin)


def origin_members(origin: Origin | None) -> dict[str, Any] | None:
    """Where a stream was forked from, as JSON; None if it was not."""
    from msgspec import to_builtins  # noqa: PLC0415

    return None if origin is None else dict(to_builtins(origin))


def origin_text(origin: Origin) -> str:
    """Where a stream was forked from, on one line."""
    return f"version {origin.version} of {origin.url or f'stream {origin.stream_id}'}"


def log_members(entry: LogEntry) -> dict[str, Any]:
    """A version of a history as JSON."""
    record, error = entry.record, entry.error
    members: dict[str, Any] = {"version": entry.version}
    if record is not None:
        members |= {
            "created_at": record.created_at,
            "kind": entry.kind,
            "anchored": entry.anchored,
            "state_digest": record.state_digest,
            "changed_elements": entry.changed_elements,
            "elements": entry.elements,
            "changed_fraction": entry.changed_fraction,
            "data_bytes": entry.data_bytes,
            "record_bytes": entry.record_bytes,
            "state_bytes": entry.state_bytes,
            "bytes_per_changed": entry.bytes_per_changed,
            "times_smaller": entry.times_smaller,
            "rollback_of": None if record.rollback_of is None else record.rollback_of.version,
            "epoch": record.epoch,
            "producer": f"{record.producer.name} {record.producer.version}",
            "metadata": record.metadata,
        }
    if error is not None:
        members["error"] = {"code": error.code, "message": str(error)}
    return members


def _print_log(entries: list[LogEntry], origin: Origin | None) -> None:
    from deltawire.cli import units  # noqa: PLC0415
    from deltawire.cli.output import Column, RunningTable, print_line  # noqa: PLC0415

    if not entries:
        print_line("the stream has no version yet")
        return
    table = RunningTable(
        [
            Column("version", "right", 7),
            Column("when", width=14),
            Column("kind", width=9),
            Column("changed", "right", 8),
            Column("stored", "right", 7),
            Column("B/chg", "right", 5),
            Column("smaller", "right", 7),
        ]
    )
    for entry in entries:
        cells = (
            str(entry.version),
            units.moment(entry.record.created_at) if entry.record else "-",
            (entry.kind or "damaged") + ("+" if entry.anchored else ""),
            units.percent(entry.changed_fraction),
            units.size(None if entry.data_bytes is None else entry.data_bytes + entry.record_bytes),
            units.decimal(entry.bytes_per_changed),
            units.ratio(entry.times_smaller),
        )
        if entry.error is not None:
            table.add(*cells, below=f"{entry.error.code}: {entry.error}", style="red")
        else:
            table.add(*cells, below=_remarks(entry, origin))


def _remarks(entry: LogEntry, origin: Origin | None) -> str:
    """Where a version comes from, if not from training, and its metadata."""
    if entry.record is None:
        return ""
    remarks = [short_metadata(entry.record.metadata)]
    if entry.record.rollback_of is not None:
        remarks.insert(0, f"rollback of version {entry.record.rollback_of.version}")
    if entry.version == 0 and origin is not None:
        remarks.insert(0, f"fork of {origin_text(origin)}")
    return "; ".join(filter(None, remarks))


def short_metadata(metadata: dict[str, Any]) -> str:
    """Free metadata on one line: ``step=12 loss=0.5``."""
    import json  # noqa: PLC0415

    return " ".join(
        f"{key}={value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for key, value in metadata.items()
    )


def show(
    url: Url,
    version: WhichVersion,
    every: Every = False,  # noqa: FBT002 - typer makes options of these
    trust: Trusted = None,
    timeout: Timeout = None,
    as_json: AsJson = False,  # noqa: FBT002
) -> None:
    """Show one version: its record, and what it changed in which tensor.

    The delta is read in full and checked; tensors in which most elements changed come first.
    """
    from deltawire.cli.output import print_json  # noqa: PLC0415 - heavy imports wait until a command runs
    from deltawire.cli.progress import progress  # noqa: PLC0415
    from deltawire.deadline import Deadline  # noqa: PLC0415
    from deltawire.inspecting.history import describe  # noqa: PLC0415

    with open_reader(url, trust) as reader, progress(f"version {version}", None) as advance:
        deadline = Deadline.after(timeout)
        detail = describe(reader, parse_version(version), deadline=deadline, advance=advance)
        origin = reader.stream(deadline).origin if detail.record.version == 0 else None
    if as_json:
        record = detail.record
        print_json(
            log_members(detail.entry)
            | {
                "commit_id": record.commit_id,
                "parent": None if record.parent is None else record.parent.version,
                "origin": origin_members(origin),
                "signed_by": None if record.signature is None else record.signature.key,
                "tensors": len(detail.table.tensors),
                "files": [{"name": file.name, "bytes": file.bytes} for file in record.files],
                "changes": [change_members(change) for change in detail.changes],
            }
        )
    else:
        _print_detail(detail, origin, every=every, trusted=trust is not None)


def shared(changes: tuple[TensorChange, ...]) -> str:
    """Dtype and codec, where all changed tensors have the same: `` (BF16, gap)``."""
    found: list[str] = []
    if len(dtypes := {change.dtype for change in changes}) == 1:
        found += dtypes
    if len(codecs := {change.codecs for change in changes}) == 1:
        found += [",".join(names) for names in codecs if names]
    return f" ({', '.join(found)})" if found else ""


def change_members(change: TensorChange) -> dict[str, Any]:
    """A changed tensor as JSON."""
    return {
        "name": change.name,
        "dtype": change.dtype,
        "shape": list(change.shape),
        "elements": change.elements,
        "changed": change.changed,
        "codecs": list(change.codecs),
        "rows": change.rows,
        "data_bytes": change.data_bytes,
    }


def _print_detail(detail: VersionDetail, origin: Origin | None, *, every: bool, trusted: bool) -> None:
    from deltawire.cli import units  # noqa: PLC0415
    from deltawire.cli.output import print_facts, print_line  # noqa: PLC0415

    record, entry = detail.record, detail.entry
    stored = f"{units.size(entry.data_bytes)}, record {units.size(entry.record_bytes)}"
    if entry.kind == "delta":
        what = f"delta of version {record.version - 1}"
        changed = (
            f"{units.count(entry.changed_elements)} of {units.count(entry.elements)} elements"
            f" ({units.percent(entry.changed_fraction)})"
            f"\nin {len(detail.changes)} of {len(detail.table.tensors)} tensors{shared(detail.changes)}"
        )
        if entry.bytes_per_changed is not None:
            stored += f"; {units.decimal(entry.bytes_per_changed)} B/change"
        stored += f", {units.ratio(entry.times_smaller)} smaller than all"
    else:
        what = "snapshot of the whole state"
        changed = (
            f"{units.count(entry.elements)} elements in {len(detail.table.tensors)} tensors{shared(detail.changes)}"
        )
    facts = {
        "version": f"{record.version} ({what}{'; also has an anchor' if entry.anchored else ''})",
        "when": units.moment(record.created_at),
        "by": f"{record.producer.name} {record.producer.version}, epoch {record.epoch}",
        "changed": changed,
        "stored": stored,
        "state digest": record.state_digest,
    }
    if record.rollback_of is not None:
        facts["rollback of"] = f"version {record.rollback_of.version}"
    if origin is not None:
        facts["fork of"] = origin_text(origin)
    if record.signature is not None:
        facts["signed by"] = record.signature.key + ("" if trusted else " (not checked)")
    if record.files:
        facts["files"] = ", ".join(file.name for file in record.files)
    if record.metadata:
        facts["metadata"] = short_metadata(record.metadata)
    print_facts(facts)
    print_line()
    print_changes(detail.changes, every=every)


def print_changes(changes: tuple[TensorChange, ...], *, every: bool) -> None:
    """Print changed tensors, largest first, with a bar for where the changes are; what all share is left out."""
    from deltawire.cli import units  # noqa: PLC0415
    from deltawire.cli.output import Column, print_line, print_table  # noqa: PLC0415

    if not changes:
        print_line("no tensor changed")
        return
    shown = changes if every else changes[:SHOWN]
    most = max(change.changed for change in changes)
    fields: list[tuple[Column, Callable[[TensorChange], str]]] = [
        (Column("changed", "right"), lambda change: units.count(change.changed)),
        (Column("%", "right"), lambda change: units.percent(change.fraction).removesuffix(" %")),
    ]
    if changes[0].data_bytes is not None:
        fields.append((Column("stored", "right"), lambda change: units.size(change.data_bytes)))
    if len({change.dtype for change in changes}) > 1:
        fields.append((Column("dtype"), lambda change: change.dtype))
    if len({change.codecs for change in changes}) > 1:
        fields.append((Column("codec"), lambda change: ",".join(change.codecs)))
    fields.append((Column(""), lambda change: bar(change.changed, most)))
    fields.append((Column("tensor"), lambda change: change.name))
    print_table([column for column, _ in fields], [[text(change) for _, text in fields] for change in shown])
    if len(shown) < len(changes):
        rest = changes[len(shown) :]
        changed = units.count(sum(change.changed for change in rest))
        print_line(f"... and {len(rest)} more with {changed} changes; --all shows them", style="dim")


def bar(value: int, most: int, *, width: int = 8) -> str:
    """A bar of at most ``width`` characters."""
    return "#" * max(round(width * value / most), 1 if value else 0) if most else ""
