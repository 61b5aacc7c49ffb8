"""Peak memory of a publisher and a follower by the Hub's API, and of the same in a local folder."""

import tempfile
from dataclasses import dataclass

from benchmarks.hub.emulated import Hub, Party, emulated
from benchmarks.memory import FOLLOW, PUBLISH, SMALL, peak

ELEMENTS = 1 << 27
MODEL_BYTES = 2 * ELEMENTS
_SCRIPTS: dict[Party, str] = {"publisher": PUBLISH, "follower": FOLLOW}


@dataclass(frozen=True, slots=True)
class Peak:
    """Bytes on top of what the same process needs for a model of almost nothing."""

    hub: int
    folder: int


def peaks() -> dict[Party, Peak]:
    """Publish a snapshot, two deltas and two anchors; follow them from nothing. The caller's own state is counted."""
    hub = _on_the_hub(ELEMENTS), _on_the_hub(SMALL)
    folder = _in_a_folder(ELEMENTS), _in_a_folder(SMALL)
    return {role: Peak(hub=hub[0][role] - hub[1][role], folder=folder[0][role] - folder[1][role]) for role in _SCRIPTS}


def _on_the_hub(elements: int) -> dict[Party, int]:
    with emulated() as hub:
        return {role: _peak(hub, role, elements) for role in _SCRIPTS}


def _peak(hub: Hub, role: Party, elements: int) -> int:
    return peak(_SCRIPTS[role], hub.url("Hub API"), elements, environment=hub.environment(role))


def _in_a_folder(elements: int) -> dict[Party, int]:
    with tempfile.TemporaryDirectory() as folder:
        return {role: peak(script, folder, elements) for role, script in _SCRIPTS.items()}
