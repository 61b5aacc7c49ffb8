"""Negative cases that no mutant is caught by, and why."""

from __future__ import annotations

UNCAUGHT: dict[str, str] = {}
