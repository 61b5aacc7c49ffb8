"""``deltawire lease`` and ``deltawire pins``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deltawire.cli.options import AsJson, Timeout, Url
from deltawire.cli.streams import open_reader

if TYPE_CHECKING:
    from deltawire.format.records import LeaseRecord
    from deltawire.reading.pins import StoredPin


def lease(
    url: Url,
    timeout: Timeout = None,
    as_json: AsJson = False,  # noqa: FBT002 - typer makes an option of it
) -> None:
    """Show who holds a stream for writing.

    All times are by the holder's clock. Whether a holder is alive cannot be seen at one look: it is gone if nothing
    renews the lease for as long as its ttl.
    """
    from deltawire.cli.output import print_json  # noqa: PLC0415 - heavy imports wait until a command runs
    from deltawire.deadline import Deadline  # noqa: PLC0415
    from deltawire.reading.leases import read_lease  # noqa: PLC0415

    deadline = Deadline.after(timeout)
    with open_reader(url) as reader:
        stream = reader.stream(deadline)
        found = read_lease(reader, deadline)
    if as_json:
        about = {"url": url, "stream_id": stream.stream_id, "writers": stream.writers}
        print_json(about | _members(found))
    else:
        _print_lease(found, single=stream.writers == "single")


def _members(lease: LeaseRecord | None) -> dict[str, Any]:
    if lease is None:
        names = ("holder", "epoch", "acquired_at", "renewed_at", "ttl_seconds", "released")
        return {"held": False} | dict.fromkeys(names)
    return {
        "held": not lease.released,
        "holder": lease.holder,
        "epoch": lease.epoch,
        "acquired_at": lease.acquired_at,
        "renewed_at": lease.created_at,
        "ttl_seconds": lease.ttl_ms / 1000,
        "released": lease.released,
    }


def _print_lease(lease: LeaseRecord | None, *, single: bool) -> None:
    from deltawire.cli import units  # noqa: PLC0415
    from deltawire.cli.output import print_facts, print_line  # noqa: PLC0415

    if lease is None:
        print_line("one declared writer, and so no lease" if single else "nobody has held this stream yet")
        return
    print_facts(
        {
            "state": "released" if lease.released else "held",
            "holder": lease.holder,
            "epoch": str(lease.epoch),
            "acquired": units.moment(lease.acquired_at),
            "released" if lease.released else "renewed": units.moment(lease.created_at),
            "ttl": f"{lease.ttl_ms / 1000:g} s",
        }
    )


def pins(
    url: Url,
    timeout: Timeout = None,
    as_json: AsJson = False,  # noqa: FBT002 - typer makes an option of it
) -> None:
    """Show which readers have pinned what, so that it is not collected under them.

    All times are by the reader's clock. Whether a reader is alive cannot be seen at one look: it is gone if nothing
    renews its pin for as long as its ttl and a tenth.
    """
    from deltawire.cli.output import print_json  # noqa: PLC0415
    from deltawire.deadline import Deadline  # noqa: PLC0415
    from deltawire.reading.pins import read_pins  # noqa: PLC0415

    deadline = Deadline.after(timeout)
    with open_reader(url) as reader:
        stream = reader.stream(deadline)
        found = read_pins(reader, deadline)
    if as_json:
        print_json({"url": url, "stream_id": stream.stream_id, "pins": [_pin_members(pin) for pin in found]})
    else:
        _print_pins(found)


def _pin_members(pin: StoredPin) -> dict[str, Any]:
    record = pin.record
    if record is None:
        names = ("holder", "first", "last", "acquired_at", "renewed_at", "ttl_seconds", "released")
        return {"id": pin.id} | dict.fromkeys(names) | {"error": pin.error.code if pin.error else None}
    return {
        "id": pin.id,
        "holder": record.holder,
        "first": record.first,
        "last": record.last,
        "acquired_at": record.acquired_at,
        "renewed_at": record.created_at,
        "ttl_seconds": record.ttl_ms / 1000,
        "released": record.released,
        "error": None,
    }


def _print_pins(found: list[StoredPin]) -> None:
    from deltawire.cli import units  # noqa: PLC0415
    from deltawire.cli.output import Column, print_line, print_table  # noqa: PLC0415

    if not found:
        print_line("nobody has pinned anything")
        return
    columns = [
        Column("from", "right"),
        Column("to", "right"),
        Column("pinned"),
        Column("renewed"),
        Column("ttl", "right"),
        Column("state"),
        Column("reader"),
    ]
    rows = []
    for pin in found:
        record = pin.record
        if record is None:
            rows.append(["-", "-", "-", "-", f"{pin.ttl:g} s", "unreadable", f"{pin.id}: {pin.error}"])
            continue
        last = "-" if record.last is None else str(record.last)
        times = [units.moment(record.acquired_at), units.moment(record.created_at)]
        state = "released" if record.released else "held"
        rows.append([str(record.first), last, *times, f"{pin.ttl:g} s", state, record.holder])
    print_table(columns, rows)
