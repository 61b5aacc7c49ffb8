"""Every layout that Deltawire is measured against gives back the bits it was given."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from benchmarks.measuring import check, measure
from benchmarks.peers import PEERS, Bits16, Peer
from benchmarks.peers.full import FullPeer
from benchmarks.traces import TRACES
from benchmarks.traces.store import save
from deltawire.codecs.registry import CODECS
from deltawire.format.dtypes import dtype_of
from tests.benchmarks.states import steps

LAYOUTS = pytest.mark.parametrize("peer", PEERS.values(), ids=PEERS)
Step = tuple[Mapping[str, Bits16], Mapping[str, Bits16]]


@LAYOUTS
@settings(max_examples=25)
@given(step=steps())
def test_round_trip(peer: Peer, step: Step) -> None:
    old, new = step
    state = {name: bits.copy() for name, bits in old.items()}
    peer.apply(peer.encode(old, new), state)
    for name, bits in new.items():
        assert np.array_equal(state[name], bits)


@LAYOUTS
def test_gaps_of_every_width(peer: Peer) -> None:
    old = {"weight": np.zeros(200_000, np.uint16), "bias": np.zeros((3, 70_000), np.uint16)}
    new = {name: bits.copy() for name, bits in old.items()}
    for position in (0, 1, 127, 128, 129, 400, 17_000, 17_001, 83_000, 199_999):
        new["weight"][position] = 0x8000
        new["bias"].reshape(-1)[position] = 0x7FC1
    state = {name: bits.copy() for name, bits in old.items()}
    peer.apply(peer.encode(old, new), state)
    check(state, new, peer)


def test_all_codecs_are_measured() -> None:
    assert {f"Deltawire: {name}" for name in CODECS} <= set(PEERS)


@pytest.mark.parametrize("codec", CODECS)
def test_own_rows_are_of_the_codec(codec: str) -> None:
    """Too little changes for a publisher to write it all."""
    rng = np.random.default_rng(0)
    old = {"weight": rng.integers(0x3C00, 0x3E00, 1 << 14).astype(np.uint16)}
    new = {"weight": old["weight"] ^ (rng.random(1 << 14) < 0.05)}
    payload = PEERS[f"Deltawire: {codec}"].encode(old, new)
    delta = payload[4 : 4 + int.from_bytes(payload[:4], "little")]
    streams = {name for part in json.loads(delta)["parts"] for name in part["streams"]}
    assert streams == set(CODECS[codec].streams(dtype_of("BF16")))


def test_lost_bits_are_told() -> None:
    state = {"weight": np.zeros(4, np.uint16)}
    with pytest.raises(ValueError, match="does not give back"):
        check(state, {"weight": np.ones(4, np.uint16)}, FullPeer())


def test_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DELTAWIRE_TRACES", str(tmp_path))
    monkeypatch.setattr("benchmarks.measuring.BUDGET_SECONDS", 0)
    trace = TRACES["minilm-lr1e-5"]
    old = {"weight": np.arange(1 << 16, dtype=np.uint16)}
    new = {"weight": old["weight"] ^ (old["weight"] % 100 == 0).astype(np.uint16)}
    for step, state in zip(trace.pair, (old, new), strict=True):
        save(trace, step, state)
    found = measure(trace, PEERS["TRL blog: int32 + bf16"])
    assert found["changed_elements"] == 656
    assert found["model_bytes"] == 1 << 17
    assert 6 * 656 < found["wire_bytes"] < 6 * 656 + 1000
    assert min(found["copy_seconds"], found["encode_seconds"], found["apply_seconds"]) > 0
