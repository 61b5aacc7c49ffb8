"""AdamW on fp32 masters, published as bf16: how an RL trainer makes the states that go on the wire."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from benchmarks.traces.catalogue import Trace

SEED = 0


@dataclass(frozen=True)
class Task:
    """A model with fp32 weights and the loss of a step's batch."""

    model: torch.nn.Module
    loss: Callable[[int], torch.Tensor]


def states(trace: Trace, task: Task) -> Iterator[tuple[int, dict[str, npt.NDArray[np.uint16]], float]]:
    """Train; yield (step, state, loss) for each step, the state as bf16 bit patterns."""
    model = task.model
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=float(trace.learning_rate), betas=(0.9, 0.99), weight_decay=0.0
    )
    for step in range(1, max(trace.steps) + 1):
        model.train()
        loss = task.loss(step)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        yield step, _published(model), float(loss.detach())


def _published(model: torch.nn.Module) -> dict[str, npt.NDArray[np.uint16]]:
    return {
        name: parameter.detach().to(torch.bfloat16).contiguous().view(torch.int16).numpy().view(np.uint16)
        for name, parameter in model.named_parameters()
    }
