"""How fast each layout is written and applied on one core, next to what it needs on the wire."""

from pathlib import Path

from benchmarks.layouts import IN_FULL
from benchmarks.plots.style import colour_of, saved
from benchmarks.results_file import Results, data_of
from benchmarks.traces.catalogue import MODELS, TRACES

_PANELS = (("encode_seconds", "encode"), ("apply_seconds", "decode and apply"))


def draw_speed(results: Results, path: Path) -> None:
    """Bars by layout for encoding and for applying, of the largest model."""
    trace = IN_FULL[-1]
    measured = [one for one in data_of(results, "layouts") if one["trace"] == trace and "copy_seconds" in one]
    found = [one for one in measured if one["sparse"] or not one["own"]]
    names = [one["layout"] for one in found]
    colours = [colour_of(one) for one in found]
    with saved(path, width=10.5, height=4.4, columns=2) as (figure, panels):
        for panel, (key, title) in zip(panels, _PANELS, strict=True):
            speeds = [one["copy_seconds"] / one[key] for one in found]
            panel.barh(names, speeds, color=colours, height=0.72)
            for row, speed in enumerate(speeds):
                panel.text(speed, row, f" {speed:.2f}", va="center")
            panel.set_title(title)
            panel.set_xlim(0, max(speeds) * 1.15)
            panel.grid(visible=False, axis="y")
        panels[0].invert_yaxis()
        panels[1].sharey(panels[0])
        panels[1].tick_params(labelleft=False)
        figure.supxlabel(
            f"speed on one core, 1 = copying the model in memory ({MODELS[TRACES[trace].model]}; more is better)",
            fontsize=10,
        )
