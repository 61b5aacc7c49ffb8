"""Made-up runs: what processes would have said."""

from __future__ import annotations

from pathlib import Path

from deltawire.demo.checkpoint import Checkpoint
from deltawire.demo.director import Plan
from deltawire.demo.evidence import FOLLOWER, LATE_JOINER, Evidence
from deltawire.demo.messages import Committed, Embedded, Loaded, Verified

STATE_BYTES = 45_426_432
LOADED = Loaded(kind="BertModel", tensors=103, elements=STATE_BYTES // 2, state_bytes=STATE_BYTES, seconds=1.0)
EMBEDDED = Embedded(kind="BertModel", bits="00ff")


def plan(directory: Path, *, steps: int = 6, timeout: float = 60.0) -> Plan:
    return Plan(
        checkpoint=Checkpoint("made-up", directory / "model"),
        store=str(directory / "stream"),
        directory=directory / "followed",
        steps=steps,
        lr=3e-6,
        anchor_every=3,
        threads=1,
        timeout=timeout,
    )


def digest(version: int) -> str:
    return f"{0xABCDEF0000000000 + version:016x}"


def committed(version: int) -> Committed:
    return Committed(
        version=version,
        loss=None if version == 0 else 1.5,
        step_seconds=1.0,
        record_digest=digest(version),
        trainer_digest=digest(version),
        changed_elements=STATE_BYTES // 2 if version == 0 else 200_000,
        elements=STATE_BYTES // 2,
        stored_bytes=STATE_BYTES if version == 0 else 250_000,
        state_bytes=STATE_BYTES,
        encode_seconds=0.1,
        upload_seconds=0.1,
        commit_seconds=0.1,
        publish_seconds=1234.5,
    )


def verified(version: int, *, resumed: bool = False, steps: tuple[str, ...] = ("delta",)) -> Verified:
    return Verified(
        version=version,
        record_digest=digest(version),
        digest=digest(version),
        resumed=resumed,
        steps=() if resumed else steps,
        bytes_fetched=1000,
        fetch_seconds=0.5,
        decode_seconds=0.001,
        apply_seconds=0.02,
        verify_seconds=0.1,
    )


def good_run(*, steps: int = 6, killed_at: int = 2, joined_at: int = 4) -> Evidence:
    evidence = Evidence(steps)
    evidence.loaded, evidence.trained, evidence.followed = LOADED, EMBEDDED, EMBEDDED
    evidence.killed_half_done = True
    for version in range(steps + 1):
        evidence.committed[version] = committed(version)
        first = verified(version, resumed=version == killed_at, steps=("delta",) if version else ("snapshot",))
        evidence.add_verified(FOLLOWER, first)
        if version >= joined_at:
            steps_taken = ("anchor", "delta") if version == joined_at else ("delta",)
            evidence.add_verified(LATE_JOINER, verified(version, steps=steps_taken))
    return evidence
