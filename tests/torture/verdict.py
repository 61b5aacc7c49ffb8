"""What must hold when everybody is done."""

from __future__ import annotations

import itertools
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field

from deltawire.consumer.follower import Follower
from deltawire.deadline import Deadline
from deltawire.errors import DeltawireError
from deltawire.format.records import VersionRecord
from deltawire.inspecting.verification import verify_stream
from deltawire.reading.stream import StreamReader
from deltawire.reading.transfer import Transfer
from deltawire.store import open_store
from deltawire.store.base import Store
from tests.torture.scene import CAST, FOLLOWERS, MAINTAINER, WRITERS, Entry, Scene

_FOREVER = Deadline(None)


@dataclass
class Verdict:
    """What is wrong, and what happened."""

    wrong: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What verification found worth knowing."""
    counts: Counter[str] = field(default_factory=Counter)

    def require(self, holds: bool, otherwise: str) -> None:
        if not holds:
            self.wrong.append(otherwise)


def judge(scene: Scene, did: Counter[str]) -> Verdict:
    """Hold the stream, and what everybody noted, against each other."""
    verdict = Verdict(counts=Counter(did))
    with closing(open_store(scene.url)) as store:
        verified = verify_stream(store, deep=True)
        verdict.wrong += [f"{found.code} in {found.key}: {found.message}" for found in verified.findings]
        verdict.notes = verified.notes
        records = _records(store, verdict)
        _judge_line(scene, records, verdict)
        _judge_followers(scene, store, records, verdict)
    for entry in scene.entries(*CAST):
        verdict.require(entry["event"] != "failed", f"{entry['who']} failed: {entry.get('at')}")
    _judge_plot(scene, verdict)
    return verdict


def _records(store: Store, verdict: Verdict) -> dict[int, VersionRecord]:
    """The records of all retained versions, of which none may be missing."""
    transfer = Transfer(store)
    try:
        reader = StreamReader(transfer)
        newest, retention = reader.latest(_FOREVER), reader.retention(_FOREVER)
        numbers = [*sorted(retention.kept), *range(retention.boundary, newest + 1)]
        found = {}
        for number, version in zip(numbers, reader.versions(numbers, _FOREVER), strict=True):
            if isinstance(version, DeltawireError):
                verdict.wrong.append(f"version {number} is retained, but {version}")
            else:
                found[number] = version.record
        epochs = [record.epoch for record in found.values()]
        verdict.require(epochs == sorted(epochs), f"epochs fall: {epochs}")
        verdict.counts |= Counter({"versions": newest + 1, "retained": len(found)})
        return found
    finally:
        transfer.close()


def _judge_line(scene: Scene, records: dict[int, VersionRecord], verdict: Verdict) -> None:
    """Nothing that was reported as committed is lost, or was reported twice; epochs never fall."""
    committed: dict[int, Entry] = {}
    for entry in scene.entries(*WRITERS):
        if entry["event"] == "committed":
            number = entry["version"]
            verdict.require(number not in committed, f"version {number} was committed twice")
            committed[number] = entry
    for before, after in itertools.pairwise(sorted(committed)):
        verdict.require(
            committed[before]["epoch"] <= committed[after]["epoch"], f"epochs fall from version {before} to {after}"
        )
    holders: dict[int, str] = {}
    for number, entry in committed.items():
        who = holders.setdefault(entry["epoch"], entry["who"])
        verdict.require(who == entry["who"], f"{who} and {entry['who']} had epoch {entry['epoch']}: version {number}")
    newest = max(records)
    verdict.require(max(committed) <= newest, f"version {max(committed)} was committed, but the newest is {newest}")
    for number in records.keys() & committed.keys():
        record, entry = records[number], committed[number]
        same = (record.state_digest, record.metadata["content"]) == (entry["digest"], entry["content"])
        verdict.require(same, f"version {number} is another one than was committed by {entry['who']}")
    truth = {number: (record.state_digest, record.metadata["content"]) for number, record in records.items()}
    truth |= {number: (entry["digest"], entry["content"]) for number, entry in committed.items()}
    for entry in scene.entries(*FOLLOWERS):
        if entry["event"] == "held":
            held = entry["digest"], entry["content"]
            verdict.require(
                truth.setdefault(entry["version"], held) == held,
                f"{entry['who']} held another version {entry['version']} than others",
            )
        elif entry["event"] == "verified":
            verdict.require(truth[entry["version"]][0] == entry["digest"], f"{entry['who']} verified another state")
    verdict.counts |= Counter({"reported": len(committed), "epochs": len(holders)})


def _judge_followers(scene: Scene, store: Store, records: dict[int, VersionRecord], verdict: Verdict) -> None:
    """Everybody came to the end of the line, never backwards."""
    newest = max(records)
    end = newest, records[newest].state_digest, records[newest].metadata["content"]
    for who in FOLLOWERS:
        entries = [*scene.entries(who)]
        held = [entry["version"] for entry in entries if entry["event"] == "held"]
        lives = [entry for entry in entries if entry["event"] == "began"]
        # A process that begins anew in memory may come to hold the same version again.
        verdict.require(held == sorted(held), f"{who} went backwards: {held}")
        again = len(held) - len(set(held))
        allowed = len(lives) - 1 if who.startswith("memory") else 0
        verdict.require(again <= allowed, f"{who} came to hold a version twice: {held}")
        finished = [entry for entry in entries if entry["event"] == "finished"]
        ends = [(entry["version"], entry["digest"], entry["content"]) for entry in finished]
        verdict.require(ends == [end], f"{who} ended with {ends}, not {end}")
        if who.startswith("directory"):
            with Follower(store, scene.target(who)) as follower:
                verdict.require(follower.verify() == end[1], f"the folder of {who} is another state")


def _judge_plot(scene: Scene, verdict: Verdict) -> None:
    """Something must have happened."""
    counts = verdict.counts
    for entry in scene.entries(*CAST):
        event = entry["event"]
        if event == "refused":
            counts[entry["code"]] += 1
        elif event == "held":
            counts["updates"] += 1
            # A life that had nothing in hand says nothing of how one catches up.
            counts["spans taken"] += entry["steps"].count("span")
            counts["jumps"] += entry["previous"] is not None and entry["steps"][0] in {"anchor", "snapshot"}
            counts["replanned"] += bool(entry["replanned"])
        elif event == "built":
            counts["spans built"] += len(entry["spans"])
            counts["anchors built"] += len(entry["anchors"])
        elif event == "collected" and entry["who"] == MAINTAINER:
            for what in ("versions", "orphans", "pins"):
                counts[f"{what} collected"] += entry[what]
    at_least = {"killed": 5, "stalled": 5, "usurped": 2, "left behind": 1, "spans built": 1, "versions collected": 1}
    for what, least in at_least.items():
        verdict.require(counts[what] >= least, f"{what}: {counts[what]}, not at least {least}")
    verdict.require(counts["jumps"] >= counts["left behind"], "nobody who was left behind took a snapshot")
