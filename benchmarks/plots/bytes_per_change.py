"""How many bytes each layout needs for a changed element, against what entropy allows."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes

from benchmarks.layouts import IN_FULL
from benchmarks.plots.style import BOUND, OTHERS, OURS, OURS_LIGHT, saved
from benchmarks.results_file import Results, data_of
from benchmarks.traces.catalogue import MODELS, TRACES


def draw_bytes_per_change(results: Results, path: Path) -> None:
    """Bars by layout, a panel for each model; the lower bound as a line."""
    found = list(data_of(results, "layouts"))
    with saved(path, width=10.5, height=4.4, columns=len(IN_FULL)) as (figure, panels):
        for panel, trace in zip(panels, IN_FULL, strict=True):
            _panel(panel, [one for one in found if one["trace"] == trace], trace)
        panels[0].sharey(panels[1])
        panels[1].tick_params(labelleft=False)
        figure.supxlabel("bytes on the wire for each weight that changed (less is better)", fontsize=10)


def _panel(panel: Axes, found: list[Mapping[str, Any]], trace: str) -> None:
    layouts = sorted((one for one in found if one.get("sparse")), key=_per_change, reverse=True)
    sizes = [_per_change(one) for one in layouts]
    names = [one["layout"] for one in layouts]
    colours = [OTHERS if not one["own"] else OURS if one["layout"] == "Deltawire" else OURS_LIGHT for one in layouts]
    panel.barh(names, sizes, color=colours, height=0.72)
    for row, size in enumerate(sizes):
        panel.text(size + 0.06, row, f"{size:.2f}", va="center")
    bound = next(one for one in found if one.get("bound") == "entropy given exponents")
    least = _per_change(bound)
    panel.axvline(least, color=BOUND, linewidth=1.4, linestyle="--")
    panel.annotate(
        f"entropy of the changes: {least:.2f}",
        (least, 0.2),
        (3.4, 0.2),
        color=BOUND,
        va="center",
        arrowprops={"arrowstyle": "-", "color": BOUND, "linewidth": 0.8},
    )
    share = 2 * bound["changed_elements"] / bound["model_bytes"]
    described = TRACES[trace]
    panel.set_title(
        f"{MODELS[described.model]}\nlearning rate {described.learning_rate}, {share:.1%} changed in a step"
    )
    panel.set_xlim(0, 6.9)
    panel.grid(visible=False, axis="y")


def _per_change(one: Mapping[str, Any]) -> float:
    return float(one["wire_bytes"] / one["changed_elements"])
