"""Negative cases that no mutant is caught by, and why."""

from __future__ import annotations

UNCAUGHT: dict[str, str] = {
    "pins-on-s3/data-first": "needs the simulator, and mutants are run on disk",
}
