"""The same examples in every run."""

from __future__ import annotations

from tests.strategies import load_profile

load_profile()
