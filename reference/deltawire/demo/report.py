"""The result of a run: a table of versions, a summary in words, or all of it as JSON."""

from __future__ import annotations

from typing import Any

import msgspec
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from deltawire.cli import units
from deltawire.demo.director import Plan
from deltawire.demo.display import path_in_words
from deltawire.demo.evidence import (
    FOLLOWER,
    INT32_BF16_BYTES,
    LATE_JOINER,
    Evidence,
    bytes_per_changed,
    times_smaller,
)

_WIDE = 110
"""Columns from which digests and headings are shown whole."""


def versions_table(evidence: Evidence, *, wide: bool) -> Table:
    """One row a version."""
    table = Table(
        box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1 if wide else 0), header_style="bold"
    )
    narrow_headings = ("ver", "bytes/\nchange", "follow-\ners")
    first, each, last = ("version", "bytes per\nchanged", "followers") if wide else narrow_headings
    for heading in (first, "changed\n%", "bytes\nstored", each, "times\nsmaller"):
        table.add_column(heading, justify="right", no_wrap=True)
    for heading in ("publish", "fetch", "decode", "apply"):
        table.add_column(f"{heading}\nms", justify="right", no_wrap=True)
    for heading in ("state\ndigest", last):
        table.add_column(heading, no_wrap=True)
    for version in range(evidence.steps + 1):
        table.add_row(*_row(evidence, version, wide=wide))
    return table


def _row(evidence: Evidence, version: int, *, wide: bool) -> list[str]:
    done, held = evidence.committed.get(version), evidence.verified[FOLLOWER].get(version)
    cells = [str(version)]
    if done is None:
        cells += ["-"] * 5
    else:
        delta = version > 0
        each = bytes_per_changed([done]) if delta else None
        cells += [
            f"{100 * done.changed_elements / max(1, done.elements):.2f}" if delta else "all",
            units.size(done.stored_bytes),
            "-" if each is None else f"{each:.3f}",
            f"{times_smaller([done]):,.0f}" if delta else "-",
            _milliseconds(done.publish_seconds),
        ]
    if held is None or held.resumed:
        cells += ["-"] * 3  # a version finished after a crash was not timed
    else:
        cells += [
            _milliseconds(held.fetch_seconds),
            _milliseconds(held.decode_seconds),
            _milliseconds(held.apply_seconds),
        ]
    digests = evidence.digests(version)
    digest = "-" if done is None else done.trainer_digest
    cells.append(digest if wide else digest[:8])
    holders = sum(1 for who in (FOLLOWER, LATE_JOINER) if digests.get(who) is not None)
    cells.append(f"[green]✓[/] {holders}" if evidence.agrees(version) else "[bold red]DIFFERS[/]")
    return cells


def summary(evidence: Evidence, plan: Plan, seconds: float) -> list[str]:
    """What the run showed, in plain sentences."""
    deltas, versions = evidence.deltas, evidence.steps + 1
    lines = []
    if deltas:
        stored, full = sum(one.stored_bytes for one in deltas), sum(one.state_bytes for one in deltas)
        lines.append(
            f"{times_smaller(deltas):,.0f} times smaller than full models: {len(deltas)} steps took "
            f"{units.size(stored)} instead of {units.size(full)}."
        )
    if (each := bytes_per_changed(deltas)) is not None:
        lines.append(
            f"{each:.3f} bytes per changed element, framing and records included; "
            f"int32 positions and bf16 values take {INT32_BF16_BYTES:.1f}."
        )
    agreed = sum(evidence.agrees(version) for version in range(versions))
    lines.append(
        f"Digests agree at {agreed} of {versions} versions: torch on the trainer's own tensors, "
        "each version's record, and every follower over all it holds."
    )
    if (resumed := evidence.resumed) is not None:
        journal = evidence.killed_half_done
        how = "it finished that version from its journal" if journal else f"it held version {resumed.version}"
        after = [one for one in evidence.verified[FOLLOWER].values() if one.version > resumed.version]
        lines.append(
            f"The follower killed at version {plan.kill_at} lost nothing: started again, {how}, then fetched only "
            f"{units.size(sum(one.bytes_fetched for one in after))} of deltas."
        )
    joined = evidence.joined_at
    if joined is not None:
        first = evidence.verified[LATE_JOINER][joined]
        lines.append(
            f"The late joiner fetched {path_in_words(first)}, {units.size(first.bytes_fetched)}, "
            f"and was at version {joined} in {_total(first):.1f} s."
        )
    if evidence.trained is not None and evidence.trained == evidence.followed:
        lines.append("transformers loads the followed directory as it is; its embedding is the trainer's, bit for bit.")
    lines.append(f"Everything took {seconds:.0f} s.")
    return lines


def print_report(console: Console, evidence: Evidence, plan: Plan, seconds: float) -> None:
    """Show the table, the summary and what differs."""
    differences = evidence.differences()
    lines = Table.grid(padding=(0, 1))
    for line in summary(evidence, plan, seconds):
        lines.add_row("•", escape(line))
    for line in differences:
        lines.add_row("[bold red]✗[/]", escape(line))
    if not differences:
        lines.add_row("[bold green]✓[/]", "[bold green]Every version arrived bit for bit.[/]")
    console.print()
    console.print(versions_table(evidence, wide=console.width >= _WIDE))
    console.print()
    console.print(lines)


def as_json(evidence: Evidence, plan: Plan, seconds: float) -> dict[str, Any]:
    """The same for programs. Sizes in bytes, times in seconds."""
    versions = []
    for version in range(evidence.steps + 1):
        done = evidence.committed.get(version)
        proofs = {who: reports[version] for who, reports in evidence.verified.items() if version in reports}
        versions.append(
            {
                "version": version,
                "agrees": evidence.agrees(version),
                "published": None if done is None else msgspec.to_builtins(done),
                "bytes_per_changed_element": bytes_per_changed([done]) if done is not None and version else None,
                "times_smaller": times_smaller([done]) if done is not None and version else None,
                "followers": {who.replace(" ", "_"): msgspec.to_builtins(proof) for who, proof in proofs.items()},
            }
        )
    return {
        "ok": not evidence.differences(),
        "differences": evidence.differences(),
        "model": plan.checkpoint.name,
        "store": plan.store,
        "steps": plan.steps,
        "lr": plan.lr,
        "bytes_per_changed_element": bytes_per_changed(evidence.deltas),
        "times_smaller": times_smaller(evidence.deltas),
        "killed_at": plan.kill_at,
        "killed_half_done": evidence.killed_half_done,
        "joined_at": evidence.joined_at,
        "seconds": seconds,
        "versions": versions,
    }


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1000:,.0f}" if seconds >= 0.01 else f"{seconds * 1000:.1f}"


def _total(report: Any) -> float:
    return float(report.resolve_seconds + report.fetch_seconds + report.decode_seconds + report.apply_seconds)
