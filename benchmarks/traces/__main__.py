"""Make the traces that are not there yet: ``python -m benchmarks.traces [NAME ...]``."""

import argparse
import os

from rich.console import Console

from benchmarks.traces.catalogue import TRACES, Trace
from benchmarks.traces.store import folder, missing, save

os.environ["HF_HUB_OFFLINE"] = "1"  # the models come as packages


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.traces", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"which to make: {', '.join(TRACES)}; all by default")
    options = parser.parse_args()
    if unknown := set(options.names) - set(TRACES):
        parser.error(f"there is no trace called {min(unknown)}")
    console = Console()
    console.print(f"traces in {folder()}")
    for name in options.names or TRACES:
        if missing(TRACES[name]):
            _make(TRACES[name], console)


def _make(trace: Trace, console: Console) -> None:
    import torch  # noqa: PLC0415 - nothing to make, nothing to load

    from benchmarks.traces import minilm, smollm2, training  # noqa: PLC0415

    torch.manual_seed(training.SEED)
    task = {"minilm": minilm.task, "smollm2": smollm2.task}[trace.model]()
    before = None
    for step, state, loss in training.states(trace, task):
        if before is not None:
            changed = sum(int((before[name] != bits).sum()) for name, bits in state.items())
            share = changed / sum(bits.size for bits in state.values())
            console.print(f"{trace.name} step {step}: loss {loss:.4f}, {share:.3%} of the elements changed")
        if step in trace.steps:
            save(trace, step, state)
        before = state


if __name__ == "__main__":
    main()
