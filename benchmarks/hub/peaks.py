"""Peak memory of a publisher and a follower by the Hub's API, and of the same in a local folder."""

import tempfile
from dataclasses import dataclass

from benchmarks.hub.emulated import Party, emulated
from benchmarks.memory import FOLLOW, PUBLISH, peak

ELEMENTS = 1 << 28
MODEL_BYTES = 2 * ELEMENTS
_SCRIPTS: dict[Party, str] = {"publisher": PUBLISH, "follower": FOLLOW}


@dataclass(frozen=True, slots=True)
class Peak:
    """Bytes, interpreter and libraries among them."""

    hub: int
    folder: int


def peaks() -> dict[Party, Peak]:
    """Publish a snapshot, two deltas and two anchors; follow them from nothing. The caller's own state is counted."""
    with emulated() as hub:
        url = hub.url("emulated Hub API")
        on_the_hub = {
            role: peak(script, url, ELEMENTS, environment=hub.environment(role)) for role, script in _SCRIPTS.items()
        }
    with tempfile.TemporaryDirectory() as folder:
        return {
            role: Peak(hub=on_the_hub[role], folder=peak(script, folder, ELEMENTS)) for role, script in _SCRIPTS.items()
        }
