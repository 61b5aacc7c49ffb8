"""A small stream by the real publisher, with every kind of record in it."""

from __future__ import annotations

import json
import uuid
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

from deltawire import AnchorPolicy, Follower, Publisher, fork, rollback
from deltawire.ed25519 import generate
from deltawire.format.keys import (
    ANCHORS,
    HEAD,
    LEASE,
    PINS,
    RETENTION,
    SPANS,
    STREAM,
    VERSIONS,
    anchor_key,
    version_key,
)
from deltawire.maintaining.builder import Builder
from deltawire.maintaining.collecting import CollectOptions
from deltawire.maintaining.ladder import Ladder
from deltawire.maintaining.maintainer import Maintainer
from deltawire.maintaining.retaining import RetentionPolicy
from deltawire.patches.writing import write_patch
from deltawire.producer.anchors import NEVER
from deltawire.store.memory import MemoryStore
from tests.spec.schemas import RECORDS


@pytest.fixture(scope="session")
def published(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, bytes]]:
    """JSON objects of the stream, and of a patch file, with the names of their schemas."""
    store = MemoryStore(f"spec/{uuid.uuid4().hex}")
    tied = np.arange(64, dtype=np.float32).reshape(8, 8)
    state: dict[str, Any] = {
        "a": tied,
        "b": tied,
        "none": np.zeros((0, 3), np.int64),
        "scalar": np.array(1.5),
        "bits": np.arange(6, dtype=np.uint16),
    }
    with Publisher(store, anchors=AnchorPolicy(every=1, outweigh=None)) as publisher:
        publisher.publish(state, dtypes={"bits": "BF16"}, files={"config.json": b"{}", "merges.txt": b""})
        tied[1, 2] = -0.0
        state["bits"][:] += 1
        publisher.publish(state, dtypes={"bits": "BF16"}, metadata={"step": 1, "note": "ä"})
        publisher.wait_for_anchor()
        publisher.publish(state, dtypes={"bits": "BF16"}, files={})
        publisher.wait_for_anchor()
        publisher.publish({"new": np.ones(3, np.float16)}, files={})
        assert publisher.anchor_error is None
    rollback(store, to=1)
    forked = MemoryStore(f"spec/{uuid.uuid4().hex}")
    fork(store, forked, version=2)
    with Builder(store, ladder=Ladder(smallest=2), anchors=NEVER) as builder:
        builder.run(force=True)
    found: list[tuple[str, bytes]] = []
    keeper: Maintainer[None] = Maintainer(store, CollectOptions(policy=RetentionPolicy(keep_last=1)))
    with keeper, Follower(store) as follower:
        follower.poll()
        named = [(kind, info) for info in store.list("") if (kind := _kind(info.key))]
        found += [(kind, store.get(info.key, max_bytes=info.bytes).data) for kind, info in named]
        keeper.once()
        found.append(("retention", store.get(RETENTION, max_bytes=1 << 20).data))
    for key, kind in (("stream.json", "stream"), (version_key(0), "version")):
        found.append((kind, forked.get(key, max_bytes=1 << 20).data))
    signed = _signed()
    for key, kind in (("stream.json", "stream"), (version_key(0), "version"), (anchor_key(1), "anchor")):
        found.append((kind, signed.get(key, max_bytes=1 << 20).data))
    found.append(("patch", _patch(tmp_path_factory.mktemp("patch"))))
    assert {kind for kind, _ in found} == set(RECORDS)
    return found


def _kind(key: str) -> str | None:
    if key.endswith("/tensors/table.json"):
        return "tensor_table"
    beginnings = {PINS: "pin", LEASE: "lease", VERSIONS: "version", ANCHORS: "anchor", SPANS: "span", STREAM: "stream"}
    return next((kind for start, kind in {**beginnings, HEAD: "head"}.items() if key.startswith(start)), None)


def _signed() -> MemoryStore:
    store = MemoryStore(f"spec/{uuid.uuid4().hex}")
    policy = AnchorPolicy(every=1, outweigh=None)
    with Publisher(store, anchors=policy, signing_key=generate(), co_signers=[generate().key]) as publisher:
        for number in range(2):
            publisher.publish({"a": np.arange(4) + number}, files={})
        publisher.wait_for_anchor()
    return store


def _patch(folder: Path) -> bytes:
    for name, files in (("a", {"config.json": b"{}", "vocab.txt": b""}), ("b", {"config.json": b"[]"})):
        (folder / name).mkdir()
        tensor = np.arange(100, dtype=np.float32) + (name == "b")
        (folder / name / "model.safetensors").write_bytes(save({"w": tensor}))
        for file, data in files.items():
            (folder / name / file).write_bytes(data)
    write_patch(folder / "a", folder / "b", folder / "patch", metadata={"from": "a"})
    with zipfile.ZipFile(folder / "patch") as patch:
        return patch.read("patch.json")


@pytest.fixture(scope="session")
def samples(published: list[tuple[str, bytes]]) -> list[tuple[str, dict[str, Any]]]:
    """One parsed object for every kind, and for every shape of version record."""
    seen, found = set(), []
    for kind, data in published:
        value = json.loads(data)
        empty = value.get("delta", {}).get("parts", [None])[:1] == []
        shape = (kind, "delta" in value, empty, "origin" in value, "rollback_of" in value, "signature" in value)
        if shape not in seen:
            seen.add(shape)
            found.append((kind, value))
    return found
