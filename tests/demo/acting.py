"""Stand-ins for the demo's processes that need no model: ``python -m tests.demo.acting`` and its settings."""

from __future__ import annotations

import sys
import time

import numpy as np

from deltawire.demo.messages import (
    Anchored,
    Committed,
    Embedded,
    Loaded,
    LoaderSettings,
    Report,
    TrainerSettings,
    play,
)
from deltawire.errors import WrongBaseError
from deltawire.format.dtypes import Bits
from deltawire.format.tensors import build_table
from deltawire.kernels import oracle
from deltawire.limits import DEFAULT_LIMITS
from deltawire.producer.anchors import AnchorPolicy
from deltawire.producer.publisher import Publisher
from deltawire.store import open_store


def train(settings: TrainerSettings, report: Report) -> None:
    """Publish random walks of one array; or misbehave as the model's name says."""
    match settings.model.rpartition("/")[2]:
        case "raise":
            raise WrongBaseError("not what I hold", hint="look elsewhere")
        case "crash":
            print("noise on standard output")
            raise ZeroDivisionError("crashed on purpose")
        case "silent":
            time.sleep(600)
        case "stop":
            return
    random = np.random.default_rng(0)
    state = {"w": random.integers(0, 1 << 16, 500_000, np.uint16)}
    report(Loaded(kind="Walk", tensors=1, elements=500_000, state_bytes=1_000_000, seconds=0.0))
    store = open_store(settings.store)
    single = not store.guarantees.conditional_create
    with Publisher(store, anchors=AnchorPolicy(every=settings.anchor_every), single_writer=single) as publisher:
        for version in range(settings.steps + 1):
            if version:
                time.sleep(0.2)
                state["w"][random.integers(0, 500_000, 5000)] += 1
            _publish(publisher, state["w"], report)
            if publisher.wait_for_anchor(timeout=10) and publisher.anchor_version:
                report(Anchored(version=publisher.anchor_version))
    report(Embedded(kind="Walk", bits="00"))


def _publish(publisher: Publisher, bits: Bits, report: Report) -> None:
    (tensor,) = build_table([("w", "BF16", bits.shape)], limits=DEFAULT_LIMITS).tensors
    done = publisher.publish({"w": bits}, dtypes={"w": "BF16"})
    report(
        Committed(
            version=done.version,
            loss=None,
            step_seconds=0.0,
            record_digest=done.state_digest,
            trainer_digest=f"{oracle.digest_at(bits, np.arange(bits.size, dtype=np.uint64), tensor.seed):016x}",
            changed_elements=done.changed_elements,
            elements=done.elements,
            stored_bytes=done.data_bytes + done.record_bytes,
            state_bytes=done.state_bytes,
            encode_seconds=0.0,
            upload_seconds=0.0,
            commit_seconds=0.0,
            publish_seconds=0.0,
        )
    )


def load(settings: LoaderSettings, report: Report) -> None:
    """Answer as the trainer did."""
    assert settings.directory
    report(Embedded(kind="Walk", bits="00"))


if __name__ == "__main__":
    if '"store"' in sys.argv[1]:
        play(TrainerSettings, train)
    else:
        play(LoaderSettings, load)
