"""``badge.json``, in the form that shields.io takes from an endpoint."""

from __future__ import annotations

from typing import Any

from deltawire_conformance.results import Results


def badge(results: Results) -> dict[str, Any]:
    """One line for all profiles of a run."""
    roles = ", ".join(profile.role for profile in results.profiles)
    passed = sum(profile.passed for profile in results.profiles)
    scored = sum(profile.scored for profile in results.profiles)
    good = results.ok and bool(results.profiles) and all(profile.conforms for profile in results.profiles)
    colour = "brightgreen" if good else "red" if 2 * passed < scored or not scored else "orange"
    return {
        "schemaVersion": 1,
        "label": f"deltawire {results.spec_version} {roles}".strip(),
        "message": f"{'conforms' if good else 'does not conform'}, {passed}/{scored}",
        "color": colour,
    }
