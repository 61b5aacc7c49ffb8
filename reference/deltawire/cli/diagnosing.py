"""``deltawire fsck``."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import typer

from deltawire.cli.options import AsJson, Timeout, Trusted, Url
from deltawire.cli.verifying import FOUND, Deep

if TYPE_CHECKING:
    from collections.abc import Iterable

    from deltawire.inspecting.diagnosis import Diagnosis, Item
    from deltawire.reading.planner import Edge

SHOWN = 10
"""Things of one sort that are listed for people."""


def fsck(
    url: Url,
    deep: Deep = False,  # noqa: FBT002 - typer makes options of these
    trust: Trusted = None,
    timeout: Timeout = None,
    as_json: AsJson = False,  # noqa: FBT002
) -> None:
    """Say what is wrong with a stream, what still works, and what to do about it. Changes nothing.

    Reads all that 'deltawire verify' reads, and looks at every other object under the prefix too: what no record names,
    what is left of versions that are not retained, keys that readers ignore. Ends with 1 if something is damaged.
    """
    from deltawire.cli.output import print_json  # noqa: PLC0415 - heavy imports wait until a command runs
    from deltawire.cli.progress import progress, wanted  # noqa: PLC0415
    from deltawire.inspecting.diagnosis import diagnose  # noqa: PLC0415
    from deltawire.inspecting.verification import bytes_to_verify  # noqa: PLC0415
    from deltawire.store import open_store  # noqa: PLC0415

    store = open_store(url)
    total = bytes_to_verify(store) if wanted() else None
    with progress("fsck", total) as advance:
        found = diagnose(store, deep=deep, trust=trust, timeout=timeout, advance=advance)
    if as_json:
        print_json(_members(found, url))
    else:
        _print(found, url)
    if not found.clean:
        raise typer.Exit(FOUND)


def _members(found: Diagnosis, url: str) -> dict[str, Any]:
    return {
        "url": url,
        "clean": found.clean,
        "deep": found.deep,
        "newest": found.newest,
        "newest_readable": None if found.newest is None else found.way is not None,
        "way": None if found.way is None else [_edge_members(edge) for edge in found.way],
        "boundary": found.boundary,
        "kept": found.kept,
        "unreadable": [list(run) for run in found.unreadable],
        "versions": found.versions,
        "objects": found.objects,
        "bytes": found.bytes,
        "states": found.states,
        "findings": [_item_members(item) for item in found.damage],
        "notes": [_item_members(item) for item in found.notes],
    }


def _edge_members(edge: Edge) -> dict[str, Any]:
    return {"kind": edge.kind, "base": edge.base, "version": edge.target, "bytes": edge.bytes}


def _item_members(item: Item) -> dict[str, Any]:
    members: dict[str, Any] = {
        "class": item.sort,
        "code": item.code,
        "key": item.key,
        "requirement": item.requirement,
        "message": item.message,
        "advice": item.advice,
    }
    if item.bytes is not None:
        when = item.modified_at
        members |= {
            "bytes": item.bytes,
            "modified_at": None if when is None else datetime.fromtimestamp(when, UTC).isoformat(),
        }
    return members


def _print(found: Diagnosis, url: str) -> None:
    from deltawire.cli.output import print_facts, print_line  # noqa: PLC0415

    if found.clean:
        print_line(f"{url} is clean", style="bold green")
    else:
        print_line(f"{url} is damaged: {_counts(found.damage)}", style="bold red")
    print_facts(_facts(found))
    for sort in dict.fromkeys(item.sort for item in found.damage):
        print_line()
        print_line(sort.replace("_", " "), style="bold red")
        _print_damage([item for item in found.damage if item.sort == sort])
    for sort in dict.fromkeys(item.sort for item in found.notes):
        items = [item for item in found.notes if item.sort == sort]
        print_line()
        print_line(f"{sort.replace('_', ' ')} ({_totals(items)}; breaks nothing)", style="bold")
        _print_notes(items)


def _counts(items: list[Item]) -> str:
    sorts = [item.sort for item in items]
    return ", ".join(f"{sorts.count(sort)} {sort.replace('_', ' ')}" for sort in dict.fromkeys(sorts))


def _facts(found: Diagnosis) -> dict[str, str]:
    from deltawire.cli import units  # noqa: PLC0415

    if found.stopped_by is not None:
        newest = f"NO VERSION CAN BE READ: {found.stopped_by} keeps every reader out"
    elif found.newest is None:
        newest = "the stream has no version yet"
    elif found.way is None:
        newest = f"version {found.newest} CANNOT BE READ"
    else:
        newest = f"version {found.newest} can be read: {_way_text(found.way)}"
    facts = {"newest": newest}
    if found.boundary:
        kept = f", and {len(found.kept):,} kept before it" if found.kept else ""
        facts["retained"] = f"from version {found.boundary} on{kept}"
    if found.unreadable:
        runs = [str(first) if first == last else f"{first} to {last}" for first, last in found.unreadable]
        more = f" and {len(runs) - SHOWN} more runs" if len(runs) > SHOWN else ""
        one = len(runs) == 1 and found.unreadable[0][0] == found.unreadable[0][1]
        facts["not readable"] = f"version{'' if one else 's'} {', '.join(runs[:SHOWN])}{more}"
    facts["looked at"] = (
        f"{units.plural(found.versions, 'version')}, {units.plural(found.objects, 'data object')}"
        f" ({units.size(found.bytes)})"
    )
    facts["looked at"] += (
        f", {units.plural(found.states, 'state')} rebuilt" if found.deep else "; not rebuilt: --deep does"
    )
    return facts


def _way_text(way: list[Edge]) -> str:
    """``the anchor of version 4, 1 span, 3 deltas (1.2 MB)``."""
    from deltawire.cli import units  # noqa: PLC0415
    from deltawire.inspecting.advice import edge_text  # noqa: PLC0415

    kinds = [edge.kind for edge in way[1:]]
    later = [units.plural(kinds.count(kind), kind) for kind in dict.fromkeys(kinds)]
    return f"{', '.join([edge_text(way[0]), *later])} ({units.size(sum(edge.bytes for edge in way))})"


def _print_damage(items: list[Item]) -> None:
    """Each thing with its code and what to do; the same advice for many is given once."""
    from deltawire.cli.output import print_line  # noqa: PLC0415

    for place, item in enumerate(items[:SHOWN]):
        rule = f" ({item.requirement})" if item.requirement else ""
        print_line(f"  {item.key}")
        print_line(f"      {item.code}{rule}: {item.message.removeprefix(item.key).lstrip()}")
        if place + 1 == len(items[:SHOWN]) or items[place + 1].advice != item.advice:
            print_line(f"      -> {item.advice}", style="cyan")
    _print_more(len(items))


def _print_notes(items: list[Item]) -> None:
    """Objects by folder, others one by one; the same advice for many is given once."""
    from deltawire.cli import units  # noqa: PLC0415
    from deltawire.cli.output import Column, print_line, print_table  # noqa: PLC0415

    plain = [item for item in items if item.bytes is None]
    if items[0].sort == "unretained":  # the folders say the same over again
        print_line(f"  {units.plural(len(plain), 'record')}, {units.plural(len(items) - len(plain), 'data object')}")
        items, plain = items[:1], []
    for item in plain[:SHOWN]:
        print_line(f"  {item.message}" if item.key in item.message else f"  {item.key}: {item.message}")
    _print_more(len(plain))
    places: dict[str, list[Item]] = {}
    for item in items:
        if item.bytes is not None:
            places.setdefault(_place(item), []).append(item)
    now = time.time()
    rows = []
    for place, inside in list(places.items())[:SHOWN]:
        newest = max((item.modified_at for item in inside if item.modified_at is not None), default=None)
        size = units.size(sum(item.bytes or 0 for item in inside))
        rows.append([f"  {len(inside):,}", size, units.age(None if newest is None else now - newest), place])
    if rows:
        columns = [Column("  objects", "right"), Column("bytes", "right"), Column("age", "right"), Column("where")]
        print_table(columns, rows)
    _print_more(len(places))
    for todo in dict.fromkeys(item.advice for item in items):
        print_line(f"      -> {todo}", style="cyan")


def _place(item: Item) -> str:
    """The data folder of an object; the key of any other."""
    from deltawire.inspecting.inventory import folder_version  # noqa: PLC0415

    return "/".join(item.key.split("/")[:2]) + "/" if folder_version(item.key) is not None else item.key


def _totals(items: Iterable[Item]) -> str:
    from deltawire.cli import units  # noqa: PLC0415

    sizes = [item.bytes for item in items]
    known = [size for size in sizes if size is not None]
    return f"{len(sizes):,}, {units.size(sum(known))}" if known else f"{len(sizes):,}"


def _print_more(count: int) -> None:
    from deltawire.cli.output import print_line  # noqa: PLC0415

    if count > SHOWN:
        print_line(f"  ... and {count - SHOWN:,} more; --json lists all", style="dim")
