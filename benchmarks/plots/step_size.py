"""What a changed element costs as more of the model changes, up to where much of it does."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.ticker import FuncFormatter, NullFormatter

from benchmarks.plots.style import BOUND, OTHERS_DARK, OURS, OURS_LIGHT, saved
from benchmarks.results_file import Results, data_of
from benchmarks.traces.catalogue import MODELS, TRACES

_LINES = (
    ("TRL blog: int32 + bf16", "TRL blog: int32 + bf16", OTHERS_DARK, "D-", 1.2),
    ("slime: xor, zstd-1", "slime: xor, zstd-1", OTHERS_DARK, "^-", 1.2),
    ("NeMo RL: u16 gaps + xor, zstd-1", "NeMo RL: u16 gaps + xor, zstd-1", OTHERS_DARK, "s-", 1.2),
    ("Deltawire: gap", "Deltawire: gap", OURS_LIGHT, "o-", 2.2),
    ("Deltawire: ranked", "Deltawire: ranked", OURS, "o-", 2.2),
    ("entropy given exponents", "entropy of the changes", BOUND, "--", 1.2),
)
_TOP = 7.0


def draw_step_size(results: Results, path: Path) -> None:
    """A panel for each model, a point for each learning rate."""
    found = list(data_of(results, "layouts"))
    with saved(path, width=10.5, height=4.2, columns=len(MODELS)) as (_, panels):
        for panel, (model, described) in zip(panels, MODELS.items(), strict=True):
            own = [one for one in found if TRACES[one["trace"]].model == model]
            for key, label, colour, style, width in _LINES:
                points = sorted(_point(one) for one in own if one.get("layout", one.get("bound")) == key)
                panel.plot(*zip(*points, strict=True), style, color=colour, linewidth=width, markersize=5, label=label)
            shares = np.linspace(200 / _TOP, 100)
            panel.plot(shares, 200 / shares, color="black", linewidth=0.9, label="the whole model, two bytes each")
            panel.set(xscale="log", title=described, xlim=(0.3, 100), ylim=(0, _TOP))
            panel.set_xticks((0.3, 1, 3, 10, 30, 100))
            panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g} %"))
            panel.xaxis.set_minor_formatter(NullFormatter())
            panel.set_xlabel("share of the weights that changed in a step")
        panels[0].set_ylabel("bytes for each weight that changed")
        panels[0].legend(loc="upper left", bbox_to_anchor=(0, 0.85), labelspacing=0.3)


def _point(one: Mapping[str, Any]) -> tuple[float, float]:
    return 200 * one["changed_elements"] / one["model_bytes"], one["wire_bytes"] / one["changed_elements"]
