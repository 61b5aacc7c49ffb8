"""What importing costs, and how soon the command has applied a version."""

import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import deltawire
from benchmarks.model import Figure, weights

_IMPORT = "import time; t = time.perf_counter(); import deltawire; print(time.perf_counter() - t)"
_FIRST_USE = (
    "import time; t = time.perf_counter(); import deltawire; deltawire.Follower; deltawire.Publisher; "
    "print(time.perf_counter() - t)"
)
_TORCH = "import sys, deltawire; deltawire.Follower; deltawire.Publisher; sys.exit('torch' in sys.modules)"


def run() -> list[Figure]:
    torch_free = subprocess.run([sys.executable, "-c", _TORCH], check=False).returncode == 0
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        _publish(str(place / "stream"))
        warm = min(_follow(place) for _ in range(5))
        cold = min(_follow(place, cache=place / "cache") for _ in range(2))
    return [
        {
            "figure": "import deltawire",
            "value": f"{_median(_IMPORT) * 1e3:.0f} ms",
            "note": f"the first use of Publisher and Follower included: {_median(_FIRST_USE) * 1e3:.0f} ms; "
            f"torch is {'not ' if torch_free else ''}imported",
        },
        {
            "figure": "deltawire follow",
            "value": f"{warm[0]:.1f} s to applied",
            "note": f"from exec to exit with --once, an anchor and a delta from a local folder; {warm[1]:.1f} s of"
            f" processor time, and {cold[1]:.1f} s at the first start, which compiles the kernels",
        },
    ]


def _median(script: str) -> float:
    return statistics.median(
        float(subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout)
        for _ in range(5)
    )


def _publish(url: str) -> None:
    state = {f"layer.{number}": weights(1 << 16, seed=number) for number in range(8)}
    with deltawire.Publisher(url) as publisher:
        for step in range(2):
            for bits in state.values():
                bits[step::100] ^= 1
            publisher.publish(state, dtypes=dict.fromkeys(state, "BF16"))


def _follow(place: Path, *, cache: Path | None = None) -> tuple[float, float]:
    """Seconds by the clock and of processor time of one command that begins with nothing."""
    shutil.rmtree(place / "weights", ignore_errors=True)
    environment = dict(os.environ)
    if cache is not None:
        shutil.rmtree(cache, ignore_errors=True)
        environment["NUMBA_CACHE_DIR"] = str(cache)
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "deltawire", "follow", str(place / "stream"), str(place / "weights"), "--once"],
        env=environment,
        stdout=subprocess.DEVNULL,
        check=True,
    )
    seconds, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
