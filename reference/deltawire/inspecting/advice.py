"""What an operator does about a thing that was found, in one sentence (SPEC.md section 11.8)."""

from __future__ import annotations

import bisect
from collections.abc import Iterable

from deltawire.inspecting.findings import Role, Trouble, Use, versions_text
from deltawire.inspecting.ways import Ways
from deltawire.reading.planner import Edge

MAINTAIN = "'deltawire maintain {} --once'"


class Adviser:
    """Knows what still can be read of a stream.

    Args:
        url: of the stream.
        ways: the steps that are not damaged.
        unreadable: first and last of each run of retained versions that cannot be read.
    """

    def __init__(self, url: str, ways: Ways, unreadable: list[tuple[int, int]]) -> None:
        self._url = url
        self._reached = sorted(ways.reached())
        self._last_steps = ways.last_steps()
        self._unreadable = unreadable

    def about(self, trouble: Trouble, digest: str | None) -> str:
        """What to do about a finding; ``digest`` is the sha256 that the object should have, if that is known."""
        code, uses = trouble.finding.code, trouble.uses
        use = min(uses, key=lambda use: _GRAVITY[use.role])
        if use.role == "stream":
            return STRANGER if code == "bad_signature" else STREAM
        if use.role == "retention":
            return RETENTION
        if code.startswith("unsupported"):
            return "use a newer deltawire, which may know what this one does not"
        if trouble.usable:
            return "nothing has to be done: what readers fetch of it is whole"
        if use.role == "way":
            return self.about_run(use.version, use.end)
        put_back = "put back a copy" + (f" (sha256 {digest.removeprefix('sha256:')[:16]}...)" if digest else "")
        if code == "bad_signature":
            put_back = f"it is not what whoever holds the stream's key wrote: {put_back}"
        inherent = use.kind is not None and use.role in {"version", "anchor", "span"}
        if inherent:  # all bytes are those of the records, but what they say together is wrong
            put_back = "it was published like this, so that no copy helps"
        original = code == "broken_chain" and use.role == "version"
        if original:
            put_back = "this record or one that it follows from is not what was committed: put back the original"
        if hit := sorted({run for use in uses for run in self._unreadable if _needed(use, run)}):
            return f"{put_back}{'; ' if inherent else '; without it '}{_runs_text(hit)} cannot be read"
        return put_back if original else self._about_spared(use, uses, put_back)

    def about_run(self, first: int, last: int) -> str:
        """What to do about versions that cannot be read, or that lack the snapshot they should have."""
        if (first, last) not in self._unreadable:
            return f"readers still get there over {self._way_in(first)}; keep what that way needs"
        later = bisect.bisect_right(self._reached, last)
        if later < len(self._reached):
            passed = f"readers that come from before go over {self._way_in(self._reached[later])}"
            return f"leave it if nobody needs {versions_text(first, last)}: {passed}"
        if not self._reached:
            return "nothing can be read: put back copies of what is named below"
        return (
            "put back copies of what is named below, or wait for the next anchor of a producer that still runs, or go"
            f" on from the newest version that can be read: 'deltawire fork {self._url}@{self._reached[-1]} DST'"
        )

    def _about_spared(self, use: Use, uses: tuple[Use, ...], put_back: str) -> str:
        """What to do about an object that keeps nobody from any version's weights."""
        if use.role in {"index", "copy"}:
            return "readers do not need it; put back a copy if other tools open this folder as a checkpoint"
        if use.role == "file":
            runs = [(use.version, use.end) for use in uses if use.role == "file"]
            runs = [run for run in runs if not any(a <= run[0] and run[1] <= b for a, b in self._unreadable)]
            limits = f"; without it {_runs_text(runs)} can be read into memory, but not into a directory"
            return put_back + (limits if runs else "")
        if use.kind == "span" or use.role == "span":
            return "nothing has to be done: readers take the deltas that it stands for"
        if use.version not in self._last_steps:
            return put_back
        spared = f"nothing has to be done: readers reach version {use.version} over {self._way_in(use.version)}"
        anchor = use.kind == "anchor" or use.role == "anchor"
        return f"{spared}; {MAINTAIN.format(self._url)} makes a newer anchor" if anchor else spared

    def _way_in(self, version: int) -> str:
        step = self._last_steps.get(version)
        return "another way" if step is None else edge_text(step)


def edge_text(edge: Edge) -> str:
    """``the anchor of version 4``, ``the delta from version 3``."""
    if edge.base is None:
        return f"the {edge.kind} of version {edge.target}"
    return f"the {edge.kind} from version {edge.base}"


def merge_runs(runs: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Runs of numbers, those that touch or overlap as one."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(runs):
        if found and first <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(last, found[-1][1])
        else:
            found.append((first, last))
    return found


def _runs_text(runs: list[tuple[int, int]]) -> str:
    shown = [versions_text(*run) for run in runs[:3]]
    if len(runs) > len(shown):
        shown.append(f"{len(runs) - len(shown)} more runs")
    return " and ".join(shown)


def _needed(use: Use, run: tuple[int, int]) -> bool:
    """Whether some version of a run cannot be read for want of the object."""
    return use.role not in {"copy", "index", "file"} and use.version <= run[1] and run[0] <= use.end


_ROLES: tuple[Role, ...] = (
    "stream", "retention", "version", "table", "part", "shard", "file", "anchor", "span", "way", "copy", "index",
)  # fmt: skip
_GRAVITY = {role: place for place, role in enumerate(_ROLES)}
"""Of what an object is to several records, the gravest comes first."""

STREAM = "put back a copy; without one, write it anew with the stream_id and writer_features of the newest version"
RETENTION = "stop every maintainer and put back a copy, or one whose boundary is the version with which the line begins"
STRANGER = "give the public key of those whom you trust with --trust, or put back the original"
SIGNATURES = "give the public key of those whom you trust with --trust"
HEAD = "nothing has to be done: readers look further by themselves, and the next publish writes it"
HEAD_AHEAD = "if that version was published, its record is lost: put back a copy; otherwise nothing has to be done"
LEASE = "delete it if no producer runs: the next one makes a new lease"
MEMBER = "readers ignore it: if it should have another name, put back a copy of the record"
PIN = "nothing has to be done: unchanged for a day it counts as dead; delete it to collect sooner"
UNKNOWN = "readers ignore it: delete it if nobody needs it there"
KEEP = "keep it: a record of its version is missing or damaged, and may name it"
KEEP_ALL = "keep it until retention.json is right: it may belong to the stream"


def orphan(url: str) -> str:
    """Of an object that no record names."""
    return f"no reader needs it: {MAINTAIN.format(url)} deletes it when its version is no longer retained"


def under_way(version: int) -> str:
    """Of an object of a version that is not there yet."""
    return f"leave it while a producer may be publishing; once version {version} is there without it, nobody needs it"


def leftover(url: str) -> str:
    """Of what belongs to a version that is not retained."""
    return f"no reader needs it that has not pinned it: {MAINTAIN.format(url)} deletes it"
