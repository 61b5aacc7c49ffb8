"""Train, and keep the steps of a trace."""

import os
from collections.abc import Callable

from benchmarks.traces.catalogue import TRACES, Trace
from benchmarks.traces.store import missing, save


def make_missing(names: list[str], say: Callable[[str], object]) -> None:
    """Make the traces of these names that are not on disk.

    Raises:
        ModuleNotFoundError: what it takes is not installed.
    """
    for name in names:
        if missing(TRACES[name]):
            _make(TRACES[name], say)


def _make(trace: Trace, say: Callable[[str], object]) -> None:
    os.environ["HF_HUB_OFFLINE"] = "1"  # the models come as packages
    import torch  # noqa: PLC0415 - nothing to make, nothing to load
    from transformers.utils.logging import disable_progress_bar  # noqa: PLC0415

    from benchmarks.traces import minilm, smollm2, training  # noqa: PLC0415

    disable_progress_bar()
    torch.manual_seed(training.SEED)
    task = {"minilm": minilm.task, "smollm2": smollm2.task}[trace.model]()
    before = None
    for step, state, loss in training.states(trace, task):
        if before is not None:
            changed = sum(int((before[name] != bits).sum()) for name, bits in state.items())
            share = changed / sum(bits.size for bits in state.values())
            say(f"{trace.name} step {step}: loss {loss:.4f}, {share:.3%} of the elements changed")
        if step in trace.steps:
            save(trace, step, state)
        before = state
