"""What the processes said about each version, and whether it all agrees. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from deltawire.demo.messages import Committed, Embedded, Loaded, Verified

FOLLOWER, LATE_JOINER = "follower", "late joiner"
INT32_BF16_BYTES = 6.0
"""Bytes per changed element of the plainest sparse layout: an int32 position and a bf16 value."""


@dataclass(slots=True)
class Evidence:
    """Everything that was reported in one run."""

    steps: int
    loaded: Loaded | None = None
    committed: dict[int, Committed] = field(default_factory=dict)
    verified: dict[str, dict[int, Verified]] = field(default_factory=lambda: {FOLLOWER: {}, LATE_JOINER: {}})
    """By follower, then version; of a version proved twice, the report that has the times."""
    resumed: Verified | None = None
    """What the killed follower held when it was started again."""
    killed_half_done: bool = False
    """Whether the kill left an update half done on the disk."""
    trained: Embedded | None = None
    """The probe's embedding by the weights that the trainer published last."""
    followed: Embedded | None = None
    """The same by what transformers loads from the followed directory."""

    def add_verified(self, who: str, report: Verified) -> None:
        """Keep a follower's report."""
        if report.resumed:
            self.resumed = report
        self.verified[who].setdefault(report.version, report)

    @property
    def joined_at(self) -> int | None:
        """First version of the late joiner."""
        return min(self.verified[LATE_JOINER], default=None)

    def digests(self, version: int) -> dict[str, str | None]:
        """Every digest that a version must have, by where it comes from; None where it was not reported."""
        published = self.committed.get(version)
        found: dict[str, str | None] = {
            "record": None if published is None else published.record_digest,
            "trainer": None if published is None else published.trainer_digest,
        }
        joined = self.joined_at
        for who, reports in self.verified.items():
            if who == LATE_JOINER and (joined is None or version < joined):
                continue
            report = reports.get(version)
            found[f"{who}'s record"] = None if report is None else report.record_digest
            found[who] = None if report is None else report.digest
        return found

    def agrees(self, version: int) -> bool:
        """Whether all digests of a version are there and the same."""
        digests = set(self.digests(version).values())
        return len(digests) == 1 and None not in digests

    def differences(self) -> list[str]:
        """Everything that is not as it must be, in words; empty if the run proves what it should."""
        found = []
        for version in range(self.steps + 1):
            if not self.agrees(version):
                said = ", ".join(f"{who} {digest or 'nothing'}" for who, digest in self.digests(version).items())
                found.append(f"version {version}: {said}")
        if self.joined_at is None:
            found.append("the late joiner never held a version")
        if self.resumed is None:
            found.append("the follower was not killed and started again")
        if self.trained is None or self.followed is None:
            found.append("the followed directory was not loaded with transformers")
        elif self.trained != self.followed:
            found.append("transformers computes another embedding from the followed directory than from the trainer's")
        return found

    @property
    def deltas(self) -> list[Committed]:
        """Versions published as a delta."""
        return [self.committed[version] for version in sorted(self.committed) if version > 0]


def bytes_per_changed(published: list[Committed]) -> float | None:
    """Stored bytes, framing and records included, per changed element; None if nothing changed."""
    changed = sum(one.changed_elements for one in published)
    return sum(one.stored_bytes for one in published) / changed if changed else None


def times_smaller(published: list[Committed]) -> float:
    """How many times the stored bytes go into full states."""
    return sum(one.state_bytes for one in published) / max(1, sum(one.stored_bytes for one in published))
