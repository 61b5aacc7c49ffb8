"""An adapter of the reference that is broken in one way."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from mutants import all_mutants

ADAPTER = Path(__file__).resolve().parent.parent / "adapters" / "reference" / "adapter.py"


def load_adapter() -> ModuleType:
    """The reference's adapter as a module."""
    spec = importlib.util.spec_from_file_location("reference_adapter", ADAPTER)
    assert spec is not None
    assert spec.loader is not None
    adapter = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(adapter)
    return adapter


def main() -> int:
    """Break the reference, then be its adapter."""
    name = sys.argv.pop(1)
    adapter = load_adapter()
    all_mutants()[name].patch()
    result: int = adapter.main()
    return result


if __name__ == "__main__":
    sys.exit(main())
