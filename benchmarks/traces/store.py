"""Where traces lie on disk: ``FOLDER/<model>-lr<rate>/sNNN.safetensors``, tensors of U16 bit patterns by name."""

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
from safetensors.numpy import load_file, save_file

from benchmarks.traces.catalogue import Trace

VARIABLE = "DELTAWIRE_TRACES"
_DEFAULT = Path(__file__).parent.parent / ".cache" / "traces"

State = Mapping[str, npt.NDArray[np.uint16]]


def folder() -> Path:
    """The folder of all traces."""
    return Path(os.environ.get(VARIABLE) or _DEFAULT)


def missing(trace: Trace) -> bool:
    """Whether a kept step of the trace is not on disk."""
    return not all((folder() / trace.name / name).exists() for name in trace.file_names)


def load(trace: Trace, step: int) -> dict[str, npt.NDArray[np.uint16]]:
    """The whole state after a step: uint16 bit patterns of bf16, in the tensors' shapes."""
    found: dict[str, npt.NDArray[np.uint16]] = load_file(_path(trace, step))
    return found


def save(trace: Trace, step: int, state: State) -> None:
    """Write a state whole or not at all."""
    path = _path(trace, step)
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".unfinished")
    save_file(dict(state), unfinished, metadata={"bits": "BF16", "learning_rate": trace.learning_rate})
    unfinished.replace(path)


def _path(trace: Trace, step: int) -> Path:
    return folder() / trace.name / f"s{step:03d}.safetensors"
