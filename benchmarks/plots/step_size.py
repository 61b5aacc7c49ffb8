"""What a step costs on the wire as more of the model changes, up to where nearly all of it does."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.ticker import FuncFormatter

from benchmarks.plots.style import BOUND, OTHERS_DARK, OURS, saved
from benchmarks.results_file import Results, data_of
from benchmarks.traces.catalogue import MODELS, TRACES

_LINES = (
    ("Deltawire", "Deltawire", OURS, "o-", 2.2),
    ("NeMo RL: u16 gaps + xor, zstd-1", "NeMo RL: u16 gaps + xor, zstd-1", OTHERS_DARK, "s-", 1.2),
    ("slime: xor, zstd-1", "slime: xor, zstd-1", OTHERS_DARK, "^-", 1.2),
    ("TRL blog: int32 + bf16", "TRL blog: int32 + bf16", OTHERS_DARK, "D-", 1.2),
    ("entropy given exponents", "entropy of the changes", BOUND, "--", 1.2),
)


def draw_step_size(results: Results, path: Path) -> None:
    """A panel for each model, a point for each learning rate."""
    found = list(data_of(results, "layouts"))
    with saved(path, width=10.5, height=4.0, columns=len(MODELS)) as (_, panels):
        for panel, (model, described) in zip(panels, MODELS.items(), strict=True):
            own = [one for one in found if TRACES[one["trace"]].model == model]
            for key, label, colour, style, width in _LINES:
                points = sorted(_point(one) for one in own if one.get("layout", one.get("bound")) == key)
                panel.plot(*zip(*points, strict=True), style, color=colour, linewidth=width, markersize=5, label=label)
            panel.axhline(100, color="black", linewidth=0.8)
            panel.text(0.02, 100, "the whole model", va="bottom", transform=panel.get_yaxis_transform())
            panel.set(xscale="log", yscale="log", title=described, ylim=(0.2, 400))
            panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g} %"))
            panel.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g} %"))
            panel.set_xlabel("share of the weights that changed in the step")
        panels[0].set_ylabel("size on the wire, of the model's")
        panels[1].sharey(panels[0])
        panels[0].legend(loc="lower right")


def _point(one: Mapping[str, Any]) -> tuple[float, float]:
    return 200 * one["changed_elements"] / one["model_bytes"], 100 * one["wire_bytes"] / one["model_bytes"]
