"""From what a caller has to a target."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from deltawire.errors import InvalidArgumentError
from deltawire.targets.arrays import ArraysTarget
from deltawire.targets.base import Target

TargetLike = Any
"""A ``Target``, a mapping of NumPy arrays or torch tensors, a torch module, or the path of a directory."""


def as_target(target: TargetLike | None) -> Target:
    """Wrap what the caller has.

    Raises:
        InvalidArgumentError: it is nothing a state can be kept in.
    """
    if target is None:
        return ArraysTarget()
    if isinstance(target, Target):
        return target
    if isinstance(target, (str, os.PathLike)):
        from deltawire.targets.directory import DirectoryTarget  # noqa: PLC0415 - only where it is used

        return DirectoryTarget(Path(target))
    if isinstance(target, Mapping) and all(isinstance(value, np.ndarray) for value in target.values()):
        return ArraysTarget(target)
    if isinstance(target, Mapping) or hasattr(target, "state_dict"):
        from deltawire.targets.torch import TorchTarget  # noqa: PLC0415 - needs torch

        return TorchTarget(target)
    raise InvalidArgumentError(f"a state cannot be kept in a {type(target).__name__}")
