"""Hypothesis settings for this folder."""

from __future__ import annotations

from tests.strategies import load_profile

load_profile()
