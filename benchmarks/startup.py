"""What importing costs."""

import statistics
import subprocess
import sys

from benchmarks.model import Figure

_IMPORT = "import time; t = time.perf_counter(); import deltawire; print(time.perf_counter() - t)"
_FIRST_USE = (
    "import time; t = time.perf_counter(); import deltawire; deltawire.Follower; deltawire.Publisher; "
    "print(time.perf_counter() - t)"
)
_TORCH = "import sys, deltawire; deltawire.Follower; deltawire.Publisher; sys.exit('torch' in sys.modules)"


def run() -> list[Figure]:
    torch_free = subprocess.run([sys.executable, "-c", _TORCH], check=False).returncode == 0
    return [
        {
            "figure": "import deltawire",
            "value": f"{_median(_IMPORT) * 1e3:.0f} ms",
            "note": f"the first use of Publisher and Follower included: {_median(_FIRST_USE) * 1e3:.0f} ms; "
            f"torch is {'not ' if torch_free else ''}imported",
        }
    ]


def _median(script: str) -> float:
    return statistics.median(
        float(subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout)
        for _ in range(5)
    )
