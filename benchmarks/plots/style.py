"""How all plots look."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

OURS = "#0b6e99"
OURS_LIGHT = "#4aa3c7"
OTHERS = "#b8b8b8"
OTHERS_DARK = "#7a7a7a"
BOUND = "#c0392b"

_SETTINGS: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "figure.facecolor": "white",
    "font.size": 10,
    "grid.color": "#e6e6e6",
    "legend.frameon": False,
    "svg.hashsalt": "deltawire",  # the same figures give the same file
}


def colour_of(layout: Mapping[str, Any]) -> str:
    """Deltawire or not."""
    return OURS if layout["own"] else OTHERS


@contextmanager
def saved(path: Path, *, width: float, height: float, columns: int = 1) -> Iterator[tuple[Figure, list[Axes]]]:
    """A figure with so many panels side by side, to be drawn on and then written to ``path``.

    Args:
        path: where to.
        width: in inches.
        height: in inches.
        columns: how many panels.
    """
    with mpl.rc_context(_SETTINGS):
        figure, grid = plt.subplots(1, columns, figsize=(width, height), squeeze=False, layout="constrained")
        yield figure, list(grid[0])
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, dpi=130)
        plt.close(figure)
