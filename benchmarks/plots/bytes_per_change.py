"""How many bytes each layout needs for a changed element, against what entropy allows."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes

from benchmarks.layouts import IN_FULL
from benchmarks.plots.style import BOUND, colour_of, saved
from benchmarks.results_file import Results, data_of
from benchmarks.traces.catalogue import MODELS, TRACES


def draw_bytes_per_change(results: Results, path: Path) -> None:
    """Bars by layout, a panel for each model; the lower bound as a line."""
    found = list(data_of(results, "layouts"))
    names = _smallest_last(found)
    with saved(path, width=10.5, height=4.4, columns=len(IN_FULL)) as (figure, panels):
        for panel, trace in zip(panels, IN_FULL, strict=True):
            _panel(panel, [one for one in found if one["trace"] == trace], names, trace)
        for panel in panels[1:]:
            panel.tick_params(labelleft=False)
        figure.supxlabel("bytes on the wire for each weight that changed (less is better)", fontsize=10)


def _panel(panel: Axes, found: list[Mapping[str, Any]], names: list[str], trace: str) -> None:
    layouts = {one["layout"]: one for one in found if "layout" in one}
    for row, name in enumerate(names):
        size = _per_change(layouts[name])
        panel.barh(name, size, color=colour_of(layouts[name]), height=0.72)
        panel.text(size + 0.06, row, f"{size:.2f}", va="center")
    bound = next(one for one in found if one.get("bound") == "entropy given exponents")
    least = _per_change(bound)
    line = panel.axvline(least, color=BOUND, linewidth=1.4, linestyle="--")
    panel.legend([line], [f"entropy of the changes: {least:.2f}"], loc="upper right", labelcolor=BOUND)
    share = 2 * bound["changed_elements"] / bound["model_bytes"]
    described = TRACES[trace]
    panel.set_title(
        f"{MODELS[described.model]}\nlearning rate {described.learning_rate}, {share:.1%} changed in a step"
    )
    panel.set_xlim(0, 6.9)
    panel.grid(visible=False, axis="y")


def _smallest_last(found: list[Mapping[str, Any]]) -> list[str]:
    """The layouts whose size follows what changed, in one order for all panels."""
    total: Counter[str] = Counter()
    for one in found:
        if one["trace"] in IN_FULL and one.get("sparse"):
            total[one["layout"]] += one["wire_bytes"] / one["changed_elements"]
    return [name for name, _ in total.most_common()]


def _per_change(one: Mapping[str, Any]) -> float:
    return float(one["wire_bytes"] / one["changed_elements"])
