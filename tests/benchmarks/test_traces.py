"""Traces on disk, and what training hands to them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from benchmarks.traces import TRACES, Trace, load
from benchmarks.traces.store import missing, save
from benchmarks.traces.training import Task, states


def test_store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DELTAWIRE_TRACES", str(tmp_path))
    trace = TRACES["minilm-lr1e-6"]
    state = {"w": np.arange(6, dtype=np.uint16).reshape(2, 3), "b": np.array([0x7FC1, 0x8000], np.uint16)}
    for step in trace.steps:
        assert missing(trace)
        save(trace, step, state)
    assert not missing(trace)
    found = load(trace, trace.steps[-1])
    assert found.keys() == state.keys()
    assert all(np.array_equal(found[name], bits) for name, bits in state.items())
    assert {path.name for path in tmp_path.glob("*/*")} == set(trace.file_names)


def test_every_trace_keeps_the_compared_steps() -> None:
    for trace in TRACES.values():
        assert set(trace.pair) <= set(trace.steps)


def test_states_are_rounded_masters_of_their_step() -> None:
    torch.manual_seed(1)
    model = torch.nn.Linear(8, 8)
    masters: list[torch.Tensor] = []

    def loss(_: int) -> torch.Tensor:
        masters.append(model.weight.detach().clone())
        found: torch.Tensor = model(torch.ones(8)).square().sum()
        return found

    found = list(states(Trace("linear", "1e-2", (1, 2, 3)), Task(model, loss)))
    assert [step for step, _, _ in found] == [1, 2, 3]
    # What a step leaves is what the next one's loss sees.
    for (_, state, _), after in zip(found, [*masters[1:], model.weight.detach()], strict=True):
        kept = torch.from_numpy(state["weight"].view(np.int16)).view(torch.bfloat16)
        assert torch.equal(kept, after.to(torch.bfloat16))
    assert found[0][2] > found[-1][2]
